// Pointwise operators as rows: an ATen op is a kernel's name, whose contract says which dtypes it takes, and a rule for
// the result's dtype. Functional, in-place and out= forms come from the op's own schema (PointwiseForm), never written
// out.
//
// Semantics are those of PyTorch on the CPU: broadcasting, type promotion, strides of results, resizing and checks of
// out=, overlap errors, CPU scalars and Python numbers as operands. There are two paths. Contiguous operands of one
// dtype take the short one: the result is made directly, and operands of one shape launch as one dimension. All others
// go through a TensorIterator. Calls that a row does not cover (a dtype, a driver without the kernel) run the counted
// fallback.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <array>
#include <string>
#include <string_view>

#include "aten/core/number.h"
#include "aten/host/native_or_host.h"
#include "aten/launch/native_launch.h"

namespace mydev {

// A set of scalar types, as bits.
using DtypeSet = uint64_t;
template <typename... T>
constexpr DtypeSet dtypes(T... types) {
  return (DtypeSet{0} | ... | (DtypeSet{1} << static_cast<int>(types)));
}
inline constexpr DtypeSet kFloats = dtypes(at::kFloat, at::kDouble, at::kHalf, at::kBFloat16);
inline constexpr DtypeSet kIntegers = dtypes(at::kByte, at::kChar, at::kShort, at::kInt, at::kLong);
inline constexpr DtypeSet kBools = dtypes(at::kBool);
inline constexpr DtypeSet kComplexes = dtypes(at::kComplexFloat, at::kComplexDouble);
inline constexpr DtypeSet kNumbers = kFloats | kIntegers;
inline constexpr DtypeSet kWideNumbers = kIntegers | dtypes(at::kFloat, at::kDouble);  // without half precision

// The types of a built-in kernel's T, by its contract. For rows, which ask once, when they are made.
DtypeSet contract_types(const KernelRef& kernel);

enum class ResultDtype {
  kCommon,  // what the operands promote to
  kFloat,   // that, but integers promote to the default dtype
  kBool,
};

struct PointwiseRow {
  KernelRef kernel;
  // The types that promoted operands may have: all that the kernel's contract names, unless the row says otherwise.
  DtypeSet dtypes = contract_types(kernel);
  ResultDtype result = ResultDtype::kCommon;
  // Names of the kernel's attributes, in the order of the op's arguments that are not tensors.
  std::array<const char*, 4> attributes = {};
  bool number_is_operand = false;  // number arguments are operands (eq.Scalar), not attributes
  bool wide_number = false;        // a number after the first operand is not rounded to half precision operands' type,
                                   // and may lie beyond it
  bool rounds_arguments = false;   // numbers that are attributes are rounded to half precision operands' type
  bool condition_first = false;    // the first operand is a bool that takes no part in promotion
  bool promotes = true;            // false: all operands have one dtype
  bool casts_out = true;           // false: out= has the result's dtype
  // On the CPU, a number argument is an operand without dimensions; strides are chosen as for operands that broadcast.
  bool number_broadcasts = false;
  bool second_input_first = false;  // where inputs are laid out differently, the result is laid out as the second
  // Raises the CPU's error for senseless operands, of the types `given`; `arguments` are the attributes. Returns false
  // if the call is left to the CPU.
  bool (*check)(c10::ScalarType common, DtypeSet given, const mydev_attribute* arguments) = nullptr;
};

// The arguments of one call of a row, taken in the op's order. Tensors are borrowed.
class PointwiseCall {
 public:
  explicit PointwiseCall(PointwiseRow& row) : row_(row) {}

  void take(const at::Tensor& input) { inputs_[static_cast<size_t>(num_inputs_++)] = &input; }
  // The first argument of an in-place op is operand and result; elsewhere this is out=.
  void take(at::Tensor& written) {
    if (num_inputs_ == 0) take(std::as_const(written));
    out_ = &written;
  }
  void take(const c10::Scalar& number);
  void take(double number) { add_argument(float_attribute(next_name(), number)); }
  void take(bool flag) { add_argument(bool_attribute(next_name(), flag)); }
  void take(std::string_view approximate);

  // Runs the call; false if the row does not cover it, and then nothing was done.
  bool run();
  // Does the same, and also returns false if a kernel declined; the op's record then holds the reason.
  bool run(FallbackRecord& (*record)());
  // The result of a functional form, after run().
  at::Tensor& result() { return result_; }
  at::Tensor& out() { return *out_; }

 private:
  static constexpr size_t kMaxInputs = 3;

  // The two paths. Their run() is false if the call is not for this path, and then nothing was done.
  class ContiguousPath;
  class StridedPath;
  // Converts the number operand to the type that is computed in; false if it has no value there.
  bool fit(int number_index, c10::ScalarType common);
  // Rounds the arguments that are numbers, if the row says so. False if one has no value in that type: the CPU decides
  // whether that is an error.
  bool fit_arguments(c10::ScalarType common);
  bool is_condition(int index) const { return row_.condition_first && index == 0; }
  const at::Tensor* input(int index) const { return inputs_[static_cast<size_t>(index)]; }
  bool covers(c10::ScalarType common) const { return (row_.dtypes >> static_cast<int>(common) & 1) != 0; }
  c10::ScalarType result_dtype(c10::ScalarType common) const {
    return row_.result == ResultDtype::kBool ? c10::ScalarType::Bool : common;
  }
  const char* next_name() const { return row_.attributes[static_cast<size_t>(num_arguments_)]; }
  // Whether the operand without data takes part in the choice of strides.
  bool number_broadcasts(int index) const { return input(index) != nullptr || row_.number_broadcasts; }
  void add_argument(const mydev_attribute& attribute) {
    attributes_[static_cast<size_t>(num_arguments_++)] = attribute;
  }
  // The kernel's attributes; arguments that are numbers have the kind that goes with the type computed in.
  std::span<const mydev_attribute> attributes(c10::ScalarType common) {
    for (uint32_t left = number_arguments_; left != 0; left &= left - 1) {
      fit_kind(attributes_[static_cast<size_t>(__builtin_ctz(left))], common);
    }
    return {attributes_.data(), static_cast<size_t>(num_arguments_)};
  }
  // The number operand as a buffer over the sizes and strides, which are 0.
  mydev_buffer number_buffer(c10::ScalarType common, const int64_t* sizes, const int64_t* strides, int32_t rank) {
    scalar_ = scalar_value(number_, common);
    return {&scalar_, sizes, strides, rank, to_frame_dtype(common), MYDEV_BUFFER_SCALAR};
  }

  PointwiseRow& row_;
  std::array<const at::Tensor*, kMaxInputs> inputs_;  // nullptr: the number
  mydev_attribute number_;                            // the number operand
  mydev_scalar scalar_;                               // and its value as the kernel sees it
  std::array<mydev_attribute, 4> attributes_;         // the arguments
  uint32_t number_arguments_ = 0;                     // a bit for each that is a number of any kind
  at::Tensor* out_ = nullptr;
  at::Tensor result_;
  int num_inputs_ = 0;
  int num_arguments_ = 0;
  bool has_number_ = false;
  bool representable_ = true;  // the number arguments, as attributes
};

// --- from rows to registrations --------------------------------------------------------------------------------------

// Runs a filled call, or the fallback of the op.
template <class Op, class... Args>
auto finish(PointwiseCall& call, Args&... args) -> decltype(Op::call(args...)) {
  if (C10_UNLIKELY(!call.run(&host_op_record<Op>))) return BoxedFallback<Op>::call(args...);
  if constexpr (std::is_reference_v<decltype(Op::call(args...))>) {
    return call.out();
  } else {
    return std::move(call.result());
  }
}

// An op whose arguments are the row's operands and attributes, in order.
template <class Op, PointwiseRow& row, class Schema = typename Op::schema>
struct PointwiseForm;
template <class Op, PointwiseRow& row, class Result, class... Args>
struct PointwiseForm<Op, row, Result(Args...)> {
  static Result call(Args... args) {
    PointwiseCall call(row);
    (call.take(args), ...);
    return finish<Op>(call, args...);
  }
};

// Registers each of the ops as a form of the row.
template <PointwiseRow& row, class... Ops>
void register_forms(torch::Library& library) {
  (register_op<Ops>(library, &PointwiseForm<Ops, row>::call), ...);
}

}  // namespace mydev
