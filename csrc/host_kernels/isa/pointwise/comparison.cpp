// Kernel group comparison: predicates of one or two operands of T; the output is PRED.
#include "host_kernels/isa/pointwise/pointwise.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

#define MYDEV_PREDICATE2(Name, expression)                 \
  template <typename T>                                    \
  struct Name {                                            \
    bool operator()(T a, T b) const { return expression; } \
  }
#define MYDEV_PREDICATE1(Name, expression)            \
  template <typename T>                               \
  struct Name {                                       \
    bool operator()(T a) const { return expression; } \
  }

MYDEV_PREDICATE2(Eq, a == b);
MYDEV_PREDICATE2(Ne, !(a == b));
MYDEV_PREDICATE2(Lt, a < b);
MYDEV_PREDICATE2(Le, a <= b);
MYDEV_PREDICATE2(Gt, a > b);
MYDEV_PREDICATE2(Ge, a >= b);
MYDEV_PREDICATE2(LogicalAnd, (a != 0) & (b != 0));
MYDEV_PREDICATE2(LogicalOr, (a != 0) | (b != 0));
MYDEV_PREDICATE2(LogicalXor, (a != 0) != (b != 0));
MYDEV_PREDICATE1(LogicalNot, a == 0);
MYDEV_PREDICATE1(IsNan, a != a);
MYDEV_PREDICATE1(IsInf, std::fabs(a) == static_cast<T>(__builtin_inf()));
MYDEV_PREDICATE1(IsFinite, std::fabs(a) < static_cast<T>(__builtin_inf()));

template <template <typename> typename Op>
constexpr Types complex_predicates() {
  return {.c64 = apply_lanes<Op<Complex<float>>, uint8_t, Complex<float>, 2>,
          .c128 = apply_lanes<Op<Complex<double>>, uint8_t, Complex<double>, 2>};
}
template <template <typename> typename Op>
constexpr Types float_predicates() {
  return {.f32 = apply_lanes<Op<float>, uint8_t, float, 1>, .f64 = apply_lanes<Op<double>, uint8_t, double, 1>};
}

constexpr PointwiseKernel predicate(const char* name, int inputs, Types types) {
  return {.name = name, .inputs = inputs, .types = types, .predicate = true};
}

constexpr PointwiseKernel kKernels[] = {
    predicate("mydev.eq", 2, predicates<Eq, 2>() | complex_predicates<Eq>()),
    predicate("mydev.ne", 2, predicates<Ne, 2>() | complex_predicates<Ne>()),
    predicate("mydev.lt", 2, predicates<Lt, 2>()),
    predicate("mydev.le", 2, predicates<Le, 2>()),
    predicate("mydev.gt", 2, predicates<Gt, 2>()),
    predicate("mydev.ge", 2, predicates<Ge, 2>()),
    predicate("mydev.logical_and", 2, predicates<LogicalAnd, 2>()),
    predicate("mydev.logical_or", 2, predicates<LogicalOr, 2>()),
    predicate("mydev.logical_xor", 2, predicates<LogicalXor, 2>()),
    predicate("mydev.logical_not", 1, predicates<LogicalNot, 1>()),
    predicate("mydev.isnan", 1, float_predicates<IsNan>()),
    predicate("mydev.isinf", 1, float_predicates<IsInf>()),
    predicate("mydev.isfinite", 1, float_predicates<IsFinite>()),
};

}  // namespace

std::span<const PointwiseKernel> comparison_kernels() {
  return kKernels;
}

std::span<const mydev_kernel> comparison() {
  return kPointwiseRecords<kKernels>;
}

}  // namespace mydev::kernels::MYDEV_ISA
