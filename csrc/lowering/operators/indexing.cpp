// Parts of tensors that begin where other tensors say: gather, scatter, dynamic_slice, dynamic_update_slice.
//
// All are one kind of kernel: parts [n, w...] of a tensor [d...], and an index [n, k] of where each begins along k
// dimensions of the tensor.
#include <algorithm>
#include <array>

#include "lowering/frame.h"
#include "lowering/operators/order.h"
#include "stablehlo/evaluator/scalar_program.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

constexpr size_t kMostDimensions = 15;  // of the kernels' tensors

bool has(const Sizes& dimensions, int64_t d) noexcept {
  return std::ranges::count(dimensions, d) != 0;
}

Sizes numbers_but(size_t count, const Sizes& left_out) {
  Sizes rest;
  for (int64_t d = 0; d < static_cast<int64_t>(count); ++d) {
    if (!has(left_out, d)) rest.push_back(d);
  }
  return rest;
}

bool is_index(ElementType type) noexcept {
  return is_integer(type) && element_row(type).bits >= 8 && type != ElementType::kU64;  // s64 holds all others
}

// The index in a dtype that kernels take: s32 or s64.
program::Operand index_of(Emitter& emit, const program::Operand& view) {
  if (view.dtype == MYDEV_S32 || view.dtype == MYDEV_S64) return view;
  return emit.converted({view}, MYDEV_S64).view;
}

// The i of select(i < 0, i + n, i), which is JAX's form of an index that may count from the end of a dimension of size
// n. Kernels count from the end by themselves. nullptr: the value has another form.
const Value* counted_from_end(const Frame& frame, const Value& value, const Block* block, int64_t n) {
  const auto definition = [block](const Value& of, Operator op) {
    const bool is_it = of.definition != nullptr && of.definition->op == op && of.definition->block == block;
    return is_it ? of.definition : nullptr;
  };
  const ElementType type = value.type->element;
  const Operation* select = definition(value, Operator::kSelect);
  if (select == nullptr || (type != ElementType::kS32 && type != ElementType::kS64)) return nullptr;
  const Operation* compare = definition(select->operand(0), Operator::kCompare);
  const Operation* add = definition(select->operand(1), Operator::kAdd);
  const Value* i = &select->operand(2);
  const auto is_number = [&frame](const Value& of, int64_t number) {
    const std::optional<mydev_scalar>& splat = frame[of].splat;
    return splat && splat->i == number;
  };
  const bool matches = compare != nullptr && add != nullptr && &compare->operand(0) == i &&
                       compare->get<ComparisonDirection>("comparison_direction") == ComparisonDirection::kLt &&
                       is_number(compare->operand(1), 0) && &add->operand(0) == i && is_number(add->operand(1), n);
  return matches ? i : nullptr;
}

// The view of such an i, through the broadcasts and reshapes that lead from it to the value; none: there is no such i.
std::optional<program::Operand> view_counted_from_end(const Frame& frame, const Value& value, const Block* block,
                                                      int64_t n) {
  if (const Value* i = counted_from_end(frame, value, block, n)) return frame.view(*i);
  const Operation* op = value.definition;
  if (op == nullptr || op->block != block) return std::nullopt;
  if (op->op == Operator::kBroadcastInDim) {
    const std::optional<program::Operand> view = view_counted_from_end(frame, op->operand(0), block, n);
    if (view) return broadcast(*view, value.type->dims, op->integers("broadcast_dimensions"));
  } else if (op->op == Operator::kReshape) {
    const std::optional<program::Operand> view = view_counted_from_end(frame, op->operand(0), block, n);
    if (view) return reshaped(*view, value.type->dims);
  }
  return std::nullopt;
}

// The starts of the parts of a gather or scatter, [n, k], and the k dimensions along which they are given.
struct Index {
  program::Operand view;
  Sizes dims, batch;     // n is the product of the latter
  int64_t from_end = 0;  // as the kernels' attribute

  int64_t count() const noexcept { return count_of(batch); }
};

// Takes an index that may count from the end as it is before the size is added: the whole index, or some of the parts
// that it is joined of.
program::Operand before_counting(Frame& frame, const Operation& op, const Value& indices, Index& index) {
  const Sizes& whole = op.operand(0).type->dims;
  const auto vector_dim = static_cast<size_t>(op.integer("index_vector_dim"));
  const auto size_of = [&](size_t k) { return whole[static_cast<size_t>(index.dims[k])]; };
  const Operation* join = indices.definition;
  if (index.dims.size() == 1) {
    if (std::optional<program::Operand> view = view_counted_from_end(frame, indices, op.block, size_of(0))) {
      index.from_end = 1;
      return *std::move(view);
    }
  } else if (join != nullptr && join->op == Operator::kConcatenate && join->block == op.block &&
             join->operands.size() == index.dims.size() &&
             static_cast<size_t>(join->integer("dimension")) == vector_dim) {
    std::vector<program::Operand> parts;
    parts.reserve(join->operands.size());
    for (size_t k = 0; k < join->operands.size(); ++k) {
      const std::optional<program::Operand> part = view_counted_from_end(frame, join->operand(k), op.block, size_of(k));
      if (part) index.from_end |= int64_t{1} << k;
      parts.push_back(part ? *part : frame.view(join->operand(k)));
    }
    if (index.from_end != 0) return frame.emit.joined_apart(parts, vector_dim);
  }
  return frame.view(indices);
}

Index index_of(Frame& frame, const Operation& op, const Value& indices, const char* map, const char* operand_batching,
               const char* indices_batching) {
  Emitter& emit = frame.emit;
  Index index;
  index.dims = op.integers(map);
  program::Operand view = index_of(emit, before_counting(frame, op, indices, index));
  const int64_t vector_dim = op.integer("index_vector_dim");
  Sizes order = numbers_but(view.sizes.size(), {vector_dim});
  for (const int64_t d : order) index.batch.push_back(view.sizes[static_cast<size_t>(d)]);
  if (static_cast<size_t>(vector_dim) == view.sizes.size()) {
    view.sizes.push_back(1);
    view.strides.push_back(1);
  }
  order.push_back(vector_dim);
  view = transposed(view, order);
  const Sizes along = op.integers_or_none(operand_batching), batching = op.integers_or_none(indices_batching);
  if (!along.empty()) {
    // Dimensions that go together: the place in the indices is the place in the tensor.
    Sizes sizes = index.batch, start(sizes.size() + 1, 0);
    const Sizes ones(start.size(), 1);
    sizes.push_back(static_cast<int64_t>(index.dims.size() + along.size()));
    const program::Operand all = emit.temporary(view.dtype, sizes);
    emit.copy(sliced(all, start, view.sizes, ones), view);
    start.back() = view.sizes.back();
    sizes.back() = 1;
    for (size_t i = 0; i < along.size(); ++i, ++start.back()) {
      const int64_t d = batching[i] - (batching[i] > vector_dim ? 1 : 0);
      const program::Operand places = emit.temporary(view.dtype, {index.batch[static_cast<size_t>(d)]});
      const std::array attributes = {int_attribute("start", 0), int_attribute("step", 1)};
      emit.launch("mydev.arange", {places}, {}, attributes);
      emit.copy(sliced(all, start, sizes, ones), broadcast(places, sizes, {d}));
      index.dims.push_back(along[i]);
    }
    view = all;
  }
  index.view = emit.reshape(view, {index.count(), static_cast<int64_t>(index.dims.size())});
  return index;
}

bool lower_gather(Frame& frame, const Operation& op) {
  const Type &operand = *op.operand(0).type, &result = *op.result().type;
  if (operand.rank() == 0 || operand.dims.size() > kMostDimensions || !is_index(op.operand(1).type->element)) {
    return false;
  }
  Emitter& emit = frame.emit;
  const program::Operand& in = frame.view(op.operand(0));
  if (is_empty(result.dims)) {
    frame.set(op.result(), {frame.result_of(op.result())});
    return true;
  }
  const Index index =
      index_of(frame, op, op.operand(1), "start_index_map", "operand_batching_dims", "start_indices_batching_dims");
  Sizes parts = op.integers("slice_sizes"), sizes = index.batch;
  parts.insert(parts.begin(), index.count());
  // [batch..., part...], and where the result has them.
  const Sizes offsets = op.integers("offset_dims");
  for (const int64_t d : offsets) sizes.push_back(result.dims[static_cast<size_t>(d)]);
  Sizes order(result.dims.size());
  int64_t next_batch = 0, next_offset = static_cast<int64_t>(index.batch.size());
  for (size_t d = 0; d < order.size(); ++d) {
    order[d] = has(offsets, static_cast<int64_t>(d)) ? next_offset++ : next_batch++;
  }
  const program::Operand out = emit.temporary(in.dtype, sizes);
  const std::array attributes = {int_array_attribute("dims", index.dims), int_attribute("from_end", index.from_end)};
  emit.launch("mydev.gather_slices", {dense_reshaped(out, parts)}, {in, index.view}, attributes);
  frame.set(op.result(), {transposed(out, order)});
  return true;
}

// The kernel that combines elements as the body does; nullptr: none.
const char* scatter_kernel(const Context& context, const Operation& op) {
  const Block& body = op.region().body();
  const ElementType type = op.operand(0).type->element;
  if (body.operations.size() == 1 && body.terminator().operands[0] == body.arguments[1]) return "mydev.scatter_slices";
  const Operation* combine = ScalarProgram(context.module, op.region()).only_operation();
  const ElementRow& row = element_row(type);
  if (combine == nullptr || !has_kernels(type) || row.bits < (row.kind == ElementKind::kBool ? 1 : 8) ||
      (row.kind == ElementKind::kFloat && row.bits < 16)) {
    return nullptr;
  }
  const bool is_complex = row.kind == ElementKind::kComplex;
  switch (combine->op) {
    case Operator::kAdd:
      return "mydev.scatter_slices_add";
    case Operator::kMultiply:
      return "mydev.scatter_slices_mul";
    case Operator::kMaximum:
      return !is_complex ? "mydev.scatter_slices_max" : nullptr;
    case Operator::kMinimum:
      return !is_complex ? "mydev.scatter_slices_min" : nullptr;
    default:
      return nullptr;
  }
}

// A kernel that compares takes unsigned numbers in the order of signed ones, others take their bits.
void scatter(Frame& frame, const Operation& op, const char* kernel, const program::Operand& values,
             const program::Operand& index, const Sizes& dims, bool clamp, int64_t from_end) {
  Emitter& emit = frame.emit;
  const std::string_view name = kernel;
  const bool compares = name == "mydev.scatter_slices_max" || name == "mydev.scatter_slices_min";
  const auto given = [&](const program::Operand& view) {
    return compares ? in_signed_order(emit, {view}).view : with_dtype(view, signed_dtype(view.dtype));
  };
  const program::Operand in = given(emit.dense(frame.view(op.operand(0)))), part = given(values);
  const mydev_dtype dtype = dtype_of(op.result().type->element);
  const program::Operand out = emit.temporary(compares ? in.dtype : dtype, in.sizes);
  const std::array attributes = {int_array_attribute("dims", dims), bool_attribute("clamp", clamp),
                                 int_attribute("from_end", from_end)};
  emit.launch(kernel, {with_dtype(out, in.dtype)}, {in, index, part}, attributes);
  frame.set(op.result(), compares ? from_signed_order(emit, {out}, dtype) : Tensor{out});
}

bool lower_scatter(Frame& frame, const Operation& op) {
  const Type &operand = *op.operand(0).type, &updates = *op.operand(op.operands.size() - 1).type;
  if (op.results.size() != 1 || operand.rank() == 0 || operand.dims.size() > kMostDimensions ||
      !is_index(op.operand(1).type->element)) {
    return false;
  }
  const char* kernel = scatter_kernel(frame.context, op);
  if (kernel == nullptr) return false;
  if (is_empty(updates.dims)) {
    frame.set(op.result(), frame[op.operand(0)]);
    return true;
  }
  const Sizes window = op.integers("update_window_dims");
  const Index index = index_of(frame, op, op.operand(1), "scatter_dims_to_operand_dims", "input_batching_dims",
                               "scatter_indices_batching_dims");
  Sizes order = numbers_but(updates.dims.size(), window);
  order.insert(order.end(), window.begin(), window.end());
  Sizes parts = {index.count()};
  size_t next = 0;
  const Sizes inserted = op.integers("inserted_window_dims"), batching = op.integers_or_none("input_batching_dims");
  for (int64_t d = 0; d < operand.rank(); ++d) {
    const bool is_one = has(inserted, d) || has(batching, d);
    parts.push_back(is_one ? 1 : updates.dims[static_cast<size_t>(window[next++])]);
  }
  const program::Operand values = frame.emit.reshape(transposed(frame.view(op.operand(2)), order), parts);
  scatter(frame, op, kernel, values, index.view, index.dims, /*clamp=*/false, index.from_end);
  return true;
}

// --- one part --------------------------------------------------------------------------------------------------------

// The start of the one part of a tensor, along dimensions where it is known and along those where only the device knows
// it.
struct Start {
  Sizes known;  // 0 where it is not
  Sizes dims;   // where it is not
  std::vector<const Value*> values;
  int64_t from_end = 0;  // as the kernels' attribute
};

Start start_of(const Frame& frame, const Operation& op, size_t first, const Sizes& sizes) {
  const Sizes& whole = op.operand(0).type->dims;
  Start start;
  for (size_t d = 0; d < whole.size(); ++d) {
    const Value& value = op.operand(first + d);
    const std::optional<mydev_scalar>& number = frame[value].splat;
    const int64_t last = whole[d] - sizes[d];
    start.known.push_back(number ? std::clamp<int64_t>(number->i, 0, last) : 0);
    if (number || last == 0) continue;
    const Value* i = counted_from_end(frame, value, op.block, whole[d]);
    if (i != nullptr) start.from_end |= int64_t{1} << start.dims.size();
    start.dims.push_back(static_cast<int64_t>(d));
    start.values.push_back(i != nullptr ? i : &value);
  }
  return start;
}

// [1, k]
program::Operand index_of(Frame& frame, const Start& start) {
  Emitter& emit = frame.emit;
  const auto count = static_cast<int64_t>(start.values.size());
  if (count == 1) return dense_reshaped(index_of(emit, frame.view(*start.values[0])), {1, 1});
  std::vector<program::Operand> places;
  places.reserve(start.values.size());
  for (const Value* value : start.values) places.push_back(index_of(emit, frame.view(*value)));
  const program::Operand index = emit.temporary(places[0].dtype, {1, count});
  for (int64_t k = 0; k < count; ++k) {
    emit.copy(sliced(index, {0, k}, {1, 1}, {1, 1}), dense_reshaped(places[static_cast<size_t>(k)], {1, 1}));
  }
  return index;
}

bool lower_dynamic_slice(Frame& frame, const Operation& op) {
  const Sizes& sizes = op.result().type->dims;
  if (sizes.size() > kMostDimensions || (op.operands.size() > 1 && !is_index(op.operand(1).type->element)))
    return false;
  Emitter& emit = frame.emit;
  const Start start = start_of(frame, op, 1, sizes);
  // The known starts make a view.
  Sizes rest = frame[op.operand(0)].sizes();
  for (size_t d = 0; d < rest.size(); ++d) {
    if (!has(start.dims, static_cast<int64_t>(d))) rest[d] = sizes[d];
  }
  const program::Operand part = sliced(frame.view(op.operand(0)), start.known, rest, Sizes(rest.size(), 1));
  if (start.dims.empty() || is_empty(sizes)) {
    frame.set(op.result(), {sliced(part, Sizes(rest.size(), 0), sizes, Sizes(rest.size(), 1))});
    return true;
  }
  const program::Operand out = frame.result_of(op.result());
  frame.set(op.result(), {out});
  const std::array attributes = {int_array_attribute("dims", start.dims), int_attribute("from_end", start.from_end)};
  emit.launch("mydev.gather_slices", {dense_reshaped(out, as_one_part(sizes))}, {part, index_of(frame, start)},
              attributes);
  return true;
}

bool lower_dynamic_update_slice(Frame& frame, const Operation& op) {
  const Sizes& sizes = op.operand(1).type->dims;
  if (sizes.size() > kMostDimensions || (op.operands.size() > 2 && !is_index(op.operand(2).type->element)))
    return false;
  Emitter& emit = frame.emit;
  const Start start = start_of(frame, op, 2, sizes);
  if (is_empty(sizes)) {
    frame.set(op.result(), frame[op.operand(0)]);
    return true;
  }
  if (start.dims.empty()) {
    const program::Operand out = emit.duplicate(frame.view(op.operand(0)));
    frame.set(op.result(), {out});
    emit.copy(sliced(out, start.known, sizes, Sizes(sizes.size(), 1)), frame.view(op.operand(1)));
    return true;
  }
  Start all = start;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (start.known[d] == 0) continue;
    all.dims.push_back(static_cast<int64_t>(d));
    all.values.push_back(&op.operand(2 + d));
  }
  const program::Operand values = emit.reshape(frame.view(op.operand(1)), as_one_part(sizes));
  scatter(frame, op, "mydev.scatter_slices", values, index_of(frame, all), all.dims, /*clamp=*/true, all.from_end);
  return true;
}

}  // namespace

bool lower_indexing(Frame& frame, const Operation& op) {
  switch (op.op) {
    case Operator::kGather:
      return lower_gather(frame, op);
    case Operator::kScatter:
      return lower_scatter(frame, op);
    case Operator::kDynamicSlice:
      return lower_dynamic_slice(frame, op);
    case Operator::kDynamicUpdateSlice:
      return lower_dynamic_update_slice(frame, op);
    default:
      return false;
  }
}

}  // namespace mydev::lowering
