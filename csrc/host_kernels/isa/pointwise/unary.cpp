// Kernel group unary: out = f(in), both of T. Elementary functions for floating point, sign and magnitude for all
// numbers.
#include "host_kernels/isa/pointwise/pointwise.h"
#include "host_kernels/isa/simd/vector_math.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

// An operator from an expression over x of type T: a lane, or a pack of floats.
#define MYDEV_LANE_OPERATOR(Name, expression)        \
  template <typename T>                              \
  struct Name {                                      \
    T operator()(T x) const { return (expression); } \
  }
#define MYDEV_PACK_OPERATOR(Name, expression) \
  template <typename>                         \
  struct Name {                               \
    template <typename V>                     \
    V operator()(V x) const {                 \
      return (expression);                    \
    }                                         \
  }

MYDEV_PACK_OPERATOR(Exp, exp(x));
MYDEV_PACK_OPERATOR(Exp2, exp2(x));
MYDEV_PACK_OPERATOR(Expm1, expm1(x));
MYDEV_PACK_OPERATOR(Log, log(x));
MYDEV_PACK_OPERATOR(Log2, log2(x));
MYDEV_PACK_OPERATOR(Log10, log10(x));
MYDEV_PACK_OPERATOR(Log1p, log1p(x));
MYDEV_PACK_OPERATOR(Sin, sin(x));
MYDEV_PACK_OPERATOR(Cos, cos(x));
MYDEV_PACK_OPERATOR(Tan, tan(x));
MYDEV_PACK_OPERATOR(Asin, asin(x));
MYDEV_PACK_OPERATOR(Acos, acos(x));
MYDEV_PACK_OPERATOR(Atan, atan(x));
MYDEV_PACK_OPERATOR(Sinh, sinh(x));
MYDEV_PACK_OPERATOR(Cosh, cosh(x));
MYDEV_PACK_OPERATOR(Tanh, tanh(x));
MYDEV_PACK_OPERATOR(Asinh, asinh(x));
MYDEV_PACK_OPERATOR(Acosh, acosh(x));
MYDEV_PACK_OPERATOR(Atanh, atanh(x));
MYDEV_PACK_OPERATOR(Erf, erf(x));
MYDEV_PACK_OPERATOR(Erfc, erfc(x));
MYDEV_PACK_OPERATOR(Cbrt, cbrt(x));
MYDEV_PACK_OPERATOR(Sigmoid, sigmoid(x));

MYDEV_LANE_OPERATOR(Sqrt, std::sqrt(x));
MYDEV_LANE_OPERATOR(Rsqrt, 1 / std::sqrt(x));
MYDEV_LANE_OPERATOR(Reciprocal, 1 / x);
MYDEV_LANE_OPERATOR(Floor, std::floor(x));
MYDEV_LANE_OPERATOR(Ceil, std::ceil(x));
MYDEV_LANE_OPERATOR(Round, std::nearbyint(x));
MYDEV_LANE_OPERATOR(Trunc, std::trunc(x));
MYDEV_LANE_OPERATOR(Frac, x - std::trunc(x));
MYDEV_LANE_OPERATOR(Sign, static_cast<T>((x > 0) - (x < 0)));
MYDEV_LANE_OPERATOR(Relu, x < 0 ? T{0} : x);  // NaN stays

template <typename T>
struct Neg {
  T operator()(T x) const {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(x));
    } else {
      return -x;
    }
  }
};
template <typename T>
struct Abs {
  T operator()(T x) const {
    if constexpr (std::is_integral_v<T>) {
      return x < 0 ? Neg<T>()(x) : x;
    } else {
      return std::fabs(x);
    }
  }
};

template <template <typename> typename Op>
constexpr PointwiseKernel packed(const char* name) {
  return {.name = name, .inputs = 1, .types = packed_floats<Op, 1>(), .grain = kGrainHeavy};
}
template <template <typename> typename Op>
constexpr PointwiseKernel lanes(const char* name, Types more = {}) {
  return {.name = name, .inputs = 1, .types = floats<Op, 1>() | more, .pred = false};
}

constexpr PointwiseKernel kKernels[] = {
    packed<Exp>("mydev.exp"),
    packed<Exp2>("mydev.exp2"),
    packed<Expm1>("mydev.expm1"),
    packed<Log>("mydev.log"),
    packed<Log2>("mydev.log2"),
    packed<Log10>("mydev.log10"),
    packed<Log1p>("mydev.log1p"),
    packed<Sin>("mydev.sin"),
    packed<Cos>("mydev.cos"),
    packed<Tan>("mydev.tan"),
    packed<Asin>("mydev.asin"),
    packed<Acos>("mydev.acos"),
    packed<Atan>("mydev.atan"),
    packed<Sinh>("mydev.sinh"),
    packed<Cosh>("mydev.cosh"),
    packed<Tanh>("mydev.tanh"),
    packed<Asinh>("mydev.asinh"),
    packed<Acosh>("mydev.acosh"),
    packed<Atanh>("mydev.atanh"),
    packed<Erf>("mydev.erf"),
    packed<Erfc>("mydev.erfc"),
    packed<Cbrt>("mydev.cbrt"),
    packed<Sigmoid>("mydev.sigmoid"),
    lanes<Sqrt>("mydev.sqrt"),
    lanes<Rsqrt>("mydev.rsqrt"),
    lanes<Reciprocal>("mydev.reciprocal"),
    lanes<Floor>("mydev.floor"),
    lanes<Ceil>("mydev.ceil"),
    lanes<Round>("mydev.round"),
    lanes<Trunc>("mydev.trunc"),
    lanes<Frac>("mydev.frac"),
    lanes<Sign>("mydev.sign", integers<Sign, 1>()),
    lanes<Relu>("mydev.relu", integers<Relu, 1>()),
    lanes<Abs>("mydev.abs", integers<Abs, 1>()),
    lanes<Neg>("mydev.neg", integers<Neg, 1>() | complexes<Neg, 1>()),
};

}  // namespace

std::span<const PointwiseKernel> unary_kernels() {
  return kKernels;
}

std::span<const mydev_kernel> unary() {
  return kPointwiseRecords<kKernels>;
}

}  // namespace mydev::kernels::MYDEV_ISA
