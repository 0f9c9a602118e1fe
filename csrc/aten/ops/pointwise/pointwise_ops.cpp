// Arithmetic, comparison, logic and elementary functions: one row each, and the ops that are its forms.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/Operators.h>

#include "aten/core/torch_version.h"
#include "aten/ops/pointwise/pointwise.h"

namespace mydev {
namespace {

namespace ops = at::_ops;

// --- unary ---------------------------------------------------------------------------------------------------------

// clang-format off
// Ops that have the three forms f, f_ and f_out. Floating results: integers promote to the default dtype.
#define MYDEV_FLOAT_FUNCTIONS(ROW)                                                                           \
  ROW(exp) ROW(exp2) ROW(expm1) ROW(log) ROW(log2) ROW(log10) ROW(log1p) ROW(sin) ROW(cos) ROW(tan)          \
  ROW(asin) ROW(acos) ROW(atan) ROW(sinh) ROW(cosh) ROW(tanh) ROW(asinh) ROW(acosh) ROW(atanh) ROW(erf)      \
  ROW(erfc) ROW(sqrt) ROW(rsqrt) ROW(reciprocal) ROW(sigmoid)
// Same dtype out as in.
#define MYDEV_SAME_DTYPE_FUNCTIONS(ROW) \
  ROW(floor) ROW(ceil) ROW(round) ROW(trunc) ROW(frac) ROW(abs) ROW(neg) ROW(sign) ROW(bitwise_not)
// clang-format on

#define MYDEV_FLOAT_ROW(op) PointwiseRow op##_row = {.kernel = KernelRef("mydev." #op), .result = ResultDtype::kFloat};
#define MYDEV_SAME_DTYPE_ROW(op) PointwiseRow op##_row = {.kernel = KernelRef("mydev." #op), .casts_out = false};
MYDEV_FLOAT_FUNCTIONS(MYDEV_FLOAT_ROW)
MYDEV_SAME_DTYPE_FUNCTIONS(MYDEV_SAME_DTYPE_ROW)

PointwiseRow logical_not_row = {.kernel = KernelRef("mydev.logical_not"), .result = ResultDtype::kBool};
PointwiseRow isnan_row = {.kernel = KernelRef("mydev.isnan"), .result = ResultDtype::kBool};
PointwiseRow isinf_row = {.kernel = KernelRef("mydev.isinf"), .result = ResultDtype::kBool};

// --- binary --------------------------------------------------------------------------------------------------------

bool check_alpha(c10::ScalarType common, DtypeSet, const mydev_attribute* arguments) {
  const int32_t kind = arguments[0].kind;
  TORCH_CHECK(kind != MYDEV_ATTRIBUTE_BOOL || common == at::kBool, "Boolean alpha only supported for Boolean results.");
  TORCH_CHECK(c10::isFloatingType(common) || c10::isComplexType(common) || kind != MYDEV_ATTRIBUTE_FLOAT,
              "For integral input tensors, argument alpha must not be a floating point number.");
  TORCH_CHECK(c10::isComplexType(common) || kind != MYDEV_ATTRIBUTE_COMPLEX,
              "For non-complex input tensors, argument alpha must not be a complex number.");
  return true;
}

bool check_difference(c10::ScalarType common, DtypeSet given, const mydev_attribute* arguments) {
  MYDEV_CHECK_BOOLS(given != kBools,
                    "Subtraction, the `-` operator, with two bool tensors is not supported. "
                    "Use the `^` or `logical_xor()` operator instead.");
  MYDEV_CHECK_BOOLS((given & kBools) == 0,
                    "Subtraction, the `-` operator, with a bool tensor is not supported. "
                    "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.");
  return check_alpha(common, given, arguments);
}

PointwiseRow add_row = {
    .kernel = KernelRef("mydev.add"), .attributes = {"alpha"}, .rounds_arguments = true, .check = check_alpha};
// Bools are let in for the check to refuse them.
PointwiseRow sub_row = {.kernel = KernelRef("mydev.sub"),
                        .dtypes = kNumbers | kBools | kComplexes,
                        .attributes = {"alpha"},
                        .rounds_arguments = true,
                        .check = check_difference};
PointwiseRow mul_row = {.kernel = KernelRef("mydev.mul"), .wide_number = true};
PointwiseRow div_row = {.kernel = KernelRef("mydev.div"), .result = ResultDtype::kFloat, .wide_number = true};
// The CPU rounds the quotient to half precision before it rounds it to an integer: those types fall back.
PointwiseRow div_trunc_row = {.kernel = KernelRef("mydev.div_trunc"), .dtypes = kWideNumbers};
PointwiseRow div_floor_row = {.kernel = KernelRef("mydev.div_floor"), .dtypes = kWideNumbers};
PointwiseRow remainder_row = {.kernel = KernelRef("mydev.remainder")};
PointwiseRow fmod_row = {.kernel = KernelRef("mydev.fmod")};
PointwiseRow pow_row = {.kernel = KernelRef("mydev.pow"), .number_is_operand = true};
PointwiseRow maximum_row = {.kernel = KernelRef("mydev.maximum"), .number_is_operand = true};
PointwiseRow minimum_row = {.kernel = KernelRef("mydev.minimum"), .number_is_operand = true};
// The CPU clamps no bools by numbers.
PointwiseRow clamp_min_row = {.kernel = KernelRef("mydev.maximum"), .dtypes = kNumbers, .number_is_operand = true};
PointwiseRow clamp_max_row = {.kernel = KernelRef("mydev.minimum"), .dtypes = kNumbers, .number_is_operand = true};
PointwiseRow atan2_row = {.kernel = KernelRef("mydev.atan2"), .result = ResultDtype::kFloat};
PointwiseRow bitwise_and_row = {.kernel = KernelRef("mydev.bitwise_and")};
PointwiseRow bitwise_or_row = {.kernel = KernelRef("mydev.bitwise_or")};
PointwiseRow bitwise_xor_row = {.kernel = KernelRef("mydev.bitwise_xor")};
PointwiseRow lshift_row = {.kernel = KernelRef("mydev.lshift")};
PointwiseRow rshift_row = {.kernel = KernelRef("mydev.rshift")};

// Comparisons and logic: bool results.
#define MYDEV_COMPARISONS(ROW) ROW(eq) ROW(ne) ROW(lt) ROW(le) ROW(gt) ROW(ge)
#define MYDEV_LOGIC(ROW) ROW(logical_and) ROW(logical_or) ROW(logical_xor)
#define MYDEV_PREDICATE_ROW(op)                               \
  PointwiseRow op##_row = {.kernel = KernelRef("mydev." #op), \
                           .result = ResultDtype::kBool,      \
                           .number_is_operand = true,         \
                           .number_broadcasts = true};
MYDEV_COMPARISONS(MYDEV_PREDICATE_ROW)
MYDEV_LOGIC(MYDEV_PREDICATE_ROW)

// --- ternary -------------------------------------------------------------------------------------------------------

PointwiseRow where_row = {
    .kernel = KernelRef("mydev.where"), .number_is_operand = true, .condition_first = true, .casts_out = false};
PointwiseRow addcmul_row = {.kernel = KernelRef("mydev.addcmul"), .attributes = {"value"}};
// The CPU refuses to divide integers here, whatever they would promote to.
PointwiseRow addcdiv_row = {.kernel = KernelRef("mydev.addcdiv"), .attributes = {"value"}, .promotes = false};
PointwiseRow lerp_row = {.kernel = KernelRef("mydev.lerp"),
                         .number_is_operand = true,
                         .wide_number = true,
                         .promotes = false,
                         .casts_out = false};

// --- ops whose arguments choose the row ----------------------------------------------------------------------------

// rounding_mode: none, "trunc" or "floor".
template <class Op, class Schema = typename Op::schema>
struct RoundedDivision;
template <class Op, class Result, class Self, class... Out>
struct RoundedDivision<Op, Result(Self, const at::Tensor&, std::optional<std::string_view>, Out...)> {
  static Result call(Self self, const at::Tensor& other, std::optional<std::string_view> mode, Out... out) {
    TORCH_CHECK(!mode.has_value() || *mode == "trunc" || *mode == "floor",
                "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '", mode.value_or(""),
                "'");
    PointwiseCall call(!mode.has_value() ? div_row : *mode == "trunc" ? div_trunc_row : div_floor_row);
    call.take(self);
    call.take(other);
    (call.take(out), ...);
    return finish<Op>(call, self, other, mode, out...);
  }
};

// The function that some exponents have, with its own answers for -0.0 and -inf; pow_row for other exponents.
PointwiseRow& power_row(c10::ScalarType type, const c10::Scalar& exponent) {
  // The CPU takes no roots in float16.
  if (!at::isFloatingType(type) || type == at::kHalf || exponent.isComplex() || exponent.isBoolean()) return pow_row;
  const double value = exponent.toDouble();
  return value == 0.5 ? sqrt_row : value == -0.5 ? rsqrt_row : pow_row;
}

template <class Op, class Schema = typename Op::schema>
struct PowerOfNumber;
template <class Op, class Result, class Self, class... Out>
struct PowerOfNumber<Op, Result(Self, const c10::Scalar&, Out...)> {
  static Result call(Self self, const c10::Scalar& exponent, Out... out) {
    TORCH_CHECK(!(c10::isIntegralType(self.scalar_type(), /*includeBool=*/true) &&
                  exponent.isIntegral(/*includeBool=*/true) && exponent.toLong() < 0),
                "Integers to negative integer powers are not allowed.");
    const bool real = !exponent.isComplex() && !exponent.isBoolean();
    if (real && at::isFloatingType(self.scalar_type()) && exponent.toDouble() == 2.0) {
      PointwiseCall call(mul_row);
      call.take(self);
      call.take(std::as_const(self));
      (call.take(out), ...);
      return finish<Op>(call, self, exponent, out...);
    }
    PointwiseRow& row = power_row(self.scalar_type(), exponent);
    PointwiseCall call(row);
    call.take(self);
    if (&row == &pow_row) call.take(exponent);
    (call.take(out), ...);
    return finish<Op>(call, self, exponent, out...);
  }
};

// The filled tensor keeps its dtype; a value that would promote it is the CPU's business.
bool keeps_dtype(const at::Tensor& self, const c10::Scalar& value) {
  return value.isBoolean() || (value.isIntegral(false) && self.scalar_type() != at::kBool) ||
         (value.isFloatingPoint() && (self.is_floating_point() || self.is_complex())) ||
         (value.isComplex() && self.is_complex());
}
at::Tensor& masked_fill_(at::Tensor& self, const at::Tensor& mask, const c10::Scalar& value) {
  PointwiseCall call(where_row);
  call.take(mask);
  call.take(value);
  call.take(std::as_const(self));
  call.take(self);
  // The CPU warns of elements that share memory, and fills them.
  const bool shared =
      C10_UNLIKELY(!self.is_non_overlapping_and_dense()) && at::has_internal_overlap(self) == at::MemOverlap::Yes;
  if (shared || !keeps_dtype(self, value)) return BoxedFallback<ops::masked_fill__Scalar>::call(self, mask, value);
  return finish<ops::masked_fill__Scalar>(call, self, mask, value);
}
at::Tensor masked_fill_scalar(const at::Tensor& self, const at::Tensor& mask, const c10::Scalar& value) {
  if (!on_device(self)) raise_device_mismatch("aten::masked_fill", mask.device(), "self", self.device());
  at::Tensor result = empty_dense(at::infer_size(self.sizes(), mask.sizes()), self);
  PointwiseCall call(where_row);
  call.take(mask);
  call.take(value);
  call.take(self);
  call.take(result);
  if (keeps_dtype(self, value) && call.run()) return result;
  return BoxedFallback<ops::masked_fill_Scalar>::call(self, mask, value);
}

// --- registration --------------------------------------------------------------------------------------------------

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#define MYDEV_REGISTER_UNARY(op) register_forms<op##_row, ops::op, ops::op##_, ops::op##_out>(m);
  MYDEV_FLOAT_FUNCTIONS(MYDEV_REGISTER_UNARY)
  MYDEV_SAME_DTYPE_FUNCTIONS(MYDEV_REGISTER_UNARY)
  MYDEV_REGISTER_UNARY(logical_not)
  register_forms<isnan_row, ops::isnan>(m);
  register_forms<isinf_row, ops::isinf>(m);

  register_forms<add_row, ops::add_Tensor, ops::add__Tensor, ops::add_out>(m);
  register_forms<sub_row, ops::sub_Tensor, ops::sub__Tensor, ops::sub_out>(m);
  register_forms<mul_row, ops::mul_Tensor, ops::mul__Tensor, ops::mul_out>(m);
  register_forms<div_row, ops::div_Tensor, ops::div__Tensor, ops::div_out>(m);
  register_op<ops::div_Tensor_mode>(m, &RoundedDivision<ops::div_Tensor_mode>::call);
  register_op<ops::div__Tensor_mode>(m, &RoundedDivision<ops::div__Tensor_mode>::call);
  register_op<ops::div_out_mode>(m, &RoundedDivision<ops::div_out_mode>::call);
  register_forms<div_floor_row, ops::floor_divide, ops::floor_divide__Tensor, ops::floor_divide_out>(m);
  register_forms<pow_row, ops::pow_Tensor_Tensor, ops::pow__Tensor, ops::pow_Tensor_Tensor_out>(m);
  register_op<ops::pow_Tensor_Scalar>(m, &PowerOfNumber<ops::pow_Tensor_Scalar>::call);
  register_op<ops::pow__Scalar>(m, &PowerOfNumber<ops::pow__Scalar>::call);
  register_op<ops::pow_Tensor_Scalar_out>(m, &PowerOfNumber<ops::pow_Tensor_Scalar_out>::call);
  register_forms<maximum_row, ops::maximum, ops::maximum_out>(m);
  register_forms<minimum_row, ops::minimum, ops::minimum_out>(m);
  register_forms<clamp_min_row, ops::clamp_min, ops::clamp_min_, ops::clamp_min_out>(m);
  register_forms<clamp_max_row, ops::clamp_max, ops::clamp_max_, ops::clamp_max_out>(m);
  register_forms<maximum_row, ops::clamp_min_Tensor, ops::clamp_min__Tensor, ops::clamp_min_Tensor_out>(m);
  register_forms<minimum_row, ops::clamp_max_Tensor, ops::clamp_max__Tensor, ops::clamp_max_Tensor_out>(m);
  register_forms<atan2_row, ops::atan2, ops::atan2_, ops::atan2_out>(m);
#define MYDEV_REGISTER_TENSOR_FORMS(row, op) \
  register_forms<row, ops::op##_Tensor, ops::op##__Tensor, ops::op##_Tensor_out>(m);
  MYDEV_REGISTER_TENSOR_FORMS(remainder_row, remainder)
  MYDEV_REGISTER_TENSOR_FORMS(fmod_row, fmod)
  MYDEV_REGISTER_TENSOR_FORMS(bitwise_and_row, bitwise_and)
  MYDEV_REGISTER_TENSOR_FORMS(bitwise_or_row, bitwise_or)
  MYDEV_REGISTER_TENSOR_FORMS(bitwise_xor_row, bitwise_xor)
  MYDEV_REGISTER_TENSOR_FORMS(lshift_row, bitwise_left_shift)
  MYDEV_REGISTER_TENSOR_FORMS(rshift_row, bitwise_right_shift)
#define MYDEV_REGISTER_COMPARISON(op)       \
  MYDEV_REGISTER_TENSOR_FORMS(op##_row, op) \
  register_forms<op##_row, ops::op##_Scalar, ops::op##__Scalar, ops::op##_Scalar_out>(m);
  MYDEV_COMPARISONS(MYDEV_REGISTER_COMPARISON)
  MYDEV_LOGIC(MYDEV_REGISTER_UNARY)

  register_forms<where_row, ops::where_self, ops::where_self_out>(m);
  register_forms<addcmul_row, ops::addcmul, ops::addcmul_, ops::addcmul_out>(m);
  register_forms<addcdiv_row, ops::addcdiv, ops::addcdiv_, ops::addcdiv_out>(m);
  register_forms<lerp_row, ops::lerp_Tensor, ops::lerp__Tensor, ops::lerp_Tensor_out>(m);
  register_forms<lerp_row, ops::lerp_Scalar, ops::lerp__Scalar, ops::lerp_Scalar_out>(m);
  register_op<ops::masked_fill__Scalar>(m, &masked_fill_);
  register_op<ops::masked_fill_Scalar>(m, &masked_fill_scalar);
}

}  // namespace
}  // namespace mydev
