// sum, mean, prod, amax, amin, max and min of all elements, any, all, and vector norms.
//
// A row is a kernel and its rule for dtypes.
#include "aten/ops/reduction/reduction.h"

namespace mydev {
namespace {

using at::ScalarType;
using at::Tensor;

namespace ops = at::_ops;

// --- rules for dtypes: the type that is computed in, or empty where the kernel does not apply ------------------------

using DtypeRule = std::optional<ScalarType> (*)(const Tensor& self, std::optional<ScalarType> dtype);

// Reading as a wider type is exact; any other cast must come before the reduction.
bool widens(ScalarType from, ScalarType to) {
  if (from == to) return true;
  if (is_small_integral(from)) return to == at::kLong || is_real_float(to);
  return is_half_type(from) ? to == at::kFloat : from == at::kFloat && to == at::kDouble;
}
std::optional<ScalarType> checked(const Tensor& self, ScalarType type) {
  const bool computable = (is_real_float(type) || (is_small_integral(type) && type != at::kBool)) &&
                          (is_real_float(self.scalar_type()) || is_small_integral(self.scalar_type()));
  return computable && widens(self.scalar_type(), type) ? std::optional(type) : std::nullopt;
}
std::optional<ScalarType> sum_type(const Tensor& self, std::optional<ScalarType> dtype) {
  return checked(self, dtype.value_or(c10::isIntegralType(self.scalar_type(), true) ? at::kLong : self.scalar_type()));
}
std::optional<ScalarType> float_type(const Tensor& self, std::optional<ScalarType> dtype) {
  const ScalarType type = dtype.value_or(self.scalar_type());
  return is_real_float(type) ? checked(self, type) : std::nullopt;
}
std::optional<ScalarType> same_type(const Tensor& self, std::optional<ScalarType>) {
  const ScalarType type = self.scalar_type();
  // An empty amax has no value: the CPU's kernel says so.
  if (self.numel() == 0) return std::nullopt;
  return is_real_float(type) || is_small_integral(type) ? std::optional(type) : std::nullopt;
}
std::optional<ScalarType> truth_type(const Tensor& self, std::optional<ScalarType>) {
  if (!is_real_float(self.scalar_type()) && !is_small_integral(self.scalar_type())) return std::nullopt;
  return self.scalar_type() == at::kByte ? at::kByte : at::kBool;
}

// --- rows ------------------------------------------------------------------------------------------------------------

struct ReductionRow {
  KernelRef kernel;
  DtypeRule result_type;
};

ReductionRow sum_row{KernelRef("mydev.sum"), sum_type};
ReductionRow mean_row{KernelRef("mydev.mean"), float_type};
ReductionRow prod_row{KernelRef("mydev.prod"), sum_type};
ReductionRow amax_row{KernelRef("mydev.amax"), same_type};
ReductionRow amin_row{KernelRef("mydev.amin"), same_type};
ReductionRow any_row{KernelRef("mydev.any"), truth_type};
ReductionRow all_row{KernelRef("mydev.all"), truth_type};
ReductionRow norm1_row{KernelRef("mydev.norm1"), float_type};
ReductionRow norm2_row{KernelRef("mydev.norm2"), float_type};
ReductionRow norm_inf_row{KernelRef("mydev.norm_inf"), float_type};

std::optional<Tensor> reduce(ReductionRow& row, const Tensor& self, const ReductionRequest& request) {
  const Launchable* kernel = row.kernel.on(self);
  if (kernel == nullptr || !is_reducible(self)) return std::nullopt;
  // any and all reduce nothing where others reduce everything.
  if (request.empty_dims && row.result_type == truth_type) return std::nullopt;
  const std::optional<ScalarType> dtype = row.result_type(self, request.dtype);
  if (!dtype.has_value()) return std::nullopt;
  const Tensor* given_out = request.out[0];
  if (given_out != nullptr && !writable_as(*given_out, *dtype, self)) return std::nullopt;
  const ReducedOutput out(given_out, *dtype, self, ReducedShape(self, request));
  launch_on(*kernel, self, 1, {out.buffer(self), input_buffer_of(self)});
  return out.tensor();
}

template <ReductionRow& row>
std::optional<Tensor> reduce_by(const Tensor& self, const ReductionRequest& request) {
  return reduce(row, self, request);
}

// The row of a norm's order.
ReductionRow* norm_row(const ReductionRequest& request) {
  if (!request.scalar.has_value() || request.scalar->isComplex()) return nullptr;
  const double order = request.scalar->toDouble();
  if (order == 1) return &norm1_row;
  if (order == 2) return &norm2_row;
  return order == std::numeric_limits<double>::infinity() ? &norm_inf_row : nullptr;
}

// Whether each result is made of one element. The norm is its magnitude then, which has no square that overflows.
bool reduces_single_elements(const Tensor& self, const ReductionRequest& request) {
  return c10::multiply_integers(ReducedShape(self, request).sizes) == self.numel();
}

std::optional<Tensor> reduce_norm(const Tensor& self, const ReductionRequest& request) {
  ReductionRow* row = norm_row(request);
  if (row == nullptr || self.numel() == 0 || !is_real_float(self.scalar_type())) return std::nullopt;
  return reduce(reduces_single_elements(self, request) ? norm_inf_row : *row, self, request);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_reduction<&reduce_by<sum_row>, ops::sum, ops::sum_dim_IntList, ops::sum_IntList_out>(m);
  register_reduction<&reduce_by<mean_row>, ops::mean, ops::mean_dim, ops::mean_out>(m);
  register_reduction<&reduce_by<prod_row>, ops::prod, ops::prod_dim_int, ops::prod_int_out>(m);
  register_reduction<&reduce_by<amax_row>, ops::amax, ops::amax_out, ops::max>(m);
  register_reduction<&reduce_by<amin_row>, ops::amin, ops::amin_out, ops::min>(m);
  register_reduction<&reduce_by<any_row>, ops::any, ops::any_dim, ops::any_dims>(m);
  register_reduction<&reduce_by<any_row>, ops::any_all_out, ops::any_out, ops::any_dims_out>(m);
  register_reduction<&reduce_by<all_row>, ops::all, ops::all_dim, ops::all_dims>(m);
  register_reduction<&reduce_by<all_row>, ops::all_all_out, ops::all_out, ops::all_dims_out>(m);
  register_reduction<&reduce_norm, ops::linalg_vector_norm, ops::linalg_vector_norm_out>(m);
}

}  // namespace
}  // namespace mydev
