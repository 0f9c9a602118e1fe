// Operators that compute element by element, as kernels that do the same.
//
// Unsigned integers that have no kernels are computed as signed ones, if the bits of the result are the same.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "kernels/spec/contract.h"
#include "lowering/frame.h"
#include "lowering/operators/order.h"
#include "runtime/frame/dtype.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

using Op = Operator;

// Element types, as sets.
enum Kinds : uint8_t {
  kPred = 1,
  kInts = 2,     // s8, s16, s32, s64, u8
  kFloats = 4,   // f16, bf16, f32, f64
  kComplex = 8,  // c64, c128
  kBits = 16,    // u16, u32, u64, of whose bits the kernel of the signed type makes the right ones
};

// The kernel's contract says which types it takes.
struct PointwiseRow {
  Op op;
  const char* kernel;
  bool takes_bits = false;  // kBits, too
};

constexpr std::array kRows = {
    PointwiseRow{Op::kAbs, "mydev.abs"},
    PointwiseRow{Op::kAdd, "mydev.add", true},
    PointwiseRow{Op::kAnd, "mydev.bitwise_and", true},
    PointwiseRow{Op::kAtan2, "mydev.atan2"},
    PointwiseRow{Op::kCbrt, "mydev.cbrt"},
    PointwiseRow{Op::kCeil, "mydev.ceil"},
    PointwiseRow{Op::kCosine, "mydev.cos"},
    PointwiseRow{Op::kDivide, "mydev.div"},
    PointwiseRow{Op::kExponential, "mydev.exp"},
    PointwiseRow{Op::kExponentialMinusOne, "mydev.expm1"},
    PointwiseRow{Op::kFloor, "mydev.floor"},
    PointwiseRow{Op::kIsFinite, "mydev.isfinite"},
    PointwiseRow{Op::kLog, "mydev.log"},
    PointwiseRow{Op::kLogPlusOne, "mydev.log1p"},
    PointwiseRow{Op::kLogistic, "mydev.sigmoid"},
    PointwiseRow{Op::kMaximum, "mydev.maximum"},
    PointwiseRow{Op::kMinimum, "mydev.minimum"},
    PointwiseRow{Op::kMultiply, "mydev.mul", true},
    PointwiseRow{Op::kNegate, "mydev.neg", true},
    PointwiseRow{Op::kNot, "mydev.bitwise_not", true},
    PointwiseRow{Op::kOr, "mydev.bitwise_or", true},
    PointwiseRow{Op::kPower, "mydev.pow"},
    PointwiseRow{Op::kRemainder, "mydev.fmod"},
    PointwiseRow{Op::kRoundNearestEven, "mydev.round"},
    PointwiseRow{Op::kRsqrt, "mydev.rsqrt"},
    PointwiseRow{Op::kShiftLeft, "mydev.lshift", true},
    PointwiseRow{Op::kSine, "mydev.sin"},
    PointwiseRow{Op::kSqrt, "mydev.sqrt"},
    PointwiseRow{Op::kSubtract, "mydev.sub", true},
    PointwiseRow{Op::kTan, "mydev.tan"},
    PointwiseRow{Op::kTanh, "mydev.tanh"},
    PointwiseRow{Op::kXor, "mydev.bitwise_xor", true},
};

uint8_t kind_of_type(ElementType type) noexcept {
  if (!has_kernels(type) || element_bytes(type) * 8 < element_row(type).bits) return 0;
  const ElementRow& row = element_row(type);
  switch (row.kind) {
    case ElementKind::kBool:
      return kPred;
    case ElementKind::kSigned:
      return kInts;
    case ElementKind::kUnsigned:
      return type == ElementType::kU8 ? kInts : kBits;
    case ElementKind::kFloat:
      return row.bits >= 16 ? kFloats : 0;  // those of eight bits are converted only
    case ElementKind::kComplex:
      return kComplex;
    default:
      return 0;
  }
}

// The tensor as one of the signed type, whose kernels it uses.
Tensor as_signed(Tensor tensor) {
  const mydev_dtype dtype = signed_dtype(tensor.view.dtype);
  if (tensor.splat && dtype == MYDEV_S16) tensor.splat->i = static_cast<int16_t>(tensor.splat->i);
  if (tensor.splat && dtype == MYDEV_S32) tensor.splat->i = static_cast<int32_t>(tensor.splat->i);
  tensor.view.dtype = dtype;
  return tensor;
}

Tensor number_like(Frame& frame, const Tensor& tensor, double value) {
  return frame.emit.splat(tensor.view.dtype, tensor.sizes(), value);
}

const char* comparison(ComparisonDirection direction) noexcept {
  switch (direction) {
    case ComparisonDirection::kEq:
      return "mydev.eq";
    case ComparisonDirection::kNe:
      return "mydev.ne";
    case ComparisonDirection::kGe:
      return "mydev.ge";
    case ComparisonDirection::kGt:
      return "mydev.gt";
    case ComparisonDirection::kLe:
      return "mydev.le";
    default:
      return "mydev.lt";
  }
}

// The x of a value in which zeros, and all NaN, of x are made equal, as JAX does before it compares by TOTALORDER;
// none: it is another value.
const Value* of_canonical(const Frame& frame, const Value& value) {
  const auto definition = [](const Value& of, Op wanted) {
    return of.definition != nullptr && of.definition->op == wanted ? of.definition : nullptr;
  };
  const auto is_compared = [&](const Value& condition, ComparisonDirection direction) {
    const Operation* compare = definition(condition, Op::kCompare);
    const bool matches = compare != nullptr && compare->get<ComparisonDirection>("comparison_direction") == direction;
    return matches ? compare : nullptr;
  };
  const auto is_number = [&](const Value& of, auto test) {
    const std::optional<mydev_scalar>& splat = frame[of].splat;
    return splat && test(splat->f);
  };
  const auto is_zero = [](double x) { return x == 0; };
  const Operation* outer = definition(value, Op::kSelect);
  const Operation* inner = outer == nullptr ? nullptr : definition(outer->operand(2), Op::kSelect);
  if (inner == nullptr) return nullptr;
  const Operation* is_nan = is_compared(outer->operand(0), ComparisonDirection::kNe);
  const Operation* is_none = is_compared(inner->operand(0), ComparisonDirection::kEq);
  const Value* x = inner->operands[2];
  const bool matches = is_nan != nullptr && is_none != nullptr && value.block == x->block && is_nan->operands[0] == x &&
                       is_nan->operands[1] == x && is_none->operands[0] == x &&
                       is_number(is_none->operand(1), is_zero) && is_number(inner->operand(1), is_zero) &&
                       is_number(outer->operand(1), [](double number) { return std::isnan(number); });
  return matches ? x : nullptr;
}

// Whether a comes before b, or with `or_equal` does not come behind it. NaN is greatest, zeros of either sign are
// equal.
Tensor is_before(Emitter& emit, const Tensor& a, const Tensor& b, bool or_equal) {
  const Tensor &first = or_equal ? a : b, &second = or_equal ? b : a;
  const Tensor not_behind = emit.pointwise("mydev.le", MYDEV_PRED, {first, second});
  const Tensor is_nan = emit.pointwise("mydev.ne", MYDEV_PRED, {second, second});
  const Tensor result = emit.pointwise("mydev.bitwise_or", MYDEV_PRED, {not_behind, is_nan});
  return or_equal ? result : emit.unary("mydev.bitwise_not", MYDEV_PRED, result.view);
}

void lower_total_order(Frame& frame, const Operation& op, ComparisonDirection direction) {
  Emitter& emit = frame.emit;
  const Value *a = of_canonical(frame, op.operand(0)), *b = of_canonical(frame, op.operand(1));
  if (a == nullptr || b == nullptr || direction == ComparisonDirection::kEq || direction == ComparisonDirection::kNe) {
    const Tensor x = in_total_order(emit, frame.view(op.operand(0))),
                 y = in_total_order(emit, frame.view(op.operand(1)));
    frame.set(op.result(), emit.pointwise(comparison(direction), MYDEV_PRED, {x, y}));
    return;
  }
  if (direction == ComparisonDirection::kGt || direction == ComparisonDirection::kGe) std::swap(a, b);
  const bool or_equal = direction == ComparisonDirection::kLe || direction == ComparisonDirection::kGe;
  frame.set(op.result(), is_before(emit, frame[*a], frame[*b], or_equal));
}

bool lower_compare(Frame& frame, const Operation& op, uint8_t kind) {
  const auto direction = op.get<ComparisonDirection>("comparison_direction");
  const auto* type = op.get_if<ComparisonType>("compare_type");
  if (kind == kFloats && type != nullptr && *type == ComparisonType::kTotalOrder) {
    lower_total_order(frame, op, direction);
    return true;
  }
  std::vector<Tensor> operands = frame.tensors_of(op.operands);
  const bool equality = direction == ComparisonDirection::kEq || direction == ComparisonDirection::kNe;
  if (kind == kComplex && !equality) return false;
  if (kind == kPred && equality) {  // truths that differ, and if one is a constant, the other one or its opposite
    if (operands[0].splat) std::swap(operands[0], operands[1]);
    const auto& splat = operands[1].splat;
    const Tensor differ = splat ? operands[0] : frame.emit.pointwise("mydev.bitwise_xor", MYDEV_PRED, operands);
    const bool inverts = (splat && splat->i != 0) != (direction == ComparisonDirection::kEq);
    frame.set(op.result(), inverts ? frame.emit.unary("mydev.bitwise_not", MYDEV_PRED, differ.view) : differ);
    return true;
  }
  for (Tensor& operand : operands) operand = equality ? as_signed(operand) : in_signed_order(frame.emit, operand);
  frame.set(op.result(), frame.emit.pointwise(comparison(direction), MYDEV_PRED, std::move(operands)));
  return true;
}

// Tensors of rank 0 stand for all elements.
Tensor of_sizes(const Tensor& tensor, const Sizes& sizes) {
  return tensor.sizes() == sizes ? tensor : Tensor{broadcast(tensor.view, sizes, {}), tensor.splat};
}

bool lower_select(Frame& frame, const Operation& op, uint8_t kind) {
  if (kind == 0) return false;
  const Sizes& sizes = op.result().type->dims;
  const Tensor condition = of_sizes(frame[op.operand(0)], sizes);
  const Tensor yes = as_signed(frame[op.operand(1)]), no = as_signed(frame[op.operand(2)]);
  Tensor result = frame.emit.pointwise("mydev.where", yes.view.dtype, {condition, yes, no});
  result.view.dtype = dtype_of(op.result().type->element);
  frame.set(op.result(), result);
  return true;
}

bool lower_by_table(Frame& frame, const Operation& op, uint8_t kind) {
  const auto row = std::ranges::find(kRows, op.op, &PointwiseRow::op);
  if (row == kRows.end() || kind == 0 || (kind == kBits && !row->takes_bits)) return false;
  const mydev_dtype taken = signed_dtype(dtype_of(op.operands.back()->type->element));
  if ((contract_dtypes(row->kernel, 'T') & MYDEV_DTYPE_BIT(taken)) == 0) return false;
  std::vector<Tensor> operands = frame.tensors_of(op.operands);
  if (kind == kBits) std::ranges::transform(operands, operands.begin(), as_signed);
  const mydev_dtype result = dtype_of(op.result().type->element);
  const mydev_dtype computed = kind == kBits ? signed_dtype(result) : result;
  Tensor tensor = operands.size() == 1 ? frame.emit.unary(row->kernel, computed, operands[0].view)
                                       : frame.emit.pointwise(row->kernel, computed, std::move(operands));
  tensor.view.dtype = result;
  frame.set(op.result(), tensor);
  return true;
}

// The larger and the smaller of two numbers.
bool lower_extremum(Frame& frame, const Operation& op, uint8_t kind) {
  if (kind != kBits) return lower_by_table(frame, op, kind);
  const Tensor a = in_signed_order(frame.emit, frame[op.operand(0)]),
               b = in_signed_order(frame.emit, frame[op.operand(1)]);
  const char* kernel = op.op == Op::kMaximum ? "mydev.maximum" : "mydev.minimum";
  frame.set(op.result(), from_signed_order(frame.emit, frame.emit.pointwise(kernel, a.view.dtype, {a, b}),
                                           dtype_of(op.result().type->element)));
  return true;
}

bool lower_clamp(Frame& frame, const Operation& op, uint8_t kind) {
  if ((kind & (kInts | kFloats | kPred | kBits)) == 0) return false;
  Emitter& emit = frame.emit;
  const Sizes& sizes = op.result().type->dims;
  const auto ordered = [&](size_t operand) {
    return in_signed_order(emit, of_sizes(frame[op.operand(operand)], sizes));
  };
  const Tensor low = ordered(0), x = ordered(1), high = ordered(2);
  const mydev_dtype dtype = low.view.dtype;
  const Tensor raised = emit.pointwise("mydev.maximum", dtype, {x, low});
  frame.set(op.result(), from_signed_order(emit, emit.pointwise("mydev.minimum", dtype, {raised, high}),
                                           dtype_of(op.result().type->element)));
  return true;
}

// Division of integers, by kernels that refuse a divisor of 0: XLA's quotient is then -1, and its rest the dividend.
Tensor integer_division(Frame& frame, bool is_quotient, const Tensor& a, const Tensor& b) {
  Emitter& emit = frame.emit;
  const mydev_dtype dtype = a.view.dtype;
  const char* kernel = is_quotient ? "mydev.div_trunc" : "mydev.fmod";
  if (b.splat && b.splat->i != 0) return emit.pointwise(kernel, dtype, {a, b});
  const Tensor by_zero = emit.pointwise("mydev.eq", MYDEV_PRED, {b, number_like(frame, b, 0)});
  const Tensor divisor = emit.pointwise("mydev.where", dtype, {by_zero, number_like(frame, b, 1), b});
  const Tensor value = emit.pointwise(kernel, dtype, {a, divisor});
  const Tensor otherwise = is_quotient ? number_like(frame, a, dtype == MYDEV_U8 ? UINT8_MAX : -1) : a;
  return emit.pointwise("mydev.where", dtype, {by_zero, otherwise, value});
}

// Unsigned numbers divided by a power of two: shifted, and the bits that leave them.
Tensor division_by_power(Emitter& emit, bool is_quotient, const Tensor& a, int power) {
  const mydev_dtype dtype = a.view.dtype;
  const int bits = static_cast<int>(dtype_size(dtype)) * 8, kept = is_quotient ? bits - power : power;
  const auto number = [&](int64_t value) { return emit.integer_splat(dtype, a.sizes(), value); };
  const auto mask = static_cast<int64_t>(kept == 64 ? UINT64_MAX : (uint64_t{1} << kept) - 1);
  const Tensor moved = is_quotient && power > 0 ? emit.pointwise("mydev.rshift", dtype, {a, number(power)}) : a;
  return emit.pointwise("mydev.bitwise_and", dtype, {moved, number(mask)});
}

// u16 and u32 are divided in s64, which has their numbers.
bool lower_integer_division(Frame& frame, const Operation& op, uint8_t kind) {
  const bool is_quotient = op.op == Op::kDivide;
  const Tensor &a = frame[op.operand(0)], &b = frame[op.operand(1)];
  const mydev_dtype dtype = dtype_of(op.result().type->element);
  if (kind == kInts) {
    frame.set(op.result(), integer_division(frame, is_quotient, a, b));
    return true;
  }
  if (kind != kBits) return false;
  const uint64_t divisor =
      b.splat ? static_cast<uint64_t>(b.splat->i) & (UINT64_MAX >> (64 - dtype_size(dtype) * 8)) : 0;
  if (std::has_single_bit(divisor) && !a.splat) {
    const Tensor value = division_by_power(frame.emit, is_quotient, as_signed(a), std::countr_zero(divisor));
    frame.set(op.result(), {with_dtype(value.view, dtype)});
    return true;
  }
  if (dtype == MYDEV_U64) return false;
  const auto widened = [&](const Tensor& x) {
    return x.splat ? frame.emit.integer_splat(MYDEV_S64, x.sizes(), x.splat->i) : frame.emit.converted(x, MYDEV_S64);
  };
  const Tensor wide = integer_division(frame, is_quotient, widened(a), widened(b));
  frame.set(op.result(), frame.emit.converted(wide, dtype));
  return true;
}

// Kernels shift right by the sign.
bool lower_shift_right(Frame& frame, const Operation& op, uint8_t kind) {
  if ((kind & (kInts | kBits)) == 0) return false;
  Emitter& emit = frame.emit;
  Tensor a = as_signed(frame[op.operand(0)]), b = as_signed(frame[op.operand(1)]);
  const bool by_sign = op.op == Op::kShiftRightArithmetic;
  if (by_sign && a.view.dtype == MYDEV_U8) a = {with_dtype(a.view, MYDEV_S8)}, b = {with_dtype(b.view, MYDEV_S8)};
  const mydev_dtype dtype = a.view.dtype;
  const auto finish = [&](Tensor result) {
    result.view.dtype = dtype_of(op.result().type->element);
    frame.set(op.result(), result);
    return true;
  };
  if (by_sign || dtype == MYDEV_U8) return finish(emit.pointwise("mydev.rshift", dtype, {a, b}));
  // The highest bits, which are copies of the sign, are cleared. A count that moves all bits out gives 0.
  const auto bits = static_cast<int64_t>(dtype_size(dtype)) * 8;
  const auto number = [&](int64_t value) { return emit.integer_splat(dtype, a.sizes(), value); };
  const Tensor shifted = emit.pointwise("mydev.rshift", dtype, {a, b});
  if (b.splat && b.splat->i > 0 && b.splat->i < bits) {
    const uint64_t mask = (uint64_t{1} << (bits - b.splat->i)) - 1;
    return finish(emit.pointwise("mydev.bitwise_and", dtype, {shifted, number(static_cast<int64_t>(mask))}));
  }
  const Tensor left = emit.pointwise("mydev.sub", dtype, {number(bits), b});
  const Tensor cleared = emit.pointwise("mydev.lshift", dtype, {number(-1), left});
  const Tensor mask = emit.unary("mydev.bitwise_not", dtype, cleared.view);
  const Tensor kept = emit.pointwise("mydev.bitwise_and", dtype, {shifted, mask});
  const Tensor moves_all = emit.pointwise("mydev.bitwise_or", MYDEV_PRED,
                                          {emit.pointwise("mydev.lt", MYDEV_PRED, {b, number(0)}),
                                           emit.pointwise("mydev.ge", MYDEV_PRED, {b, number(bits)})});
  return finish(emit.pointwise("mydev.where", dtype, {moves_all, number(0), kept}));
}

// The number of bits that are set: sums of neighbouring bits, then of twos, of fours, and of bytes.
Tensor bit_count(Emitter& emit, const Tensor& x) {
  const mydev_dtype dtype = x.view.dtype;
  const auto bits = static_cast<int64_t>(dtype_size(dtype)) * 8;
  const auto number = [&](int64_t value) { return emit.integer_splat(dtype, x.sizes(), value); };
  const auto each_byte = [&](uint64_t byte) {
    return number(static_cast<int64_t>(byte * 0x0101010101010101 >> (64 - bits)));
  };
  const auto compute = [&](const char* kernel, const Tensor& a, const Tensor& b) {
    return emit.pointwise(kernel, dtype, {a, b});
  };
  const auto part = [&](const Tensor& a, int64_t shift, uint64_t byte) {
    return compute("mydev.bitwise_and", compute("mydev.rshift", a, number(shift)), each_byte(byte));
  };
  const Tensor twos = compute("mydev.sub", x, part(x, 1, 0x55));
  const Tensor fours = compute("mydev.add", compute("mydev.bitwise_and", twos, each_byte(0x33)), part(twos, 2, 0x33));
  Tensor bytes = compute("mydev.bitwise_and", compute("mydev.add", fours, compute("mydev.rshift", fours, number(4))),
                         each_byte(0x0F));
  if (bits == 8) return bytes;
  return compute("mydev.rshift", compute("mydev.mul", bytes, each_byte(1)), number(bits - 8));
}

// Leading zeros are the bits that are not set once each bit below one that is set is set as well.
bool lower_bit_count(Frame& frame, const Operation& op, uint8_t kind) {
  if ((kind & (kInts | kBits)) == 0) return false;
  Emitter& emit = frame.emit;
  Tensor x = as_signed(frame[op.operand(0)]);
  const mydev_dtype dtype = x.view.dtype;
  if (op.op == Op::kCountLeadingZeros) {
    for (int64_t shift = 1; shift < static_cast<int64_t>(dtype_size(dtype)) * 8; shift *= 2) {
      const Tensor moved = emit.pointwise("mydev.rshift", dtype, {x, emit.integer_splat(dtype, x.sizes(), shift)});
      x = emit.pointwise("mydev.bitwise_or", dtype, {x, moved});
    }
    x = emit.unary("mydev.bitwise_not", dtype, x.view);
  }
  Tensor result = bit_count(emit, x);
  result.view.dtype = dtype_of(op.result().type->element);
  frame.set(op.result(), result);
  return true;
}

// Rounds the bits of floats to fewer bits of significand and exponent, halves to even. Numbers that are too large
// become infinite, those below the least normal number of the format 0.
bool lower_reduce_precision(Frame& frame, const Operation& op) {
  struct Format {
    int exponent, mantissa;
  };
  const Tensor& x = frame[op.operand(0)];
  const Format whole = x.view.dtype == MYDEV_F16    ? Format{5, 10}
                       : x.view.dtype == MYDEV_BF16 ? Format{8, 7}
                       : x.view.dtype == MYDEV_F32  ? Format{8, 23}
                                                    : Format{11, 52};
  const auto exponent = static_cast<int>(op.integer("exponent_bits")),
             mantissa = static_cast<int>(op.integer("mantissa_bits"));
  if (exponent < 1 || mantissa < 0) return false;  // the evaluator refuses it
  if (exponent >= whole.exponent && mantissa >= whole.mantissa) {
    frame.set(op.result(), x);
    return true;
  }
  Emitter& emit = frame.emit;
  const int bits = whole.exponent + whole.mantissa + 1;
  const mydev_dtype dtype = bits == 16 ? MYDEV_S16 : bits == 32 ? MYDEV_S32 : MYDEV_S64;
  const auto number = [&](int64_t value) { return emit.integer_splat(dtype, x.sizes(), value); };
  const auto compute = [&](const char* kernel, const Tensor& a, const Tensor& b) {
    return emit.pointwise(kernel, dtype, {a, b});
  };
  const Tensor given{with_dtype(x.view, dtype)};
  const int64_t infinite = ((int64_t{1} << whole.exponent) - 1) << whole.mantissa;
  const Tensor sign = compute("mydev.bitwise_and", given, number(INT64_MIN >> (64 - bits)));
  const Tensor magnitude = compute("mydev.bitwise_and", given, number(INT64_MAX >> (64 - bits)));
  Tensor rounded = magnitude;
  if (const int dropped = whole.mantissa - mantissa; dropped > 0) {
    const Tensor is_odd = compute("mydev.bitwise_and", compute("mydev.rshift", magnitude, number(dropped)), number(1));
    const Tensor half = compute("mydev.add", is_odd, number((int64_t{1} << (dropped - 1)) - 1));
    rounded = compute("mydev.bitwise_and", compute("mydev.add", magnitude, half), number(-(int64_t{1} << dropped)));
  }
  if (exponent < whole.exponent) {
    const int64_t bias = (int64_t{1} << (whole.exponent - 1)) - 1, reach = (int64_t{1} << (exponent - 1)) - 1;
    const auto choose = [&](const char* kernel, int64_t power, int64_t value) {
      const Tensor beyond = emit.pointwise(kernel, MYDEV_PRED, {rounded, number(power << whole.mantissa)});
      rounded = emit.pointwise("mydev.where", dtype, {beyond, number(value), rounded});
    };
    choose("mydev.lt", bias - reach + 1, 0);
    choose("mydev.ge", bias + reach + 1, infinite);
  }
  const Tensor is_nan = emit.pointwise("mydev.gt", MYDEV_PRED, {magnitude, number(infinite)});
  Tensor result = compute("mydev.bitwise_or", sign, rounded);
  result = emit.pointwise("mydev.where", dtype, {is_nan, given, result});
  frame.set(op.result(), {with_dtype(result.view, x.view.dtype)});
  return true;
}

// The sign of 0 and of NaN is the argument itself.
bool lower_sign(Frame& frame, const Operation& op, uint8_t kind) {
  const Tensor& a = frame[op.operand(0)];
  if (kind == kInts) {
    frame.set(op.result(), frame.emit.unary("mydev.sign", a.view.dtype, a.view));
    return true;
  }
  if (kind != kFloats) return false;
  Emitter& emit = frame.emit;
  const Tensor sign = emit.unary("mydev.sign", a.view.dtype, a.view);
  const Tensor is_none = emit.pointwise("mydev.eq", MYDEV_PRED, {sign, number_like(frame, a, 0)});
  frame.set(op.result(), emit.pointwise("mydev.where", a.view.dtype, {is_none, a, sign}));
  return true;
}

// a + number * b is one kernel; XLA's CPU too rounds it once. The product is left out if nothing else reads it.
bool lower_scaled_sum(Frame& frame, const Operation& op, uint8_t kind) {
  const ElementType type = op.result().type->element;
  if (kind != kFloats || (type != ElementType::kF32 && type != ElementType::kF64)) return false;
  for (const size_t i : {size_t{1}, size_t{0}}) {
    const Operation* product = op.operand(i).definition;
    if (product == nullptr || product->op != Op::kMultiply || product->block != op.block ||
        (i == 0 && op.op == Op::kSubtract)) {
      continue;
    }
    for (const size_t k : {size_t{0}, size_t{1}}) {
      const std::optional<mydev_scalar>& number = frame[product->operand(k)].splat;
      if (!number || frame[product->operand(1 - k)].splat || frame.context.only_user(op.operand(i)) != &op) continue;
      const std::array attributes = {float_attribute("alpha", number->f)};
      const char* kernel = op.op == Op::kAdd ? "mydev.add" : "mydev.sub";
      frame.set(op.result(),
                frame.emit.pointwise(kernel, dtype_of(type), {frame[op.operand(1 - i)], frame[product->operand(1 - k)]},
                                     attributes));
      return true;
    }
  }
  return false;
}

}  // namespace

bool lower_pointwise(Frame& frame, const Operation& op) {
  if (op.operands.empty() || op.results.size() != 1) return false;
  const uint8_t kind = kind_of_type(op.operands.back()->type->element);
  switch (op.op) {
    case Op::kCompare:
      return kind != 0 && lower_compare(frame, op, kind);
    case Op::kSelect:
      return lower_select(frame, op, kind);
    case Op::kMaximum:
    case Op::kMinimum:
      return lower_extremum(frame, op, kind);
    case Op::kReducePrecision:
      return kind == kFloats && lower_reduce_precision(frame, op);
    case Op::kClamp:
      return lower_clamp(frame, op, kind);
    case Op::kSign:
      return lower_sign(frame, op, kind);
    case Op::kShiftRightArithmetic:
    case Op::kShiftRightLogical:
      return lower_shift_right(frame, op, kind);
    case Op::kCountLeadingZeros:
    case Op::kPopcnt:
      return lower_bit_count(frame, op, kind);
    case Op::kDivide:
    case Op::kRemainder:
      if ((kind & (kInts | kBits)) != 0) return lower_integer_division(frame, op, kind);
      return lower_by_table(frame, op, kind);
    case Op::kAdd:
    case Op::kSubtract:
      return lower_scaled_sum(frame, op, kind) || lower_by_table(frame, op, kind);
    default:
      return lower_by_table(frame, op, kind);
  }
}

}  // namespace mydev::lowering
