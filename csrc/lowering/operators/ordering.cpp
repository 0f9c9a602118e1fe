// Sorting, and the places of the largest or smallest elements, if the body compares as kernels do.
//
// Kernels put NaN behind all others, and take zeros of either sign for equal, as JAX's comparators do. XLA's
// TOTALORDER, by sign, is the order of integers that are made of the floats' bits.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "lowering/frame.h"
#include "lowering/loops/body_text.h"
#include "runtime/frame/dtype.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

// Whether kernels know the order of the type; they know u16 to u64 as signed types.
bool is_ordered(ElementType type) noexcept {
  const ElementRow& row = element_row(type);
  const bool is_number = row.kind != ElementKind::kComplex;
  const int least = row.kind == ElementKind::kFloat ? 16 : 8;
  return has_kernels(type) && is_number && (row.kind == ElementKind::kBool || row.bits >= least);
}

// --- sort ------------------------------------------------------------------------------------------------------------

enum class Order : uint8_t { kNumbers, kBits };
struct Comparator {
  size_t key;  // which operand decides
  bool descending;
  Order order;
};

std::string argument(size_t index) {
  return "a" + std::to_string(index);
}
// The text by which JAX makes zeros equal, and all NaN equal.
std::string canonical(const std::string& x) {
  return "select(compare_NE(" + x + "," + x + "),nan,select(compare_EQ(" + x + ",0),0," + x + "))";
}

std::optional<Comparator> comparator_of(const Operation& op) {
  const std::string text = body_text(op.region(), 0);
  for (size_t key = 0; key < op.operands.size(); ++key) {
    const ElementType type = op.operand(key).type->element;
    if (!is_ordered(type)) continue;
    const bool is_float = element_row(type).kind == ElementKind::kFloat;
    const std::string a = argument(2 * key), b = argument(2 * key + 1);
    const auto call = [](const std::string& name, const std::string& x, const std::string& y) {
      return std::string(name).append("(").append(x).append(",").append(y).append(")");
    };
    for (const bool descending : {false, true}) {
      const std::string compare = descending ? "compare_GT" : "compare_LT", total = compare + "_TOTALORDER";
      if (text == call(compare, a, b) || text == call(total, canonical(a), canonical(b))) {
        return Comparator{key, descending, Order::kNumbers};
      }
      if (is_float && text == call(total, a, b)) return Comparator{key, descending, Order::kBits};
    }
  }
  return std::nullopt;
}

Tensor lowest_like(Emitter& emit, const Tensor& tensor) {
  const int bits = static_cast<int>(dtype_size(tensor.view.dtype)) * 8;
  return emit.splat(tensor.view.dtype, tensor.sizes(), -std::ldexp(1.0, bits - 1));
}

mydev_dtype integers_of_size(int64_t bytes) noexcept {
  return bytes == 2 ? MYDEV_S16 : bytes == 4 ? MYDEV_S32 : MYDEV_S64;
}

// The keys that a kernel sorts by. The bits of negative floats, as integers, are greater for smaller floats, so they
// are inverted.
program::Operand sort_key(Emitter& emit, const program::Operand& operand, Order order) {
  if (order == Order::kNumbers && signed_dtype(operand.dtype) == operand.dtype) return operand;
  const mydev_dtype dtype =
      order == Order::kBits ? integers_of_size(dtype_size(operand.dtype)) : signed_dtype(operand.dtype);
  const Tensor bits{with_dtype(operand, dtype)};
  const Tensor turned = emit.pointwise("mydev.bitwise_xor", dtype, {bits, lowest_like(emit, bits)});
  if (order == Order::kNumbers) return turned.view;
  const Tensor reversed = emit.unary("mydev.bitwise_not", dtype, turned.view);
  const Tensor is_negative = emit.pointwise("mydev.lt", MYDEV_PRED, {bits, emit.splat(dtype, bits.sizes(), 0)});
  return emit.pointwise("mydev.where", dtype, {is_negative, reversed, bits}).view;
}

// The number of elements along the dimension that users take. It is less than all if all users are slices, as for the k
// largest.
int64_t kept_of(Context& context, const Operation& op, size_t dimension) {
  const int64_t length = op.operand(0).type->dims[dimension];
  int64_t kept = 0;
  for (const Value* result : op.results) {
    if (context.uses_of(*result).count == 0) continue;
    const Operation* user = context.only_user(*result);
    if (user == nullptr || user->op != Operator::kSlice || user->integers("start_indices")[dimension] != 0 ||
        user->integers("strides")[dimension] != 1) {
      return length;
    }
    kept = std::max(kept, user->result().type->dims[dimension]);
  }
  return kept;
}

bool is_iota_along(const Value& value, int64_t dimension) {
  const Operation* op = value.definition;
  return op != nullptr && op->op == Operator::kIota && op->integer("iota_dimension") == dimension;
}

bool lower_sort(Frame& frame, const Operation& op) {
  const std::optional<Comparator> comparator = comparator_of(op);
  const Sizes& sizes = op.operand(0).type->dims;
  if (!comparator || sizes.empty() || is_empty(sizes)) return false;
  Emitter& emit = frame.emit;
  int64_t dimension = op.integer("dimension", -1);
  if (dimension < 0) dimension += static_cast<int64_t>(sizes.size());
  const auto d = static_cast<size_t>(dimension);
  Sizes lines = {1, sizes[d], 1}, kept_sizes = sizes;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i != d) lines[i < d ? 0 : 2] *= sizes[i];
  }
  Sizes kept_lines = lines;
  kept_lines[1] = kept_sizes[d] = kept_of(frame.context, op, d);
  const program::Operand& operand = frame.view(op.operand(comparator->key));
  const program::Operand key = emit.reshape(sort_key(emit, operand, comparator->order), lines);
  const program::Operand values = emit.temporary(key.dtype, kept_sizes),
                         indices = emit.temporary(MYDEV_S64, kept_sizes);
  const std::array descending = {bool_attribute("descending", comparator->descending)};
  emit.launch("mydev.sort", {dense_reshaped(values, kept_lines), dense_reshaped(indices, kept_lines)}, {key},
              descending);
  for (size_t k = 0; k < op.results.size(); ++k) {
    const program::Operand& from = frame.view(op.operand(k));
    program::Operand sorted = values;
    if (is_iota_along(op.operand(k), dimension)) {
      sorted = emit.converted({indices}, from.dtype).view;
    } else if (k != comparator->key || key.dtype != from.dtype) {
      sorted = emit.temporary(from.dtype, kept_sizes);
      const std::array dim = {integer_attribute("dim", 1)};
      emit.launch("mydev.gather", {dense_reshaped(sorted, kept_lines)},
                  {emit.reshape(from, lines), dense_reshaped(indices, kept_lines)}, dim);
    }
    frame.set(op.result(k), {sorted});
  }
  return true;
}

// --- argmax, argmin --------------------------------------------------------------------------------------------------

// The kernel that reduces to (value, place) as the body does: it gives the first place of equal elements, and of NaN
// the first.
const char* arg_kernel(const Operation& op) {
  const std::string value = body_text(op.region(), 0), place = body_text(op.region(), 1);
  for (const bool largest : {true, false}) {
    const std::string better = largest ? "compare_GT(a0,a2)" : "compare_LT(a0,a2)";
    for (const std::string& taken : {"or(" + better + ",compare_NE(a0,a0))", better}) {
      if (value == "select(" + taken + ",a0,a2)" &&
          place == "select(or(" + taken + ",and(compare_EQ(a0,a2),compare_LT(a1,a3))),a1,a3)") {
        return largest ? "mydev.max_with_index" : "mydev.min_with_index";
      }
    }
  }
  return nullptr;
}

// Whether no element is worse than this value.
bool is_worst(ElementType type, const mydev_scalar& value, bool largest) noexcept {
  const ElementRow& row = element_row(type);
  switch (row.kind) {
    case ElementKind::kFloat:
      return std::isinf(value.f) && std::signbit(value.f) == largest;
    case ElementKind::kSigned:
      return value.i == (largest ? INT64_MIN : INT64_MAX) >> (64 - row.bits);
    default:
      return value.i == (largest ? 0 : (int64_t{1} << row.bits) - 1);
  }
}

bool lower_arg_reduction(Frame& frame, const Operation& op) {
  const Type& type = *op.operand(0).type;
  const Sizes dimensions = op.integers("dimensions");
  const bool has_kernel = op.result().type->element == type.element && is_ordered(type.element) &&
                          signed_dtype(dtype_of(type.element)) == dtype_of(type.element);
  if (dimensions.size() != 1 || is_empty(type.dims) || !has_kernel || !is_iota_along(op.operand(1), dimensions[0])) {
    return false;
  }
  const char* kernel = arg_kernel(op);
  const std::optional<mydev_scalar>&worst = frame[op.operand(2)].splat, &first = frame[op.operand(3)].splat;
  if (kernel == nullptr || !worst || !first || first->i != 0 ||
      !is_worst(type.element, *worst, std::string_view(kernel) == "mydev.max_with_index")) {
    return false;
  }
  Emitter& emit = frame.emit;
  const auto d = static_cast<size_t>(dimensions[0]);
  const auto over_operand = [&](program::Operand view) {  // with the operand's sizes
    view.sizes = type.dims;
    view.strides.insert(view.strides.begin() + static_cast<std::ptrdiff_t>(d), 0);
    return view;
  };
  const program::Operand values = frame.result_of(op.result(0));
  const program::Operand places = emit.temporary(MYDEV_S64, op.result(1).type->dims);
  emit.launch(kernel, {over_operand(values), over_operand(places)}, {frame.view(op.operand(0))});
  frame.set(op.result(0), {values});
  frame.set(op.result(1), emit.converted({places}, dtype_of(op.result(1).type->element)));
  return true;
}

}  // namespace

bool lower_ordering(Frame& frame, const Operation& op) {
  if (op.op == Operator::kSort) return lower_sort(frame, op);
  return op.op == Operator::kReduce && op.results.size() == 2 && lower_arg_reduction(frame, op);
}

}  // namespace mydev::lowering
