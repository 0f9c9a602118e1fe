// convert, bitcast_convert, complex, real, imag.
#include <array>
#include <cmath>

#include "lowering/frame.h"
#include "runtime/frame/dtype.h"
#include "stablehlo/evaluator/number.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

// Converts floats to integers: toward zero, numbers out of range to the nearest integer of the type, NaN to 0. The
// kernel converts as C does, which leaves the last two undefined.
Tensor saturated(Frame& frame, const Tensor& x, ElementType to) {
  Emitter& emit = frame.emit;
  const ElementRow& row = element_row(to);
  const bool is_signed = row.kind == ElementKind::kSigned;
  const int bits = is_signed ? row.bits - 1 : row.bits;
  const Sizes& sizes = x.sizes();
  const Tensor wide = emit.converted(x, x.view.dtype == MYDEV_F64 ? MYDEV_F64 : MYDEV_F32);
  const mydev_dtype dtype = wide.view.dtype;
  const auto number = [&](double value) { return emit.splat(dtype, sizes, value); };
  const double above = std::ldexp(1.0, bits);
  const Tensor is_number = emit.pointwise("mydev.eq", MYDEV_PRED, {wide, wide});
  const Tensor defined = emit.pointwise("mydev.where", dtype, {is_number, wide, number(0)});
  const Tensor raised = emit.pointwise("mydev.maximum", dtype, {defined, number(is_signed ? -above : 0)});
  // There may be no float that equals the largest integer: floats from 2^bits on become that integer.
  const Tensor too_large = emit.pointwise("mydev.ge", MYDEV_PRED, {raised, number(above)});
  const Tensor within = emit.pointwise("mydev.where", dtype, {too_large, number(0), raised});
  // Goes through s64, whose conversion is defined for all numbers that are left.
  const Tensor integers = emit.converted(emit.converted(within, MYDEV_S64), dtype_of(to));
  const int64_t largest = static_cast<int64_t>((uint64_t{1} << bits) - 1);
  mydev_scalar value{};
  value.i = largest;
  std::array<std::byte, 16> bytes{};
  store(to, {.integer = largest}, bytes.data());
  const auto one = std::span(bytes).first(static_cast<size_t>(element_bytes(to)));
  const Tensor most = emit.splat(dtype_of(to), sizes, value, one);
  if (is_signed || to == ElementType::kU8) {
    return emit.pointwise("mydev.where", dtype_of(to), {too_large, most, integers});
  }
  // The selection runs on the signed type of the same bits, in which the largest integer is -1: all bits are ones.
  const mydev_dtype same = signed_dtype(dtype_of(to));
  value.i = -1;
  Tensor result = emit.pointwise(
      "mydev.where", same,
      {too_large, emit.splat(same, sizes, value, one), Tensor{with_dtype(integers.view, same), std::nullopt}});
  result.view.dtype = dtype_of(to);
  return result;
}

bool lower_convert(Frame& frame, const Operation& op) {
  const ElementType from = op.operand(0).type->element, to = op.result().type->element;
  const Tensor& x = frame[op.operand(0)];
  if (from == to) {
    frame.set(op.result(), x);
    return true;
  }
  if (!has_kernels(from) || !has_kernels(to)) return false;
  if (to == ElementType::kF8E4M3FN) return false;  // what is too large is NaN, of the kernel the largest number
  if (is_float(from) && is_integer(to)) {
    if (to == ElementType::kU64) return false;  // s64 does not reach so far
    frame.set(op.result(), saturated(frame, x, to));
    return true;
  }
  frame.set(op.result(), frame.emit.converted(x, dtype_of(to)));
  return true;
}

bool lower_bitcast(Frame& frame, const Operation& op) {
  const Type &from = *op.operand(0).type, &to = *op.result().type;
  if (element_bytes(from.element) * 8 != element_row(from.element).bits && from.element != ElementType::kPred)
    return false;
  if (element_bytes(to.element) * 8 != element_row(to.element).bits && to.element != ElementType::kPred) return false;
  program::Operand view = frame.emit.dense(frame.view(op.operand(0)));
  view.dtype = dtype_of(to.element);
  view.sizes = to.dims;
  view.strides = program::dense_strides(to.dims);
  frame.set(op.result(), {view, std::nullopt});
  return true;
}

}  // namespace

bool lower_conversion(Frame& frame, const Operation& op) {
  Emitter& emit = frame.emit;
  switch (op.op) {
    case Operator::kConvert:
      return lower_convert(frame, op);
    case Operator::kBitcastConvert:
      return lower_bitcast(frame, op);
    case Operator::kComplex: {
      const program::Operand result = frame.result_of(op.result());
      emit.copy(real_part(result), frame.view(op.operand(0)));
      emit.copy(imaginary_part(result), frame.view(op.operand(1)));
      frame.set(op.result(), {result, std::nullopt});
      return true;
    }
    case Operator::kReal:
    case Operator::kImag: {
      const Tensor& x = frame[op.operand(0)];
      const bool is_complex = element_row(op.operand(0).type->element).kind == ElementKind::kComplex;
      if (!is_complex) {
        if (op.op == Operator::kReal) frame.set(op.result(), x);
        if (op.op == Operator::kImag) frame.set(op.result(), emit.splat(x.view.dtype, x.sizes(), 0.0));
        return true;
      }
      frame.set(op.result(), {op.op == Operator::kReal ? real_part(x.view) : imaginary_part(x.view), std::nullopt});
      return true;
    }
    default:
      return false;
  }
}

}  // namespace mydev::lowering
