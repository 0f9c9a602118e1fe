// Constants, and operators that only say how elements lie: views where strides can say it, else copies.
#include <algorithm>
#include <array>
#include <functional>

#include "lowering/frame.h"
#include "runtime/frame/dtype.h"
#include "stablehlo/evaluator/number.h"
#include "stablehlo/evaluator/scalar_operation.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

// A number as kernels are given it.
mydev_scalar scalar_of(ElementType type, const std::byte* bytes) {
  const Number number = load(type, bytes);
  mydev_scalar scalar{};
  switch (element_row(type).kind) {
    case ElementKind::kFloat:
      scalar.f = number.real;
      break;
    case ElementKind::kComplex:
      scalar.c[0] = number.real;
      scalar.c[1] = number.imaginary;
      break;
    default:
      scalar.i = number.integer;
  }
  return scalar;
}

// `data`: all elements, or the one that all are equal to.
Tensor constant(Frame& frame, const Type& type, std::span<const std::byte> data, bool is_splat) {
  const mydev_dtype dtype = dtype_of(type.element);
  const auto bytes = static_cast<size_t>(element_bytes(type.element));
  if (is_splat || (type.element_count() == 1 && data.size() == bytes)) {
    return frame.emit.splat(dtype, type.dims, scalar_of(type.element, data.data()), data.first(bytes));
  }
  return frame.emit.constant(dtype, type.dims, data);
}

Tensor iota(Frame& frame, const Operation& op) {
  const Type& type = *op.result().type;
  const auto dimension = static_cast<size_t>(op.integer("iota_dimension"));
  const Sizes line = {type.dims[dimension]};
  const mydev_dtype dtype = dtype_of(type.element);
  const bool floating = element_row(type.element).kind == ElementKind::kFloat;
  mydev_dtype computed = signed_dtype(dtype);
  if (dtype == MYDEV_C64) computed = MYDEV_F32;
  if (dtype == MYDEV_C128) computed = MYDEV_F64;
  Emitter& emit = frame.emit;
  program::Operand result = emit.temporary(computed, line);
  const bool as_float = floating || computed == MYDEV_F32 || computed == MYDEV_F64;
  const std::array attributes = {as_float ? float_attribute("start", 0) : int_attribute("start", 0),
                                 as_float ? float_attribute("step", 1) : int_attribute("step", 1)};
  emit.launch("mydev.arange", {result}, {}, attributes);
  if (dtype == MYDEV_C64 || dtype == MYDEV_C128) {
    result = emit.converted({result, std::nullopt}, dtype).view;
  }
  Tensor tensor{broadcast(with_dtype(result, dtype), type.dims, {static_cast<int64_t>(dimension)})};
  if (!as_float && line[0] > 0) {
    tensor.range = Range{0, line[0] - 1};
    emit.note_indices(result);
  }
  return tensor;
}

// Whether it is made of single numbers for each place that a gather or scatter reads: numbers of one kind then lie
// together, as they are given.
bool is_index_of_parts(Context& context, const Operation& op) {
  const auto last = static_cast<size_t>(op.result().type->rank()) - 1;
  const Operation* user = context.only_user(op.result());
  return user != nullptr && (user->op == Operator::kGather || user->op == Operator::kScatter) &&
         &user->operand(1) == &op.result() && static_cast<size_t>(op.integer("dimension")) == last &&
         op.result().type->dims[last] == static_cast<int64_t>(op.operands.size());
}

Tensor concatenation(Frame& frame, const Operation& op) {
  const auto dimension = static_cast<size_t>(op.integer("dimension"));
  std::vector<program::Operand> parts;
  parts.reserve(op.operands.size());
  for (const Value* operand : op.operands) parts.push_back(frame.view(*operand));
  if (is_index_of_parts(frame.context, op)) return {frame.emit.joined_apart(parts, dimension), std::nullopt};
  const program::Operand result = frame.result_of(op.result());
  frame.emit.join(result, parts, dimension);
  return {result, std::nullopt};
}

Tensor number_result(Frame& frame, const Operation& op, int64_t value) {
  return frame.emit.integer_splat(dtype_of(op.result().type->element), op.result().type->dims, value);
}

Tensor device_number(Frame& frame, const Operation& op, const std::function<int64_t(int64_t device)>& number) {
  Sizes numbers;
  for (int64_t device = 0; device < frame.context.devices.count(); ++device) numbers.push_back(number(device));
  return frame.emit.device_integers(dtype_of(op.result().type->element), op.result().type->dims, numbers);
}

Tensor broadcast_tensor(const Tensor& tensor, const Sizes& sizes, const Sizes& dimensions) {
  return {broadcast(tensor.view, sizes, dimensions), tensor.splat};
}

Sizes trailing(size_t count, size_t rank) {
  Sizes dimensions;
  for (size_t d = rank - count; d < rank; ++d) dimensions.push_back(static_cast<int64_t>(d));
  return dimensions;
}

// How the result's elements lie, as a view of the operand; none: it is another operator.
std::optional<Tensor> view_of(Frame& frame, const Operation& op) {
  const Tensor& x = frame[op.operand(0)];
  const Sizes& sizes = op.result().type->dims;
  switch (op.op) {
    case Operator::kReshape:
    case Operator::kDynamicReshape:
      return x.splat ? broadcast_tensor({broadcast(x.view, {}, {}), x.splat}, sizes, {})
                     : Tensor{frame.emit.reshape(x.view, sizes), std::nullopt};
    case Operator::kBroadcastInDim:
    case Operator::kDynamicBroadcastInDim:
      return broadcast_tensor(x, sizes, op.integers("broadcast_dimensions"));
    case Operator::kBroadcast:
      return broadcast_tensor(x, sizes, trailing(x.sizes().size(), sizes.size()));
    case Operator::kSetDimensionSize:
      return x;
    case Operator::kTranspose:
      return Tensor{transposed(x.view, op.integers("permutation")), x.splat};
    case Operator::kSlice:
      return Tensor{sliced(x.view, op.integers("start_indices"), sizes, op.integers("strides")), x.splat};
    case Operator::kReverse:
      return Tensor{reversed(x.view, op.integers("dimensions")), x.splat};
    default:
      return std::nullopt;
  }
}

}  // namespace

bool lower_known(Frame& frame, const Operation& op) {
  if (!is_elementwise(op) || op.operands.empty() || op.results.size() != 1) return false;
  std::vector<std::vector<std::byte>> operands;
  std::vector<const std::byte*> given;
  for (const Value* operand : op.operands) {
    std::optional<std::vector<std::byte>> elements = frame.emit.known_elements(frame.view(*operand));
    if (!elements || elements->empty()) return false;
    given.push_back(operands.emplace_back(std::move(*elements)).data());
  }
  const Type& type = *op.result().type;
  const auto bytes = static_cast<size_t>(element_bytes(type.element));
  std::vector<std::byte> result(static_cast<size_t>(type.element_count()) * bytes);
  std::byte* const into = result.data();
  make_evaluation(frame.context.module, op)(given, std::span(&into, 1));
  const bool is_splat = std::equal(result.begin() + static_cast<ptrdiff_t>(bytes), result.end(), result.begin());
  frame.set(op.result(), constant(frame, type, result, is_splat));
  return true;
}

bool lower_movement(Frame& frame, const Operation& op) {
  check_shape_operands(frame, op);
  const Devices& devices = frame.context.devices;
  switch (op.op) {
    case Operator::kTuple:
      frame.set_tuple(op.result(), frame.tensors_of(op.operands));
      return true;
    case Operator::kGetTupleElement:
      frame.set(op.result(), frame.tuple(op.operand(0)).at(static_cast<size_t>(op.integer("index"))));
      return true;
    case Operator::kConstant:
      frame.set(op.result(),
                constant(frame, *op.result().type, op.literal("value").bytes, op.literal("value").is_splat));
      return true;
    case Operator::kIota:
    case Operator::kDynamicIota:
      frame.set(op.result(), iota(frame, op));
      return true;
    case Operator::kConcatenate:
      frame.set(op.result(), concatenation(frame, op));
      return true;
    case Operator::kPad:
      frame.set(op.result(),
                {frame.emit.pad(frame[op.operand(0)], frame[op.operand(1)], op.integers("edge_padding_low"),
                                op.integers("edge_padding_high"), op.integers("interior_padding")),
                 std::nullopt});
      return true;
    case Operator::kGetDimensionSize:
      frame.set(op.result(),
                number_result(frame, op, op.operand(0).type->dims.at(static_cast<size_t>(op.integer("dimension")))));
      return true;
    case Operator::kPartitionId:
      frame.set(op.result(), device_number(frame, op, [&](int64_t d) { return d % devices.partitions; }));
      return true;
    case Operator::kReplicaId:
      frame.set(op.result(), device_number(frame, op, [&](int64_t d) { return d / devices.partitions; }));
      return true;
    default:
      break;
  }
  if (op.operands.empty() || op.results.size() != 1 || !op.operand(0).type->is_tensor()) return false;
  std::optional<Tensor> view = view_of(frame, op);
  if (view) frame.set(op.result(), std::move(*view));
  return view.has_value();
}

}  // namespace mydev::lowering
