// Kernel group unary: out = f(in), both of T. Elementary functions for floating point, sign and magnitude for all
// numbers.
#include "host_kernels/isa/pointwise/pointwise.h"
#include "host_kernels/isa/simd/vector_math.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

// An operator from an expression over x of type T, a lane.
#define MYDEV_LANE_OPERATOR(Name, expression)        \
  template <typename T>                              \
  struct Name {                                      \
    T operator()(T x) const { return (expression); } \
  }
// Operators on packs of floats: the functions of vector_math.h, under their names there.
// clang-format off
#define MYDEV_PACK_FUNCTIONS(ROW)                                                                                    \
  ROW(exp) ROW(exp2) ROW(expm1) ROW(log) ROW(log2) ROW(log10) ROW(log1p) ROW(sin) ROW(cos) ROW(tan) ROW(asin)        \
  ROW(acos) ROW(atan) ROW(sinh) ROW(cosh) ROW(tanh) ROW(asinh) ROW(acosh) ROW(atanh) ROW(erf) ROW(erfc) ROW(cbrt)    \
  ROW(sigmoid)
#define MYDEV_PACK_OPERATOR(name) \
  template <typename> struct name##_operator { template <typename V> V operator()(V x) const { return name(x); } };
#define MYDEV_PACK_ROW(name) packed<name##_operator>("mydev." #name),
MYDEV_PACK_FUNCTIONS(MYDEV_PACK_OPERATOR)
// clang-format on

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
  return {
      .name = name, .inputs = 1, .types = packed_floats<Op, 1>(), .grain = kGrainHeavy, .packs = pack_functions<Op>()};
}
template <template <typename> typename Op>
constexpr PointwiseKernel lanes(const char* name, Types more = {}) {
  return {.name = name, .inputs = 1, .types = floats<Op, 1>() | more, .pred = false};
}

constexpr PointwiseKernel kKernels[] = {
    MYDEV_PACK_FUNCTIONS(MYDEV_PACK_ROW)  // as packs
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
