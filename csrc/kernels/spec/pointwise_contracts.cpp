// Contracts of the kernels that compute element by element.
#include "kernels/spec/builtin_contracts.h"

namespace mydev {

namespace {

constexpr char kUnary[] = "(out T) <- (in T) where out may be in";
constexpr char kBinary[] = "(out T) <- (a T|number, b T|number) where out may be a or b";
constexpr char kAddition[] = "(out T) <- (a T|number, b T|number; alpha: number = 1) where out may be a or b";
constexpr char kTest[] = "(out pred) <- (a T) where out may be a";
constexpr char kComparison[] = "(out pred) <- (a T|number, b T|number) where out may be a or b";
constexpr char kBackward[] = "(out T) <- (grad T|number, x T|number) where out may be grad or x";
constexpr char kBackwardOfResult[] = "(out T) <- (grad T|number, y T|number) where out may be grad or y";

constexpr char kFloats[] = "T: floats";
constexpr char kNumbers[] = "T: ints floats";
constexpr char kWithPred[] = "T: pred ints floats";
constexpr char kAll[] = "T: pred ints floats complex";
constexpr char kPredOrInts[] = "T: pred ints";
constexpr char kInts[] = "T: ints";

constexpr char kWraps[] = "integers wrap round";
constexpr char kNoDivisor[] = "an integer divided by 0 fails with FAILED_PRECONDITION, ZeroDivisionError";
constexpr char kOfResult[] = "y is the forward's result";

#define MYDEV_FUNCTION(name) {"mydev." #name, kUnary, kFloats, #name "(in)", ""}
constexpr ContractRow kUnaryRows[] = {
    // clang-format off
    MYDEV_FUNCTION(exp), MYDEV_FUNCTION(exp2), MYDEV_FUNCTION(expm1), MYDEV_FUNCTION(log), MYDEV_FUNCTION(log2),
    MYDEV_FUNCTION(log10), MYDEV_FUNCTION(log1p), MYDEV_FUNCTION(sin), MYDEV_FUNCTION(cos), MYDEV_FUNCTION(tan),
    MYDEV_FUNCTION(asin), MYDEV_FUNCTION(acos), MYDEV_FUNCTION(atan), MYDEV_FUNCTION(sinh), MYDEV_FUNCTION(cosh),
    MYDEV_FUNCTION(tanh), MYDEV_FUNCTION(asinh), MYDEV_FUNCTION(acosh), MYDEV_FUNCTION(atanh), MYDEV_FUNCTION(erf),
    MYDEV_FUNCTION(erfc),
    {"mydev.sigmoid", kUnary, kFloats, "1 / (1 + exp(-in))", ""},
    MYDEV_FUNCTION(sqrt),
    {"mydev.rsqrt", kUnary, kFloats, "1 / sqrt(in)", ""},
    MYDEV_FUNCTION(cbrt),
    {"mydev.reciprocal", kUnary, kFloats, "1 / in", ""},
    MYDEV_FUNCTION(floor), MYDEV_FUNCTION(ceil),
    {"mydev.round", kUnary, kFloats, "round(in)", "halves go to even"},
    MYDEV_FUNCTION(trunc),
    // clang-format on
    {"mydev.frac", kUnary, kFloats, "in - trunc(in)", ""},
    {"mydev.sign", kUnary, kNumbers, "sign(in)", "NaN gives 0"},
    {"mydev.relu", kUnary, kNumbers, "where(in < 0, 0, in)", "NaN stays"},
    {"mydev.abs", kUnary, kNumbers, "abs(in)", kWraps},
    {"mydev.neg", kUnary, "T: ints floats complex", "-in", kWraps},
};
#undef MYDEV_FUNCTION

constexpr ContractRow kBinaryRows[] = {
    {"mydev.add", kAddition, kAll, "a + alpha * b", "integers wrap round; pred: or"},
    {"mydev.sub", kAddition, "T: ints floats complex", "a - alpha * b", kWraps},
    {"mydev.mul", kBinary, kAll, "a * b", "integers wrap round; pred: and"},
    {"mydev.div", kBinary, "T: floats complex", "a / b", ""},
    {"mydev.div_trunc", kBinary, kNumbers, "trunc_div(a, b)", kNoDivisor},
    {"mydev.div_floor", kBinary, kNumbers, "floor_div(a, b)", kNoDivisor},
    {"mydev.remainder", kBinary, kNumbers, "remainder(a, b)",
     "has the sign of b; an integer divided by 0 fails with FAILED_PRECONDITION, ZeroDivisionError"},
    {"mydev.fmod", kBinary, kNumbers, "fmod(a, b)",
     "has the sign of a; an integer divided by 0 fails with FAILED_PRECONDITION, ZeroDivisionError"},
    {"mydev.pow", kBinary, kNumbers, "pow(a, b)",
     "integers wrap round; an integer to a negative power is 0, but 1 and -1 stay what they are"},
    {"mydev.atan2", kBinary, kFloats, "atan2(a, b)", ""},
    {"mydev.maximum", kBinary, kWithPred, "max(a, b)", "NaN if either is"},
    {"mydev.minimum", kBinary, kWithPred, "min(a, b)", "NaN if either is"},
    {"mydev.bitwise_and", kBinary, kPredOrInts, "bit_and(a, b)", ""},
    {"mydev.bitwise_or", kBinary, kPredOrInts, "bit_or(a, b)", ""},
    {"mydev.bitwise_xor", kBinary, kPredOrInts, "bit_xor(a, b)", ""},
    {"mydev.bitwise_not", "(out T) <- (a T) where out may be a", kPredOrInts, "bit_not(a)", "pred: not"},
    {"mydev.lshift", kBinary, kInts, "shift_left(a, b)", "0 if b is negative or more than there are bits"},
    {"mydev.rshift", kBinary, kInts, "shift_right(a, b)",
     "arithmetic; 0 or -1 by the sign of a if b is negative or more than there are bits"},
};

constexpr ContractRow kComparisonRows[] = {
    {"mydev.eq", kComparison, kAll, "a == b", ""},
    {"mydev.ne", kComparison, kAll, "a != b", ""},
    {"mydev.lt", kComparison, kWithPred, "a < b", ""},
    {"mydev.le", kComparison, kWithPred, "a <= b", ""},
    {"mydev.gt", kComparison, kWithPred, "a > b", ""},
    {"mydev.ge", kComparison, kWithPred, "a >= b", ""},
    {"mydev.logical_and", kComparison, kWithPred, "a and b", "NaN is true"},
    {"mydev.logical_or", kComparison, kWithPred, "a or b", "NaN is true"},
    {"mydev.logical_xor", kComparison, kWithPred, "(a != 0) != (b != 0)", "NaN is true"},
    {"mydev.logical_not", kTest, kWithPred, "not a", "NaN is true"},
    {"mydev.isnan", kTest, kFloats, "isnan(a)", ""},
    {"mydev.isinf", kTest, kFloats, "isinf(a)", ""},
    {"mydev.isfinite", kTest, kFloats, "not (isnan(a) or isinf(a))", ""},
    {"mydev.isin", "dense (out pred[n]) <- (elements T[n], tests T[m]; invert: bool)", kWithPred, "",
     "whether an element equals any of tests, or with invert none; NaN equals nothing"},
};

constexpr ContractRow kTernaryRows[] = {
    {"mydev.where", "(out T) <- (condition pred, a T|number, b T|number) where out may be condition or a or b", kAll,
     "where(condition, a, b)", ""},
    {"mydev.addcmul", "(out T) <- (a T|number, b T|number, c T|number; value: number = 1) where out may be a or b or c",
     kNumbers, "a + value * b * c", kWraps},
    {"mydev.addcdiv", "(out T) <- (a T|number, b T|number, c T|number; value: number = 1) where out may be a or b or c",
     kFloats, "a + value * b / c", ""},
    {"mydev.lerp", "(out T) <- (start T|number, end T|number, weight T|number) where out may be start or end or weight",
     kFloats, "d = end - start; where(abs(weight) < 0.5, start + weight * d, end - d * (1 - weight))",
     "exact where weight is 0 or 1"},
};

constexpr ContractRow kActivationRows[] = {
    {"mydev.gelu", "(out T) <- (in T; tanh: bool = false) where out may be in", kFloats,
     "where(tanh, 0.5 * in * (1 + tanh(0.7978845608028654 * (in + 0.044715 * in * in * in))), "
     "0.5 * in * (1 + erf(in * 0.7071067811865476)))",
     "tanh: the approximation by tanh"},
    {"mydev.gelu_backward", "(out T) <- (grad T|number, x T|number; tanh: bool = false) where out may be grad or x",
     kFloats,
     "s = 0.5 * (1 + erf(x * 0.7071067811865476)) + x * 0.3989422804014327 * exp(-0.5 * x * x); "
     "t = tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)); "
     "u = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 0.134145 * x * x); "
     "grad * where(tanh, u, s)",
     ""},
    {"mydev.silu", kUnary, kFloats, "in / (1 + exp(-in))", ""},
    {"mydev.silu_backward", kBackward, kFloats, "s = 1 / (1 + exp(-x)); grad * s * (1 + x * (1 - s))", ""},
    {"mydev.mish", kUnary, kFloats, "in * tanh(log1p(exp(in)))", ""},
    {"mydev.mish_backward", kBackward, kFloats,
     "t = tanh(log1p(exp(x))); s = 1 / (1 + exp(-x)); grad * (t + x * s * (1 - t * t))", ""},
    {"mydev.elu", "(out T) <- (in T; alpha: float = 1, scale: float = 1, input_scale: float = 1) where out may be in",
     kFloats, "where(in < 0, expm1(in * input_scale) * alpha * scale, in * scale)", ""},
    {"mydev.elu_backward",
     "(out T) <- (grad T|number, x T|number; alpha: float = 1, scale: float = 1, input_scale: float = 1, "
     "is_result: bool = false) where out may be grad or x",
     kFloats,
     "where(x <= 0, where(is_result, grad * input_scale * (x + alpha * scale), "
     "grad * input_scale * alpha * scale * exp(x * input_scale)), grad * scale)",
     "is_result: x is the forward's result"},
    {"mydev.softplus", "(out T) <- (in T; beta: float = 1, threshold: float = 20) where out may be in", kFloats,
     "where(in * beta > threshold, in, log1p(exp(in * beta)) / beta)", ""},
    {"mydev.softplus_backward",
     "(out T) <- (grad T|number, x T|number; beta: float = 1, threshold: float = 20) where out may be grad or x",
     kFloats, "e = exp(x * beta); where(x * beta > threshold, grad, grad * e / (e + 1))", ""},
    {"mydev.log_sigmoid", kUnary, kFloats, "min(in, 0) - log1p(exp(-abs(in)))", ""},
    {"mydev.log_sigmoid_backward", kBackward, kFloats, "grad / (1 + exp(x))", ""},
    {"mydev.sigmoid_backward", kBackwardOfResult, kFloats, "grad * (1 - y) * y", kOfResult},
    {"mydev.tanh_backward", kBackwardOfResult, kFloats, "grad * (1 - y * y)", kOfResult},
    {"mydev.leaky_relu", "(out T) <- (in T; negative_slope: float = 0.01) where out may be in", kFloats,
     "where(in > 0, in, in * negative_slope)", ""},
    {"mydev.leaky_relu_backward",
     "(out T) <- (grad T|number, x T|number; negative_slope: float = 0.01, self_is_result: bool = false) "
     "where out may be grad or x",
     kFloats, "where(x > 0, grad, grad * negative_slope)",
     "self_is_result: x is the forward's result, which makes no difference: the slope is not negative then"},
    {"mydev.threshold_backward",
     "(out T) <- (grad T|number, x T|number; threshold: number = 0) where out may be grad or x", kNumbers,
     "where(x <= threshold, 0, grad)", ""},
    {"mydev.clamp", "(out T) <- (in T; min: number, max: number) where out may be in", kNumbers,
     "min(max(in, min), max)", "NaN stays"},
    {"mydev.hardtanh_backward",
     "(out T) <- (grad T|number, x T|number; min_val: float = -1, max_val: float = 1) where out may be grad or x",
     kFloats, "where(x <= min_val or x >= max_val, 0, grad)", ""},
    {"mydev.hardsigmoid", kUnary, kFloats, "min(max(in + 3, 0), 6) / 6", ""},
    {"mydev.hardsigmoid_backward", kBackward, kFloats, "where(x > -3 and x < 3, grad / 6, 0)", ""},
    {"mydev.hardswish", kUnary, kFloats, "in * min(max(in + 3, 0), 6) / 6", ""},
    {"mydev.hardswish_backward", kBackward, kFloats, "where(x <= -3, 0, where(x >= 3, grad, grad * (x / 3 + 0.5)))",
     ""},
};

constexpr ContractGroup kGroups[] = {{"unary", kUnaryRows},
                                     {"binary", kBinaryRows},
                                     {"comparison, membership", kComparisonRows},
                                     {"ternary", kTernaryRows},
                                     {"activation", kActivationRows}};

}  // namespace

std::span<const ContractGroup> pointwise_contracts() {
  return kGroups;
}

}  // namespace mydev
