#include "stablehlo/evaluator/scalar_operation.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>

namespace mydev::stablehlo {

namespace {

using Op = Operator;

uint64_t bits_of(int64_t value) noexcept {
  return static_cast<uint64_t>(value);
}
int64_t from_bits(uint64_t bits) noexcept {
  return static_cast<int64_t>(bits);
}

// A key that orders floats as totalOrder does.
int64_t total_key(ElementType type, const Number& number) noexcept {
  std::array<std::byte, 16> bytes{};
  store(type, number, bytes.data());
  const int64_t width = element_bytes(type) * 8;
  int64_t bits = 0;
  std::copy_n(bytes.begin(), element_bytes(type), reinterpret_cast<std::byte*>(&bits));
  bits = from_bits(bits_of(bits) << (64 - width));
  return bits < 0 ? bits ^ INT64_MAX : bits;
}

template <typename T>
bool holds(ComparisonDirection direction, T a, T b) noexcept {
  switch (direction) {
    case ComparisonDirection::kEq:
      return a == b;
    case ComparisonDirection::kNe:
      return a != b;
    case ComparisonDirection::kGe:
      return a >= b;
    case ComparisonDirection::kGt:
      return a > b;
    case ComparisonDirection::kLe:
      return a <= b;
    default:
      return a < b;
  }
}

template <typename T>
T larger(T a, T b) noexcept {
  return a >= b || a != a ? a : b;
}
template <typename T>
T smaller(T a, T b) noexcept {
  return a <= b || a != a ? a : b;
}

int64_t integer_power(int64_t base, int64_t exponent, bool is_signed) noexcept {
  if (is_signed && exponent < 0) {
    if (base == 1) return 1;
    return base == -1 ? ((exponent & 1) != 0 ? -1 : 1) : 0;
  }
  uint64_t result = 1, factor = bits_of(base);
  for (uint64_t left = bits_of(exponent); left != 0; left >>= 1) {
    if ((left & 1) != 0) result *= factor;
    factor *= factor;
  }
  return from_bits(result);
}

// Division by zero gives all bits set; the most negative number divided by -1 gives itself. All other quotients fit.
int64_t quotient(int64_t a, int64_t b, bool is_signed) noexcept {
  if (b == 0) return -1;
  if (!is_signed) return from_bits(bits_of(a) / bits_of(b));
  return b == -1 ? from_bits(0 - bits_of(a)) : a / b;
}
int64_t rest(int64_t a, int64_t b, bool is_signed) noexcept {
  if (b == 0) return a;
  if (!is_signed) return from_bits(bits_of(a) % bits_of(b));
  return b == -1 ? 0 : a % b;
}

ElementType operand_type(const Operation& op) {
  return op.operand(op.op == Op::kSelect ? 1 : 0).type->element;
}

}  // namespace

bool is_elementwise(const Operation& op) noexcept {
  if (op.op == Op::kBitcastConvert) return op.operand(0).type->rank() == op.result().type->rank();
  return op.row().has(kElementwise);
}

ScalarOperation::ScalarOperation(const Operation& op)
    : operation_(&op), op_(op.op), operand_(operand_type(op)), result_(op.result().type->element) {
  if (op_ == Op::kCompare) {
    direction_ = op.get<ComparisonDirection>("comparison_direction");
    const auto* type = op.get_if<ComparisonType>("compare_type");
    total_order_ = type != nullptr && *type == ComparisonType::kTotalOrder && kind_of(operand_) == ElementKind::kFloat;
  } else if (op_ == Op::kReducePrecision) {
    exponent_bits_ = static_cast<int>(op.integer("exponent_bits"));
    mantissa_bits_ = static_cast<int>(op.integer("mantissa_bits"));
    if (exponent_bits_ < 1 || exponent_bits_ > 11 || mantissa_bits_ < 0 || mantissa_bits_ > 52) {
      op.fail(MYDEV_INVALID_ARGUMENT, "takes 1 to 11 bits of exponent and 0 to 52 of mantissa, not ", exponent_bits_,
              " and ", mantissa_bits_);
    }
  }
  const std::array<Number, 3> ones = {Number{1, 1, 0}, Number{1, 1, 0}, Number{1, 1, 0}};
  apply(ones.data());  // raises where it is not defined
}

Number ScalarOperation::apply(const Number* operands) const {
  return rounded(result_, unrounded(operands));
}

Number ScalarOperation::unrounded(const Number* x) const {
  switch (op_) {
    case Op::kConvert:
      return converted(operand_, result_, x[0]);
    case Op::kSelect:
      return x[0].integer != 0 ? x[1] : x[2];
    case Op::kCompare:
      return compared(x[0], x[1]);
    case Op::kComplex:
      return {.real = x[0].real, .imaginary = x[1].real};
    case Op::kReal:
      return {.real = x[0].real};
    case Op::kImag:
      return {.real = x[0].imaginary};
    case Op::kBitcastConvert: {
      std::array<std::byte, 16> bytes{};
      store(operand_, x[0], bytes.data());
      return load(result_, bytes.data());
    }
    case Op::kReducePrecision:
      return {.real = with_precision(x[0].real, exponent_bits_, mantissa_bits_)};
    default:
      break;
  }
  const bool is_binary = operation_->operands.size() > 1;
  const bool is_clamp = op_ == Op::kClamp;
  const Number& second = is_clamp ? x[0] : x[is_binary ? 1 : 0];
  const auto compute = [this](const Number& a, const Number& b) {
    switch (kind_of(operand_)) {
      case ElementKind::kFloat:
        return of_floats(a, b);
      case ElementKind::kComplex:
        return of_complex(a, b);
      default:
        return of_integers(a, b);
    }
  };
  if (!is_clamp) return compute(x[0], second);
  switch (kind_of(operand_)) {
    case ElementKind::kFloat:
      return {.real = smaller(larger(x[1].real, x[0].real), x[2].real)};
    case ElementKind::kUnsigned:
      return {.integer =
                  from_bits(std::min(std::max(bits_of(x[1].integer), bits_of(x[0].integer)), bits_of(x[2].integer)))};
    default:
      return {.integer = std::min(std::max(x[1].integer, x[0].integer), x[2].integer)};
  }
}

Number ScalarOperation::compared(const Number& a, const Number& b) const {
  bool result = false;
  switch (kind_of(operand_)) {
    case ElementKind::kFloat:
      result = total_order_ ? holds(direction_, total_key(operand_, a), total_key(operand_, b))
                            : holds(direction_, a.real, b.real);
      break;
    case ElementKind::kComplex: {
      const bool equal = a.real == b.real && a.imaginary == b.imaginary;
      if (direction_ != ComparisonDirection::kEq && direction_ != ComparisonDirection::kNe) {
        operation_->fail(MYDEV_INVALID_ARGUMENT, "complex numbers are equal or not; there is no other order of them");
      }
      result = (direction_ == ComparisonDirection::kEq) == equal;
      break;
    }
    case ElementKind::kUnsigned:
      result = holds(direction_, bits_of(a.integer), bits_of(b.integer));
      break;
    default:
      result = holds(direction_, a.integer, b.integer);
  }
  return {.integer = result ? 1 : 0};
}

// clang-format off: a line for each operator
Number ScalarOperation::of_integers(const Number& x, const Number& y) const {
  const int64_t a = x.integer, b = y.integer;
  const ElementRow& row = element_row(operand_);
  const bool is_signed = row.kind == ElementKind::kSigned, is_pred = row.kind == ElementKind::kBool;
  const uint64_t mask = row.bits == 64 ? ~uint64_t{0} : (uint64_t{1} << row.bits) - 1;
  const bool beyond = bits_of(b) >= row.bits;
  switch (op_) {
    case Op::kAdd: return {.integer = is_pred ? a | b : from_bits(bits_of(a) + bits_of(b))};
    case Op::kSubtract: return {.integer = from_bits(bits_of(a) - bits_of(b))};
    case Op::kMultiply: return {.integer = from_bits(bits_of(a) * bits_of(b))};
    case Op::kDivide: return {.integer = quotient(a, b, is_signed)};
    case Op::kRemainder: return {.integer = rest(a, b, is_signed)};
    case Op::kPower: return {.integer = integer_power(a, b, is_signed)};
    case Op::kMaximum: return {.integer = is_signed ? std::max(a, b) : from_bits(std::max(bits_of(a), bits_of(b)))};
    case Op::kMinimum: return {.integer = is_signed ? std::min(a, b) : from_bits(std::min(bits_of(a), bits_of(b)))};
    case Op::kAnd: return {.integer = a & b};
    case Op::kOr: return {.integer = a | b};
    case Op::kXor: return {.integer = a ^ b};
    case Op::kNot: return {.integer = is_pred ? 1 - a : ~a};
    case Op::kNegate: return {.integer = from_bits(0 - bits_of(a))};
    case Op::kAbs: return {.integer = a < 0 && is_signed ? from_bits(0 - bits_of(a)) : a};
    case Op::kSign: return {.integer = is_signed ? (a > 0 ? 1 : 0) - (a < 0 ? 1 : 0) : (a != 0 ? 1 : 0)};
    case Op::kShiftLeft: return {.integer = beyond ? 0 : from_bits(bits_of(a) << b)};
    case Op::kShiftRightArithmetic:
      if (is_signed) return {.integer = a >> (beyond ? 63 : b)};
      {  // of the bits, as if they were signed
        const int64_t extended = from_bits(bits_of(a) << (64 - row.bits)) >> (64 - row.bits);
        return {.integer = extended >> (beyond ? 63 : b)};
      }
    case Op::kShiftRightLogical: return {.integer = beyond ? 0 : from_bits((bits_of(a) & mask) >> b)};
    case Op::kCountLeadingZeros: return {.integer = std::countl_zero(bits_of(a) & mask) - (64 - row.bits)};
    case Op::kPopcnt: return {.integer = std::popcount(bits_of(a) & mask)};
    default:
      operation_->fail(MYDEV_UNIMPLEMENTED, "is not defined for ", row.name);
  }
}

Number ScalarOperation::of_floats(const Number& x, const Number& y) const {
  const double a = x.real, b = y.real;
  switch (op_) {
    case Op::kAdd: return {.real = a + b};
    case Op::kSubtract: return {.real = a - b};
    case Op::kMultiply: return {.real = a * b};
    case Op::kDivide: return {.real = a / b};
    case Op::kRemainder: return {.real = std::fmod(a, b)};
    case Op::kPower: return {.real = std::pow(a, b)};
    case Op::kAtan2: return {.real = std::atan2(a, b)};
    case Op::kMaximum: return {.real = larger(a, b)};
    case Op::kMinimum: return {.real = smaller(a, b)};
    case Op::kNegate: return {.real = -a};
    case Op::kAbs: return {.real = std::fabs(a)};
    case Op::kSign: return {.real = a > 0 ? 1 : a < 0 ? -1 : a};
    case Op::kCeil: return {.real = std::ceil(a)};
    case Op::kFloor: return {.real = std::floor(a)};
    case Op::kRoundNearestAfz: return {.real = std::round(a)};
    case Op::kRoundNearestEven: return {.real = std::nearbyint(a)};
    case Op::kCbrt: return {.real = std::cbrt(a)};
    case Op::kSqrt: return {.real = std::sqrt(a)};
    case Op::kRsqrt: return {.real = 1 / std::sqrt(a)};
    case Op::kExponential: return {.real = std::exp(a)};
    case Op::kExponentialMinusOne: return {.real = std::expm1(a)};
    case Op::kLog: return {.real = std::log(a)};
    case Op::kLogPlusOne: return {.real = std::log1p(a)};
    case Op::kLogistic: return {.real = 1 / (1 + std::exp(-a))};
    case Op::kSine: return {.real = std::sin(a)};
    case Op::kCosine: return {.real = std::cos(a)};
    case Op::kTan: return {.real = std::tan(a)};
    case Op::kTanh: return {.real = std::tanh(a)};
    case Op::kIsFinite: return {.integer = std::isfinite(a) ? 1 : 0};
    default:
      operation_->fail(MYDEV_UNIMPLEMENTED, "is not defined for ", element_row(operand_).name);
  }
}

Number ScalarOperation::of_complex(const Number& x, const Number& y) const {
  using Complex = std::complex<double>;
  const Complex a(x.real, x.imaginary), b(y.real, y.imaginary);
  const auto number = [](const Complex& value) { return Number{.real = value.real(), .imaginary = value.imag()}; };
  switch (op_) {
    case Op::kAdd: return number(a + b);
    case Op::kSubtract: return number(a - b);
    case Op::kMultiply: return number(a * b);
    case Op::kDivide: return number(a / b);
    case Op::kPower: return number(a == Complex() ? (b == Complex() ? Complex(1) : Complex()) : std::pow(a, b));
    case Op::kNegate: return number(-a);
    case Op::kAbs: return {.real = std::abs(a)};
    case Op::kSign: return number(a == Complex() ? a : a / std::abs(a));
    case Op::kSqrt: return number(std::sqrt(a));
    case Op::kRsqrt: return number(1.0 / std::sqrt(a));
    case Op::kCbrt: return number(std::pow(a, 1.0 / 3));
    case Op::kExponential: return number(std::exp(a));
    case Op::kExponentialMinusOne:
      return number({std::expm1(a.real()) * std::cos(a.imag()) + (std::cos(a.imag()) - 1),
                     std::exp(a.real()) * std::sin(a.imag())});
    case Op::kLog: return number(std::log(a));
    case Op::kLogPlusOne:
      return number({std::log(std::hypot(1 + a.real(), a.imag())), std::atan2(a.imag(), 1 + a.real())});
    case Op::kLogistic: return number(1.0 / (1.0 + std::exp(-a)));
    case Op::kSine: return number(std::sin(a));
    case Op::kCosine: return number(std::cos(a));
    case Op::kTan: return number(std::tan(a));
    case Op::kTanh: return number(std::tanh(a));
    default:
      operation_->fail(MYDEV_UNIMPLEMENTED, "is not defined for ", element_row(operand_).name);
  }
}
// clang-format on

}  // namespace mydev::stablehlo
