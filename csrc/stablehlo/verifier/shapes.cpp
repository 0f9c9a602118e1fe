#include "stablehlo/verifier/shapes.h"

#include <algorithm>
#include <vector>

#include "stablehlo/verifier/shape_operands.h"

namespace mydev::stablehlo {

namespace {

using Numbers = std::vector<int64_t>;

template <typename... Parts>
void require(const Operation& op, bool holds, const Parts&... parts) {
  if (!holds) [[unlikely]]
    op.fail(MYDEV_INVALID_ARGUMENT, parts...);
}

// Where one of them is not known, they may be the same.
bool same_size(int64_t left, int64_t right) {
  return left == right || left == kDynamic || right == kDynamic;
}

const Type& tensor(const Operation& op, const Value& value) {
  require(op, value.type->is_tensor(), "it takes and gives tensors, found ", value.type->text());
  return *value.type;
}
const Type& operand(const Operation& op, size_t i = 0) {
  return tensor(op, op.operand(i));
}
const Type& result(const Operation& op, size_t i = 0) {
  return tensor(op, op.result(i));
}

void require_dimension(const Operation& op, std::string_view name, int64_t dimension, int64_t rank) {
  require(op, dimension >= 0 && dimension < rank, "'", name, "' names dimension ", dimension, " of ", rank);
}

// The dimensions that an attribute names, each of them once.
Numbers dimensions(const Operation& op, std::string_view name, int64_t rank) {
  Numbers named = op.integers_or_none(name);
  std::vector<bool> is_named(static_cast<size_t>(rank));
  for (const int64_t dimension : named) {
    require_dimension(op, name, dimension, rank);
    require(op, !is_named[static_cast<size_t>(dimension)], "'", name, "' names dimension ", dimension, " twice");
    is_named[static_cast<size_t>(dimension)] = true;
  }
  return named;
}

Numbers numbers(const Operation& op, std::string_view name, int64_t count) {
  Numbers found = op.integers(name);
  require(op, static_cast<int64_t>(found.size()) == count, "'", name, "' has ", found.size(), " numbers, expected ",
          count);
  return found;
}

Numbers positive_numbers(const Operation& op, std::string_view name, int64_t count) {
  Numbers found = numbers(op, name, count);
  for (const int64_t number : found) require(op, number > 0, "'", name, "' has ", number, ", expected at least 1");
  return found;
}

// A two-dimensional literal with two numbers for each of `count`.
void require_pairs(const Operation& op, std::string_view name, int64_t count) {
  const Type& type = *op.literal(name).type;
  require(op, type.dims == Numbers({count, 2}), "'", name, "' is a ", type.text(),
          ", expected two numbers for each of ", count, " dimensions");
}

void require_result_sizes(const Operation& op, const Numbers& expected, size_t i = 0) {
  const Type& type = result(op, i);
  require(op,
          type.rank() == static_cast<int64_t>(expected.size()) && std::ranges::equal(type.dims, expected, same_size),
          "result ", i, " is of the type ", type.text(), ", whose sizes do not follow from the operands");
}

void require_pred(const Operation& op, const Type& type) {
  require(op, type.element == ElementType::kPred, "found ", type.text(), " where a tensor of i1 is expected");
}

void require_scalar(const Operation& op, const Type& type, const char* what) {
  require(op, type.rank() == 0, what, " is of the type ", type.text(), ", expected a single element");
}

// --- operators ---

void bitcast_convert(const Operation& op) {
  const Type &from = operand(op), &to = result(op);
  if (!from.is_static() || !to.is_static()) return;
  const auto bits = [](const Type& type) { return type.element_count() * element_row(type.element).bits; };
  require(op, bits(from) == bits(to), from.text(), " and ", to.text(), " are not of as many bits");
}

void broadcast(const Operation& op) {
  Numbers sizes = op.integers("broadcast_sizes");
  const Numbers& rest = operand(op).dims;
  sizes.insert(sizes.end(), rest.begin(), rest.end());
  require_result_sizes(op, sizes);
}

void broadcast_in_dim(const Operation& op) {
  const Type &from = operand(op), &to = result(op);
  const Numbers places = dimensions(op, "broadcast_dimensions", to.rank());
  require(op, static_cast<int64_t>(places.size()) == from.rank(), "'broadcast_dimensions' has ", places.size(),
          " dimensions of an operand of rank ", from.rank());
  for (size_t d = 0; d < places.size(); ++d) {
    const int64_t size = to.dims[static_cast<size_t>(places[d])];
    require(op, from.dims[d] == 1 || same_size(from.dims[d], size), "dimension ", d, " of size ", from.dims[d],
            " does not broadcast to size ", size);
  }
}

void case_or_if(const Operation& op) {
  const Type& index = operand(op);
  require_scalar(op, index, "what it chooses by");
  const ElementType expected = op.op == Operator::kIf ? ElementType::kPred : ElementType::kS32;
  require(op, index.element == expected, "it chooses by ", index.text());
}

void clamp(const Operation& op) {
  const Type& to = result(op);
  for (size_t i = 0; i < 3; ++i) {
    const Type& type = operand(op, i);
    require(op, type.element == to.element && (compatible_shapes(type, to) || (i != 1 && type.rank() == 0)), "operand ",
            i, " is of the type ", type.text(), ", and the result of ", to.text());
  }
}

void compare(const Operation& op) {
  require_pred(op, result(op));
  require(op, operand(op, 0).element == operand(op, 1).element, "it compares ", operand(op, 0).text(), " with ",
          operand(op, 1).text());
}

void concatenate(const Operation& op) {
  require(op, !op.operands.empty(), "it has no operands");
  const Type& to = result(op);
  const int64_t dimension = op.integer("dimension");
  require_dimension(op, "dimension", dimension, to.rank());
  int64_t total = 0;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Type& type = operand(op, i);
    require(op, type.rank() == to.rank() && type.element == to.element, "operand ", i, " is of the type ", type.text(),
            ", and the result of ", to.text());
    for (int64_t d = 0; d < to.rank(); ++d) {
      const auto place = static_cast<size_t>(d);
      require(op, d == dimension || same_size(type.dims[place], to.dims[place]), "operand ", i, " is of the type ",
              type.text(), ", and the result of ", to.text());
    }
    const int64_t size = type.dims[static_cast<size_t>(dimension)];
    if (total == kDynamic || size == kDynamic) {
      total = kDynamic;
    } else {
      require(op, !__builtin_add_overflow(total, size, &total), "its operands have more elements than there can be");
    }
  }
  require(op, same_size(total, to.dims[static_cast<size_t>(dimension)]), "the operands have ", total,
          " elements along dimension ", dimension, ", and the result has ", to.dims[static_cast<size_t>(dimension)]);
}

void constant(const Operation& op) {
  const Type &written = *op.literal("value").type, &to = result(op);
  require(op, written.element == to.element && compatible_shapes(written, to), "a literal of the type ", written.text(),
          " is a value of the type ", to.text());
}

void convolution(const Operation& op) {
  const int64_t rank = operand(op).rank();
  require(op, rank >= 2 && operand(op, 1).rank() == rank && result(op).rank() == rank,
          "operands and result are of the ranks ", rank, ", ", operand(op, 1).rank(), " and ", result(op).rank());
  const auto layout = [&](std::string_view spatial, std::string_view first, std::string_view second) {
    Numbers all = dimensions(op, spatial, rank);
    require(op, static_cast<int64_t>(all.size()) == rank - 2, "'", spatial, "' has ", all.size(), " dimensions of ",
            rank - 2);
    for (const std::string_view name : {first, second}) {
      const int64_t dimension = op.integer(name);
      require_dimension(op, name, dimension, rank);
      require(op, std::ranges::find(all, dimension) == all.end(), "'", name, "' is dimension ", dimension,
              ", which has another meaning already");
      all.push_back(dimension);
    }
  };
  layout("input_spatial_dimensions", "input_batch_dimension", "input_feature_dimension");
  layout("kernel_spatial_dimensions", "kernel_input_feature_dimension", "kernel_output_feature_dimension");
  layout("output_spatial_dimensions", "output_batch_dimension", "output_feature_dimension");
  for (const std::string_view name : {"window_strides", "lhs_dilation", "rhs_dilation"}) {
    positive_numbers(op, name, rank - 2);
  }
  numbers(op, "window_reversal", rank - 2);
  if (op.op == Operator::kConvolution) require_pairs(op, "padding", rank - 2);
  for (const std::string_view name : {"feature_group_count", "batch_group_count"}) {
    require(op, op.integer(name) > 0, "'", name, "' is ", op.integer(name), ", expected at least 1");
  }
}

void dot_general(const Operation& op) {
  const Type &left = operand(op, 0), &right = operand(op, 1);
  const Numbers left_batch = dimensions(op, "lhs_batching_dimensions", left.rank());
  const Numbers right_batch = dimensions(op, "rhs_batching_dimensions", right.rank());
  const Numbers left_inner = dimensions(op, "lhs_contracting_dimensions", left.rank());
  const Numbers right_inner = dimensions(op, "rhs_contracting_dimensions", right.rank());
  Numbers sizes;
  const auto require_pairs_of = [&](const Numbers& of_left, const Numbers& of_right, const char* what, bool is_kept) {
    require(op, of_left.size() == of_right.size(), of_left.size(), " and ", of_right.size(), " ", what, " dimensions");
    for (size_t i = 0; i < of_left.size(); ++i) {
      const int64_t size = left.dims[static_cast<size_t>(of_left[i])];
      const int64_t other = right.dims[static_cast<size_t>(of_right[i])];
      require(op, same_size(size, other), what, " dimensions of the sizes ", size, " and ", other);
      if (is_kept) sizes.push_back(size);
    }
  };
  require_pairs_of(left_batch, right_batch, "batching", true);
  require_pairs_of(left_inner, right_inner, "contracting", false);
  const auto append_rest = [&](const Type& type, const Numbers& batch, const Numbers& inner) {
    for (int64_t d = 0; d < type.rank(); ++d) {
      const bool is_batch = std::ranges::find(batch, d) != batch.end();
      const bool is_inner = std::ranges::find(inner, d) != inner.end();
      require(op, !is_batch || !is_inner, "dimension ", d, " is a batching and a contracting one");
      if (!is_batch && !is_inner) sizes.push_back(type.dims[static_cast<size_t>(d)]);
    }
  };
  append_rest(left, left_batch, left_inner);
  append_rest(right, right_batch, right_inner);
  require_result_sizes(op, sizes);
}

void dynamic_slices(const Operation& op) {
  const Type& from = operand(op);
  const std::span<const Value* const> starts = op.operand_group("start_indices");
  require(op, static_cast<int64_t>(starts.size()) == from.rank(), "it has ", starts.size(),
          " start indices of an operand of rank ", from.rank());
  for (const Value* start : starts) require_scalar(op, tensor(op, *start), "a start index");
  const bool is_update = op.op == Operator::kDynamicUpdateSlice;
  const Numbers sizes = is_update ? operand(op, 1).dims : numbers(op, "slice_sizes", from.rank());
  require(op, static_cast<int64_t>(sizes.size()) == from.rank(), "an update of rank ", sizes.size(),
          " of an operand of rank ", from.rank());
  for (size_t d = 0; d < sizes.size(); ++d) {
    require(op, sizes[d] == kDynamic || from.dims[d] == kDynamic || (sizes[d] >= 0 && sizes[d] <= from.dims[d]),
            "a slice of size ", sizes[d], " of dimension ", d, ", which has ", from.dims[d]);
  }
  require_result_sizes(op, is_update ? from.dims : sizes);
}

void fft(const Operation& op) {
  const Numbers lengths = op.integers("fft_length");
  require(op, !lengths.empty() && lengths.size() <= 3 && static_cast<int64_t>(lengths.size()) <= operand(op).rank(),
          "it transforms ", lengths.size(), " dimensions of ", operand(op).rank());
}

// Of both: dimensions of the operand, of the window (in the result or the updates), and of the indices.
void gather_or_scatter(const Operation& op) {
  const bool is_scatter = op.op == Operator::kScatter;
  if (is_scatter) require(op, op.operands.size() >= 3, "it has no operands");
  const Type& from = operand(op);
  const Type& indices = tensor(op, *op.operand_group(is_scatter ? "scatter_indices" : "start_indices")[0]);
  const Type& window = is_scatter ? tensor(op, *op.operand_group("updates")[0]) : result(op);
  dimensions(op, is_scatter ? "update_window_dims" : "offset_dims", window.rank());
  dimensions(op, is_scatter ? "inserted_window_dims" : "collapsed_slice_dims", from.rank());
  dimensions(op, is_scatter ? "input_batching_dims" : "operand_batching_dims", from.rank());
  dimensions(op, is_scatter ? "scatter_indices_batching_dims" : "start_indices_batching_dims", indices.rank());
  const Numbers map = dimensions(op, is_scatter ? "scatter_dims_to_operand_dims" : "start_index_map", from.rank());
  const int64_t vector = op.integer("index_vector_dim");
  require(op, vector >= 0 && vector <= indices.rank(), "'index_vector_dim' is ", vector, " of ", indices.rank());
  const int64_t length = vector == indices.rank() ? 1 : indices.dims[static_cast<size_t>(vector)];
  require(op, same_size(length, static_cast<int64_t>(map.size())), "indices of ", length, " numbers are for ",
          map.size(), " dimensions");
  if (op.op != Operator::kGather) return;
  const Numbers sizes = numbers(op, "slice_sizes", from.rank());
  for (size_t d = 0; d < sizes.size(); ++d) {
    require(op, sizes[d] >= 0 && (from.dims[d] == kDynamic || sizes[d] <= from.dims[d]), "a slice of size ", sizes[d],
            " of dimension ", d, ", which has ", from.dims[d]);
  }
}

void get_tuple_element(const Operation& op) {
  const Type& tuple = *op.operand(0).type;
  const int64_t index = op.integer("index");
  require(op, tuple.kind == TypeKind::kTuple, "it takes a tuple, found ", tuple.text());
  require(op, index >= 0 && index < static_cast<int64_t>(tuple.inputs.size()), "element ", index, " of ", tuple.text());
  require(op, *tuple.inputs[static_cast<size_t>(index)] == *op.result().type, "element ", index, " of ", tuple.text(),
          " is a ", op.result().type->text());
}

void one_dimension(const Operation& op) {
  const bool is_iota = op.op == Operator::kIota || op.op == Operator::kDynamicIota;
  const std::string_view name = is_iota ? "iota_dimension" : "dimension";
  require_dimension(op, name, op.integer(name), is_iota ? result(op).rank() : operand(op).rank());
}

void pad(const Operation& op) {
  const Type& from = operand(op);
  require_scalar(op, operand(op, 1), "the padding");
  const Numbers low = numbers(op, "edge_padding_low", from.rank());
  const Numbers high = numbers(op, "edge_padding_high", from.rank());
  const Numbers interior = numbers(op, "interior_padding", from.rank());
  Numbers sizes(low.size());
  for (size_t d = 0; d < sizes.size(); ++d) {
    require(op, interior[d] >= 0, "'interior_padding' has ", interior[d]);
    int64_t inner = 0;
    const bool overflows = from.dims[d] > 0 && (__builtin_mul_overflow(from.dims[d] - 1, interior[d], &inner) ||
                                                __builtin_add_overflow(inner, from.dims[d], &inner));
    require(op,
            !overflows && !__builtin_add_overflow(inner, low[d], &sizes[d]) &&
                !__builtin_add_overflow(sizes[d], high[d], &sizes[d]),
            "the padding of dimension ", d, " is larger than any tensor");
    if (from.dims[d] == kDynamic) sizes[d] = kDynamic;
  }
  require_result_sizes(op, sizes);
}

void reduce(const Operation& op) {
  require(op, !op.operands.empty(), "it has no operands");
  const Type& from = operand(op);
  const Numbers reduced = dimensions(op, "dimensions", from.rank());
  Numbers sizes;
  for (int64_t d = 0; d < from.rank(); ++d) {
    if (std::ranges::find(reduced, d) == reduced.end()) sizes.push_back(from.dims[static_cast<size_t>(d)]);
  }
  const std::span<const Value* const> inputs = op.operand_group("inputs");
  require(op, op.results.size() == inputs.size(), "it has ", inputs.size(), " inputs and ", op.results.size(),
          " results");
  for (size_t i = 0; i < inputs.size(); ++i) {
    require(op, compatible_shapes(tensor(op, *inputs[i]), from), "its inputs are of different shapes");
    require_scalar(op, tensor(op, *op.operand_group("init_values")[i]), "an initial value");
    require_result_sizes(op, sizes, i);
  }
}

void reduce_window(const Operation& op) {
  require(op, !op.operands.empty(), "it has no operands");
  const int64_t rank = operand(op).rank();
  for (const std::string_view name : {"window_dimensions", "window_strides", "base_dilations", "window_dilations"}) {
    positive_numbers(op, name, rank);
  }
  require_pairs(op, "padding", rank);
  require(op, op.results.size() == op.operand_group("inputs").size(), "it has ", op.operand_group("inputs").size(),
          " inputs and ", op.results.size(), " results");
}

void reshape(const Operation& op) {
  const Type &from = operand(op), &to = result(op);
  require(op, from.element == to.element && same_size(from.element_count(), to.element_count()), from.text(), " and ",
          to.text(), " are not of as many elements");
}

void reverse(const Operation& op) {
  dimensions(op, "dimensions", operand(op).rank());
}

void select(const Operation& op) {
  const Type &condition = operand(op), &to = result(op);
  require_pred(op, condition);
  require(op, condition.rank() == 0 || compatible_shapes(condition, to), "a condition of the type ", condition.text(),
          " chooses elements of ", to.text());
  for (size_t i = 1; i < 3; ++i) {
    require(op, operand(op, i).element == to.element && compatible_shapes(operand(op, i), to), "operand ", i,
            " is of the type ", operand(op, i).text(), ", and the result of ", to.text());
  }
}

void select_and_scatter(const Operation& op) {
  const int64_t rank = operand(op).rank();
  positive_numbers(op, "window_dimensions", rank);
  positive_numbers(op, "window_strides", rank);
  require_pairs(op, "padding", rank);
}

void slice(const Operation& op) {
  const Type& from = operand(op);
  const Numbers starts = numbers(op, "start_indices", from.rank());
  const Numbers limits = numbers(op, "limit_indices", from.rank());
  const Numbers strides = positive_numbers(op, "strides", from.rank());
  Numbers sizes(starts.size());
  for (size_t d = 0; d < sizes.size(); ++d) {
    require(op, starts[d] >= 0 && starts[d] <= limits[d] && (from.dims[d] == kDynamic || limits[d] <= from.dims[d]),
            "elements ", starts[d], " to ", limits[d], " of dimension ", d, ", which has ", from.dims[d]);
    const int64_t length = limits[d] - starts[d];
    sizes[d] = length / strides[d] + (length % strides[d] != 0 ? 1 : 0);
  }
  require_result_sizes(op, sizes);
}

void sort(const Operation& op) {
  require(op, !op.operands.empty(), "it has no operands");
  one_dimension(op);
  for (size_t i = 1; i < op.operands.size(); ++i) {
    require(op, compatible_shapes(operand(op, i), operand(op)), "its operands are of different shapes");
  }
}

void transpose(const Operation& op) {
  const Type& from = operand(op);
  const Numbers permutation = dimensions(op, "permutation", from.rank());
  require(op, static_cast<int64_t>(permutation.size()) == from.rank(), "'permutation' has ", permutation.size(),
          " dimensions of ", from.rank());
  Numbers sizes;
  for (const int64_t dimension : permutation) sizes.push_back(from.dims[static_cast<size_t>(dimension)]);
  require_result_sizes(op, sizes);
}

}  // namespace

void verify_shapes(const Operation& op) {
  verify_shape_operands(op);
  switch (op.op) {
    case Operator::kBitcastConvert:
      return bitcast_convert(op);
    case Operator::kBroadcast:
      return broadcast(op);
    case Operator::kBroadcastInDim:
    case Operator::kDynamicBroadcastInDim:
      return broadcast_in_dim(op);
    case Operator::kCase:
    case Operator::kIf:
      return case_or_if(op);
    case Operator::kClamp:
      return clamp(op);
    case Operator::kCompare:
      return compare(op);
    case Operator::kConcatenate:
      return concatenate(op);
    case Operator::kConstant:
      return constant(op);
    case Operator::kConvolution:
    case Operator::kDynamicConv:
      return convolution(op);
    case Operator::kDotGeneral:
      return dot_general(op);
    case Operator::kDynamicSlice:
    case Operator::kDynamicUpdateSlice:
      return dynamic_slices(op);
    case Operator::kFft:
      return fft(op);
    case Operator::kGather:
    case Operator::kDynamicGather:
    case Operator::kScatter:
      return gather_or_scatter(op);
    case Operator::kGetTupleElement:
      return get_tuple_element(op);
    case Operator::kIota:
    case Operator::kDynamicIota:
    case Operator::kGetDimensionSize:
    case Operator::kSetDimensionSize:
      return one_dimension(op);
    case Operator::kPad:
      return pad(op);
    case Operator::kReduce:
      return reduce(op);
    case Operator::kReduceWindow:
      return reduce_window(op);
    case Operator::kReshape:
    case Operator::kDynamicReshape:
      return reshape(op);
    case Operator::kReverse:
      return reverse(op);
    case Operator::kSelect:
      return select(op);
    case Operator::kSelectAndScatter:
      return select_and_scatter(op);
    case Operator::kSlice:
      return slice(op);
    case Operator::kSort:
      return sort(op);
    case Operator::kTranspose:
      return transpose(op);
    default:
      return;
  }
}

}  // namespace mydev::stablehlo
