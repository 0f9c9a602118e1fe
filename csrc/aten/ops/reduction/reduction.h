// The parts that native reductions share: their arguments, the layout of their results, and their registration.
//
// A reduction is a function of self and a ReductionRequest that either launches and returns its result, or returns
// empty, and then the op falls back. Each overload of an op (functional, out=; all dimensions, one, several) is derived
// from that function by the types of the op's arguments. Shapes and dimension errors are core's own rules.
#pragma once

#include <ATen/Operators.h>
#include <ATen/native/ReduceOpsUtils.h>

#include "aten/host/native_or_host.h"

namespace mydev {

// The arguments of any overload after self, told apart by their types.
struct ReductionRequest {
  c10::SmallVector<int64_t, 6> dims;  // empty: all
  bool empty_dims = false;            // given, and empty
  bool keepdim = false;
  std::optional<at::ScalarType> dtype;
  std::optional<at::Scalar> scalar;  // order of a norm, correction of a variance
  at::Tensor* out[2] = {};
  int num_out = 0;

  void take(at::OptionalIntArrayRef value) {
    if (!value.has_value()) return;
    dims.assign(value->begin(), value->end());
    empty_dims = dims.empty();
  }
  void take(at::IntArrayRef value) { dims.assign(value.begin(), value.end()); }
  void take(int64_t value) { dims.push_back(value); }
  void take(std::optional<int64_t> value) {
    if (value.has_value()) dims.push_back(*value);
  }
  void take(bool value) { keepdim = value; }
  void take(std::optional<at::ScalarType> value) { dtype = value; }
  void take(const at::Scalar& value) { scalar = value; }
  void take(const std::optional<at::Scalar>& value) { scalar = value; }
  void take(at::Tensor& value) { out[num_out++] = &value; }
};

// --- operands --------------------------------------------------------------------------------------------------------

// Whether self has all dimensions of the request, each named once. The CPU's kernel raises its error for others.
bool has_dims_once(const at::Tensor& self, const ReductionRequest& request);

// Unsigned integers beyond one byte have no kernel.
bool is_reducible(const at::Tensor& self);

// The dimensions of self that go, and the shape that remains.
struct ReducedShape {
  ReducedShape(const at::Tensor& self, const ReductionRequest& request);
  at::native::DimMask mask;
  bool keepdim;
  at::DimVector sizes;
};

// A kernel's output: in self's rank and sizes, with stride 0 along reduced dimensions.
class ReducedOutput {
 public:
  // An existing tensor of the reduced shape; undefined: an absent operand.
  ReducedOutput(at::Tensor tensor, const at::Tensor& self, const ReducedShape& shape);
  // The out= operand, resized, or a fresh tensor if there is none.
  ReducedOutput(const at::Tensor* out, at::ScalarType dtype, const at::Tensor& self, const ReducedShape& shape);

  const at::Tensor& tensor() const { return tensor_; }
  // Valid while this and self live.
  mydev_buffer buffer(const at::Tensor& self) const;

 private:
  at::Tensor tensor_;
  at::DimVector strides_;
};

// --- from functions to registrations ---------------------------------------------------------------------------------

namespace detail {

// Gives the result of an overload: its out= operands if it has such, else the computed value.
template <class Result>
auto overload_result(std::optional<at::Tensor> value, const ReductionRequest& request) {
  if constexpr (std::is_lvalue_reference_v<Result>) {
    return value.has_value() ? request.out[0] : nullptr;
  } else {
    return value;
  }
}
template <class Result>
auto overload_result(std::optional<std::tuple<at::Tensor, at::Tensor>> value, const ReductionRequest& request) {
  if constexpr (std::is_same_v<Result, std::tuple<at::Tensor&, at::Tensor&>>) {
    return value.has_value() ? std::optional<Result>(std::tie(*request.out[0], *request.out[1])) : std::nullopt;
  } else {
    return value;
  }
}

template <class Op, auto reduce, class Schema = typename Op::schema>
struct ReductionForm;
template <class Op, auto reduce, class Result, class... Args>
struct ReductionForm<Op, reduce, Result(const at::Tensor&, Args...)> {
  static auto try_native(const at::Tensor& self, Args... args) {
    ReductionRequest request;
    (request.take(std::forward<Args>(args)), ...);
    if (!has_dims_once(self, request)) return decltype(overload_result<Result>(reduce(self, request), request))();
    return overload_result<Result>(reduce(self, request), request);
  }
};

}  // namespace detail

// Registers each of the ops as an overload of the reduction.
template <auto reduce, class... Ops>
void register_reduction(torch::Library& library) {
  (register_native<Ops, &detail::ReductionForm<Ops, reduce>::try_native>(library), ...);
}

}  // namespace mydev
