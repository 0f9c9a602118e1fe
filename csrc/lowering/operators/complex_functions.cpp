// Functions of complex numbers, as kernels over their real and imaginary parts.
//
// The formulas are the textbook's, in forms that neither overflow nor cancel where the result does not. Results of
// infinite and NaN parts are those of the formulas.
#include <algorithm>
#include <array>
#include <limits>
#include <numbers>

#include "lowering/frame.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

struct Parts {
  Tensor re, im;
};

class ComplexFunctions {
 public:
  ComplexFunctions(Emitter& emit, const Tensor& like)
      : emit_(emit), dtype_(real_part(like.view).dtype), sizes_(like.sizes()) {}

  // |z| is m * sqrt(1 + (n / m)^2), m and n the larger and the smaller part.
  Tensor magnitude(const Parts& z) const {
    const Sides sides = sides_of(z);
    const Tensor product =
        multiply(sides.larger, unary("mydev.sqrt", add(multiply(sides.ratio, sides.ratio), number(1))));
    return choose(sides.are_equal, multiply(sides.larger, number(std::numbers::sqrt2)), product);
  }

  Parts exponential(const Parts& z) const {
    // Half of the exponent at a time where the whole is infinite: its product with the cosine may not be.
    const Tensor whole = unary("mydev.exp", z.re), half = unary("mydev.exp", multiply(z.re, number(0.5)));
    const Tensor is_infinite = compare("mydev.eq", whole, number(std::numeric_limits<double>::infinity()));
    const auto scaled = [&](const Tensor& by) {
      return choose(is_infinite, multiply(multiply(half, by), half), multiply(whole, by));
    };
    const Tensor is_real = compare("mydev.eq", z.im, number(0));
    return {choose(is_real, whole, scaled(unary("mydev.cos", z.im))),
            choose(is_real, z.im, scaled(unary("mydev.sin", z.im)))};
  }

  // exp(x) cos(y) - 1 is expm1(x) cos(y) - 2 sin(y / 2)^2.
  Parts exponential_minus_one(const Parts& z) const {
    const Tensor sine = unary("mydev.sin", multiply(z.im, number(0.5)));
    const Tensor real = multiply(unary("mydev.expm1", z.re), unary("mydev.cos", z.im));
    const Tensor imaginary = multiply(unary("mydev.exp", z.re), unary("mydev.sin", z.im));
    return {subtract(real, multiply(multiply(sine, sine), number(2))),
            choose(compare("mydev.eq", z.im, number(0)), z.im, imaginary)};
  }

  // log |z| is log m + log1p((n / m)^2) / 2.
  Parts logarithm(const Parts& z) const {
    const Sides sides = sides_of(z);
    const Tensor rest = multiply(unary("mydev.log1p", multiply(sides.ratio, sides.ratio)), number(0.5));
    const Tensor known = choose(sides.are_equal, number(std::numbers::ln2 / 2), rest);
    return {add(unary("mydev.log", sides.larger), known), binary("mydev.atan2", z.im, z.re)};
  }

  // The larger part is t = sqrt((|z| + |x|) / 2), the other one |y| / 2t; the imaginary part has the sign of y.
  Parts square_root(const Parts& z) const {
    const Tensor sum = add(multiply(magnitude(z), number(0.5)), multiply(unary("mydev.abs", z.re), number(0.5)));
    const Tensor larger = unary("mydev.sqrt", sum);
    const Tensor is_zero = compare("mydev.eq", larger, number(0));
    const Tensor quotient = divide(multiply(unary("mydev.abs", z.im), number(0.5)), larger);
    const Tensor smaller = choose(is_zero, number(0), quotient);
    const Tensor is_right = compare("mydev.ge", z.re, number(0));
    const Tensor height = choose(is_right, smaller, larger);
    const Tensor is_below = compare("mydev.lt", z.im, number(0));
    return {choose(is_right, larger, smaller), choose(is_below, unary("mydev.neg", height), height)};
  }

  Parts reciprocal_square_root(const Parts& z) const {
    const Parts root = square_root(z);
    const Tensor size = magnitude(z);
    return {divide(root.re, size), unary("mydev.neg", divide(root.im, size))};
  }

  // With t = tanh x and u = tan y: (t (1 + u^2) + i u / cosh(x)^2) / (1 + t^2 u^2).
  Parts hyperbolic_tangent(const Parts& z) const {
    const Tensor t = unary("mydev.tanh", z.re), u = unary("mydev.tan", z.im), tu = multiply(t, u);
    const Tensor cosine = unary("mydev.cosh", z.re), below = add(multiply(tu, tu), number(1));
    const Tensor real = multiply(t, add(multiply(u, u), number(1)));
    return {divide(real, below), divide(divide(divide(u, cosine), cosine), below)};
  }

  // tan z is -i tanh(i z).
  Parts tangent(const Parts& z) const {
    const Parts turned = hyperbolic_tangent({unary("mydev.neg", z.im), z.re});
    return {turned.im, unary("mydev.neg", turned.re)};
  }

  // z / |z|, or 0.
  Parts sign(const Parts& z) const {
    const Tensor size = magnitude(z), is_zero = compare("mydev.eq", size, number(0));
    return {choose(is_zero, z.re, divide(z.re, size)), choose(is_zero, z.im, divide(z.im, size))};
  }

  // exp(w log z). 0 to the 0 is 1, and to other powers whose real part is not negative 0.
  Parts power(const Parts& z, const Parts& w) const {
    const Parts log = logarithm(z);
    const Tensor real = subtract(multiply(w.re, log.re), multiply(w.im, log.im));
    const Tensor imaginary = add(multiply(w.re, log.im), multiply(w.im, log.re));
    const Parts value = exponential({real, imaginary});
    const Tensor is_zero = both(is_number(z.re, 0), is_number(z.im, 0));
    const Tensor is_known = both(is_zero, compare("mydev.ge", w.re, number(0)));
    const Tensor is_one = both(is_known, both(is_number(w.re, 0), is_number(w.im, 0)));
    return {choose(is_one, number(1), choose(is_known, number(0), value.re)), choose(is_known, number(0), value.im)};
  }

 private:
  struct Sides {
    Tensor larger, ratio;  // of the smaller to the larger one; not a number where both are 0 or infinite
    Tensor are_equal;
  };

  Sides sides_of(const Parts& z) const {
    const Tensor x = unary("mydev.abs", z.re), y = unary("mydev.abs", z.im);
    const Tensor larger = binary("mydev.maximum", x, y);
    return {larger, divide(binary("mydev.minimum", x, y), larger), compare("mydev.eq", x, y)};
  }

  Tensor number(double value) const { return emit_.splat(dtype_, sizes_, value); }
  Tensor unary(const char* kernel, const Tensor& x) const { return emit_.unary(kernel, dtype_, x.view); }
  Tensor binary(const char* kernel, const Tensor& a, const Tensor& b) const {
    return emit_.pointwise(kernel, dtype_, {a, b});
  }
  Tensor add(const Tensor& a, const Tensor& b) const { return binary("mydev.add", a, b); }
  Tensor subtract(const Tensor& a, const Tensor& b) const { return binary("mydev.sub", a, b); }
  Tensor multiply(const Tensor& a, const Tensor& b) const { return binary("mydev.mul", a, b); }
  Tensor divide(const Tensor& a, const Tensor& b) const { return binary("mydev.div", a, b); }
  Tensor compare(const char* kernel, const Tensor& a, const Tensor& b) const {
    return emit_.pointwise(kernel, MYDEV_PRED, {a, b});
  }
  Tensor is_number(const Tensor& x, double value) const { return compare("mydev.eq", x, number(value)); }
  Tensor both(const Tensor& a, const Tensor& b) const { return compare("mydev.bitwise_and", a, b); }
  Tensor choose(const Tensor& condition, const Tensor& yes, const Tensor& no) const {
    return emit_.pointwise("mydev.where", dtype_, {condition, yes, no});
  }

  Emitter& emit_;
  mydev_dtype dtype_;
  Sizes sizes_;
};

using Function = Parts (ComplexFunctions::*)(const Parts&) const;
struct FunctionRow {
  Operator op;
  Function compute;
};
constexpr std::array kFunctions = {
    FunctionRow{Operator::kExponential, &ComplexFunctions::exponential},
    FunctionRow{Operator::kExponentialMinusOne, &ComplexFunctions::exponential_minus_one},
    FunctionRow{Operator::kLog, &ComplexFunctions::logarithm},
    FunctionRow{Operator::kRsqrt, &ComplexFunctions::reciprocal_square_root},
    FunctionRow{Operator::kSign, &ComplexFunctions::sign},
    FunctionRow{Operator::kSqrt, &ComplexFunctions::square_root},
    FunctionRow{Operator::kTan, &ComplexFunctions::tangent},
    FunctionRow{Operator::kTanh, &ComplexFunctions::hyperbolic_tangent},
};

}  // namespace

bool lower_complex_function(Frame& frame, const Operation& op) {
  if (op.operands.empty() || !is_complex(frame.view(op.operand(0)).dtype)) return false;
  const ComplexFunctions functions(frame.emit, frame[op.operand(0)]);
  const auto parts_of = [&](const Value& value) {
    const program::Operand& view = frame.view(value);
    return Parts{{real_part(view)}, {imaginary_part(view)}};
  };
  if (op.op == Operator::kAbs) {
    frame.set(op.result(), functions.magnitude(parts_of(op.operand(0))));
    return true;
  }
  const auto* const row = std::ranges::find(kFunctions, op.op, &FunctionRow::op);
  if (row == kFunctions.end() && op.op != Operator::kPower) return false;
  const Parts value = op.op == Operator::kPower ? functions.power(parts_of(op.operand(0)), parts_of(op.operand(1)))
                                                : (functions.*row->compute)(parts_of(op.operand(0)));
  const program::Operand result = frame.result_of(op.result());
  frame.emit.copy(real_part(result), value.re.view);
  frame.emit.copy(imaginary_part(result), value.im.view);
  frame.set(op.result(), {result});
  return true;
}

}  // namespace mydev::lowering
