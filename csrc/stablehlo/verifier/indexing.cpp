// Parts of tensors that begin at places given by other tensors: gather, scatter, and the dynamic slices.
#include <array>
#include <string>

#include "stablehlo/verifier/checks.h"
#include "stablehlo/verifier/rules.h"

namespace mydev::stablehlo::verifier {

namespace {

bool has(const Numbers& dimensions, int64_t d) {
  return std::ranges::find(dimensions, d) != dimensions.end();
}

// --- slices ----------------------------------------------------------------------------------------------------------

void dynamic_slices(const Operation& op) {
  const Type& from = operand(op);
  const std::span<const Value* const> starts = op.operand_group("start_indices");
  require(op, static_cast<int64_t>(starts.size()) == from.rank(), "it has ", starts.size(),
          " start indices of an operand of rank ", from.rank());
  for (const Value* start : starts) {
    const ElementType element = tensor(op, *starts[0]).element;
    require(op, is_integer(element), "it begins at ", starts[0]->type->text(), ", expected an integer");
    require_type(op, tensor(op, *start), element, {}, "a start index");
  }
  const bool is_update = op.op == Operator::kDynamicUpdateSlice;
  const Numbers sizes = is_update ? operand(op, 1).dims : numbers(op, "slice_sizes", from.rank());
  require(op, static_cast<int64_t>(sizes.size()) == from.rank(), "an update of rank ", sizes.size(),
          " of an operand of rank ", from.rank());
  for (size_t d = 0; d < sizes.size(); ++d) {
    require(op, sizes[d] == kDynamic || from.dims[d] == kDynamic || (sizes[d] >= 0 && sizes[d] <= from.dims[d]),
            "a slice of size ", sizes[d], " of dimension ", d, ", which has ", from.dims[d]);
  }
  if (is_update) require_type(op, operand(op, 1), from.element, sizes, "the update");
  require_result(op, from.element, is_update ? from.dims : sizes);
}

// --- gather and scatter ----------------------------------------------------------------------------------------------

// gather and scatter share this: windows of a tensor, one for each index. They lie in another tensor, gather's result
// or scatter's updates. These are their names of the dimensions:
struct Names {
  std::string_view window, dropped, batching, index_batching, map;
};
constexpr Names kGatherNames = {"offset_dims", "collapsed_slice_dims", "operand_batching_dims",
                                "start_indices_batching_dims", "start_index_map"};
constexpr Names kScatterNames = {"update_window_dims", "inserted_window_dims", "input_batching_dims",
                                 "scatter_indices_batching_dims", "scatter_dims_to_operand_dims"};

struct Dimensions {
  Numbers window, dropped, batching;
};

// Batching dimensions that go together have the same size. `dropped` and the map contain none of them.
void require_batching(const Operation& op, const Names& names, const Type& from, const Type& indices,
                      const Dimensions& of, const Numbers& map) {
  const Numbers index_batching = dimensions(op, names.index_batching, indices.rank());
  require(op, of.batching.size() == index_batching.size(), "'", names.batching, "' has ", of.batching.size(),
          " dimensions, and '", names.index_batching, "' ", index_batching.size());
  require(op, !has(index_batching, op.integer("index_vector_dim")), "'", names.index_batching,
          "' names 'index_vector_dim'");
  for (size_t i = 0; i < of.batching.size(); ++i) {
    const int64_t d = of.batching[i];
    require(op, !has(of.dropped, d) && !has(map, d), "dimension ", d, " is in '", names.batching, "', and in '",
            names.dropped, "' or '", names.map, "' as well");
    const int64_t size = from.dims[static_cast<size_t>(d)],
                  other = indices.dims[static_cast<size_t>(index_batching[i])];
    require(op, same_size(size, other), "batching dimensions of the sizes ", size, " and ", other);
  }
}

// The dimensions that the attributes name. `rank` is that of the tensor that the windows lie in. Requires that each
// dimension of the operand is named once and that the ranks fit.
Dimensions dimensions_of(const Operation& op, const Names& names, const Type& from, const Type& indices, int64_t rank) {
  Dimensions of{dimensions(op, names.window, rank), dimensions(op, names.dropped, from.rank()),
                dimensions(op, names.batching, from.rank())};
  for (const std::string_view name : {names.window, names.dropped, names.batching}) {
    require(op, std::ranges::is_sorted(op.integers_or_none(name)), "'", name, "' is not in ascending order");
  }
  const size_t named = of.window.size() + of.dropped.size() + of.batching.size();
  require(op, static_cast<int64_t>(named) == from.rank(), "'", names.window, "', '", names.dropped, "' and '",
          names.batching, "' are ", named, " dimensions of an operand of rank ", from.rank());
  require(op, is_integer(indices.element), "indices are of the type ", indices.text(), ", expected integers");
  const Numbers map = dimensions(op, names.map, from.rank());
  const int64_t vector = op.integer("index_vector_dim");
  require(op, vector >= 0 && vector <= indices.rank(), "'index_vector_dim' is ", vector, " of ", indices.rank());
  const int64_t length = vector == indices.rank() ? 1 : indices.dims[static_cast<size_t>(vector)];
  require(op, same_size(length, std::ssize(map)), "indices of ", length, " numbers are for ", map.size(),
          " dimensions");
  require_batching(op, names, from, indices, of, map);
  const int64_t batch = indices.rank() - (vector == indices.rank() ? 0 : 1);
  require(op, rank == batch + std::ssize(of.window), "windows of ", of.window.size(), " dimensions for indices of ",
          batch, " lie in a tensor of rank ", rank);
  return of;
}

// The sizes of the tensor that the windows lie in: the windows' sizes at `window`, those of the indices elsewhere.
Numbers sizes_of(const Operation& op, const Type& indices, const Numbers& window, const Numbers& window_sizes) {
  Numbers batch = indices.dims;
  const auto vector = static_cast<size_t>(op.integer("index_vector_dim"));
  if (vector < batch.size()) batch.erase(batch.begin() + static_cast<std::ptrdiff_t>(vector));
  Numbers sizes;
  for (size_t next_batch = 0, next_window = 0; next_batch < batch.size() || next_window < window_sizes.size();) {
    const bool is_window = has(window, std::ssize(sizes));
    sizes.push_back(is_window ? window_sizes[next_window++] : batch[next_batch++]);
  }
  return sizes;
}

// A window has one element along dropped dimensions, and lies within the tensor.
void require_windows(const Operation& op, const Type& from, const Dimensions& of, const Numbers& sizes) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    const bool is_one = has(of.dropped, static_cast<int64_t>(d)) || has(of.batching, static_cast<int64_t>(d));
    require(op, !is_one || sizes[d] <= 1, "a slice of size ", sizes[d], " of dimension ", d,
            ", of which the result has single elements");
    require(op, sizes[d] == kDynamic || from.dims[d] == kDynamic || (sizes[d] >= 0 && sizes[d] <= from.dims[d]),
            "a slice of size ", sizes[d], " of dimension ", d, ", which has ", from.dims[d]);
  }
}

// The window's size for each dimension of the operand, from the tensor that the windows lie in; 1 if it is dropped.
Numbers window_sizes(const Type& from, const Type& to, const Dimensions& of) {
  Numbers sizes;
  size_t next = 0;
  for (int64_t d = 0; d < from.rank(); ++d) {
    const bool is_one = has(of.dropped, d) || has(of.batching, d);
    sizes.push_back(is_one ? 1 : to.dims[static_cast<size_t>(of.window[next++])]);
  }
  return sizes;
}

void gather(const Operation& op) {
  const Type &from = operand(op), &indices = operand(op, 1), &to = result(op);
  const Dimensions of = dimensions_of(op, kGatherNames, from, indices, to.rank());
  const bool is_dynamic = op.op == Operator::kDynamicGather;  // whose sizes are an operand
  const Numbers sizes = is_dynamic ? window_sizes(from, to, of) : numbers(op, "slice_sizes", from.rank());
  require_windows(op, from, of, sizes);
  Numbers kept;
  for (int64_t d = 0; d < from.rank(); ++d) {
    if (!has(of.dropped, d) && !has(of.batching, d)) kept.push_back(sizes[static_cast<size_t>(d)]);
  }
  require_result(op, from.element, sizes_of(op, indices, of.window, kept));
  for (int64_t d = 0; d < from.rank(); ++d) {
    const bool is_one = has(of.dropped, d) || has(of.batching, d);
    require(op, !is_one || sizes[static_cast<size_t>(d)] != 0 || to.element_count() <= 0, "there is no element of a ",
            from.text(), " along dimension ", d, " for a ", to.text());
  }
}

void scatter(const Operation& op) {
  const std::span<const Value* const> inputs = op.operand_group("inputs"), updates = op.operand_group("updates");
  require(op, !inputs.empty(), "it has no operands");
  require(op, op.results.size() == inputs.size(), "it has ", inputs.size(), " inputs and ", op.results.size(),
          " results");
  const Type &from = operand(op), &indices = tensor(op, *op.operand_group("scatter_indices")[0]),
             &first = tensor(op, *updates[0]);
  const Dimensions of = dimensions_of(op, kScatterNames, from, indices, first.rank());
  const Numbers sizes = window_sizes(from, first, of);
  for (size_t d = 0; d < sizes.size(); ++d) {
    const bool is_one = has(of.dropped, static_cast<int64_t>(d)) || has(of.batching, static_cast<int64_t>(d));
    require(op, is_one || sizes[d] == kDynamic || from.dims[d] == kDynamic || sizes[d] <= from.dims[d],
            "an update of size ", sizes[d], " of dimension ", d, ", which has ", from.dims[d]);
  }
  Numbers kept;
  for (const int64_t d : of.window) kept.push_back(first.dims[static_cast<size_t>(d)]);
  const Numbers expected = sizes_of(op, indices, of.window, kept);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Type& input = tensor(op, *inputs[i]);
    require_type(op, input, input.element, from.dims, "input " + std::to_string(i));
    require_type(op, tensor(op, *updates[i]), input.element, expected, "update " + std::to_string(i));
    require_result(op, input.element, from.dims, i);
  }
}

constexpr RuleRow kIndexingRules[] = {
    {Operator::kDynamicSlice, dynamic_slices},
    {Operator::kDynamicUpdateSlice, dynamic_slices},
    {Operator::kGather, gather},
    {Operator::kDynamicGather, gather},
    {Operator::kScatter, scatter},
};

}  // namespace

std::span<const RuleRow> indexing_rules() noexcept {
  return kIndexingRules;
}

}  // namespace mydev::stablehlo::verifier
