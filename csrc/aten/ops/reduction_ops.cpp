// Reductions: sum, mean, prod, amax, amin, any, all, norms; max, min, argmax, argmin; var, std.
//
// A row is a kernel and its rule for dtypes. Each overload of an op (functional, out=; all dimensions, one, several) is
// derived from the row by the types of its arguments. Shapes and dimension errors are core's own rules.
#include <ATen/Operators.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/native/Resize.h>

#include "aten/host/native_or_host.h"
#include "runtime/stream_table.h"

namespace mydev {
namespace {

using at::ScalarType;
using at::Tensor;

// --- requests ------------------------------------------------------------------------------------------------------

// The arguments of any overload, told apart by their types.
struct Request {
  c10::SmallVector<int64_t, 6> dims;  // empty: all
  bool empty_dims = false;            // given, and empty
  bool keepdim = false;
  std::optional<ScalarType> dtype;
  std::optional<at::Scalar> scalar;  // order of a norm, correction of a variance
  const Tensor* out[2] = {};
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
  void take(std::optional<ScalarType> value) { dtype = value; }
  void take(const at::Scalar& value) { scalar = value; }
  void take(const std::optional<at::Scalar>& value) { scalar = value; }
  void take(Tensor& value) { out[num_out++] = &value; }
};

// --- frames --------------------------------------------------------------------------------------------------------

struct Geometry {
  at::DimVector shape;    // of the result
  at::DimVector strides;  // of the result, 0 along reduced dimensions, in self's rank
};

at::native::DimMask reduced_dims(const Tensor& self, const Request& request) {
  const at::OptionalIntArrayRef dims =
      request.dims.empty() ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(at::IntArrayRef(request.dims));
  return at::native::make_dim_mask(dims, self.dim());
}

at::DimVector spread_strides(const Tensor& out, int64_t rank, const at::native::DimMask& mask, bool keepdim) {
  at::DimVector strides(static_cast<size_t>(rank));
  for (int64_t d = 0, o = 0; d < rank; ++d) {
    const size_t at = static_cast<size_t>(d);
    strides[at] = mask[at] ? 0 : out.stride(o);
    if (!mask[at] || keepdim) ++o;
  }
  return strides;
}

// The result to write: the out= operand, resized, or a fresh tensor.
Tensor prepare_output(const Tensor* out, at::IntArrayRef shape, ScalarType dtype, const Tensor& self) {
  if (out == nullptr) return empty_dense(shape, dtype, self.device());
  at::native::resize_output(*out, shape);
  return *out;
}

mydev_buffer reduced_buffer(const Tensor& self, const Tensor& out, const at::DimVector& strides) {
  return {out.mutable_data_ptr(), self.sizes().data(), strides.data(), static_cast<int32_t>(self.dim()),
          to_frame_dtype(out.scalar_type())};
}

mydev_buffer input_buffer(const Tensor& self) {
  return {const_cast<void*>(self.const_data_ptr()), self.sizes().data(), self.strides().data(),
          static_cast<int32_t>(self.dim()), to_frame_dtype(self.scalar_type())};
}

// --- rows ----------------------------------------------------------------------------------------------------------

using DtypeRule = std::optional<ScalarType> (*)(const Tensor& self, std::optional<ScalarType> dtype);

struct ReductionRow {
  KernelRef kernel;
  DtypeRule result_type;  // empty: not a case of this kernel
};

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

// Unsigned integers beyond one byte have no kernel.
bool readable(const Tensor& self) {
  const ScalarType type = self.scalar_type();
  return self.dim() <= kMaxRank && type != at::kUInt16 && type != at::kUInt32 && type != at::kUInt64;
}

std::optional<Tensor> reduce(ReductionRow& row, const Tensor& self, const Request& request) {
  const mydev_kernel* kernel = row.kernel.on(self);
  if (kernel == nullptr || !readable(self)) return std::nullopt;
  // any and all reduce nothing where others reduce everything.
  if (request.empty_dims && row.result_type == truth_type) return std::nullopt;
  const std::optional<ScalarType> dtype = row.result_type(self, request.dtype);
  if (!dtype.has_value()) return std::nullopt;
  const Tensor* given = request.out[0];
  if (given != nullptr && !writable_as(*given, *dtype, self)) return std::nullopt;
  const at::native::DimMask mask = reduced_dims(self, request);
  const Tensor out = prepare_output(given, at::native::shape_from_dim_mask(self, mask, request.keepdim), *dtype, self);
  const at::DimVector strides = spread_strides(out, self.dim(), mask, request.keepdim);
  const std::array<mydev_buffer, 2> buffers = {reduced_buffer(self, out, strides), input_buffer(self)};
  launch_on(*kernel, buffers, 1, {}, current_stream(self.device().index()));
  return out;
}

// The row of a norm's order.
ReductionRow* norm_row(const Request& request) {
  if (!request.scalar.has_value() || request.scalar->isComplex()) return nullptr;
  const double order = request.scalar->toDouble();
  if (order == 1) return &norm1_row;
  if (order == 2) return &norm2_row;
  return order == std::numeric_limits<double>::infinity() ? &norm_inf_row : nullptr;
}

std::optional<Tensor> reduce_norm(const Tensor& self, const Request& request) {
  ReductionRow* row = norm_row(request);
  return row == nullptr || self.numel() == 0 ? std::nullopt : reduce(*row, self, request);
}

// --- extrema with their indices ------------------------------------------------------------------------------------

struct ExtremumRow {
  KernelRef kernel;
};
ExtremumRow max_row{KernelRef("mydev.max_with_index")};
ExtremumRow min_row{KernelRef("mydev.min_with_index")};

bool has_extremum(const Tensor& self) {
  return (is_real_float(self.scalar_type()) || is_small_integral(self.scalar_type())) && readable(self) &&
         self.numel() > 0;
}

// values may be undefined.
void launch_extremum(const mydev_kernel& kernel, const Tensor& self, const at::native::DimMask& mask, bool keepdim,
                     const Tensor& values, const Tensor& indices) {
  const at::DimVector index_strides = spread_strides(indices, self.dim(), mask, keepdim);
  const mydev_buffer absent{nullptr, nullptr, nullptr, 0, to_frame_dtype(self.scalar_type())};
  at::DimVector value_strides;
  if (values.defined()) value_strides = spread_strides(values, self.dim(), mask, keepdim);
  const std::array<mydev_buffer, 3> buffers = {values.defined() ? reduced_buffer(self, values, value_strides) : absent,
                                               reduced_buffer(self, indices, index_strides), input_buffer(self)};
  launch_on(kernel, buffers, 2, {}, current_stream(self.device().index()));
}

std::optional<std::pair<Tensor, Tensor>> extremum(ExtremumRow& row, const Tensor& self, const Request& request) {
  const mydev_kernel* kernel = row.kernel.on(self);
  if (kernel == nullptr || !has_extremum(self)) return std::nullopt;
  const Tensor *values_out = request.out[0], *indices_out = request.out[1];
  if (values_out != nullptr &&
      (!writable_as(*values_out, self.scalar_type(), self) || !writable_as(*indices_out, at::kLong, self))) {
    return std::nullopt;
  }
  const at::native::DimMask mask = reduced_dims(self, request);
  const at::DimVector shape = at::native::shape_from_dim_mask(self, mask, request.keepdim);
  Tensor values = prepare_output(values_out, shape, self.scalar_type(), self);
  Tensor indices = prepare_output(indices_out, shape, at::kLong, self);
  if (values_out != nullptr && values.strides() != indices.strides()) return std::nullopt;
  launch_extremum(*kernel, self, mask, request.keepdim, values, indices);
  return std::pair(std::move(values), std::move(indices));
}

std::optional<Tensor> extremum_index(ExtremumRow& row, const Tensor& self, const Request& request) {
  const mydev_kernel* kernel = row.kernel.on(self);
  if (kernel == nullptr || !has_extremum(self)) return std::nullopt;
  const Tensor* given = request.out[0];
  if (given != nullptr && !writable_as(*given, at::kLong, self)) return std::nullopt;
  const at::native::DimMask mask = reduced_dims(self, request);
  Tensor out = prepare_output(given, at::native::shape_from_dim_mask(self, mask, request.keepdim), at::kLong, self);
  if (request.dims.empty()) {  // counts through the elements in order
    const Tensor line = self.contiguous().view({self.numel()});
    launch_extremum(*kernel, line, reduced_dims(line, {}), false, {}, out.dim() == 0 ? out : out.view({}));
  } else {
    launch_extremum(*kernel, self, mask, request.keepdim, {}, out);
  }
  return out;
}

// --- variance ------------------------------------------------------------------------------------------------------

KernelRef variance_kernel("mydev.variance");

std::optional<std::pair<Tensor, Tensor>> variance(const Tensor& self, const Request& request, bool root,
                                                  bool with_mean) {
  const mydev_kernel* kernel = variance_kernel.on(self);
  const ScalarType dtype = self.scalar_type();
  if (kernel == nullptr || !is_real_float(dtype) || !readable(self)) return std::nullopt;
  if (request.scalar.has_value() && request.scalar->isComplex()) return std::nullopt;
  const double correction = request.scalar.has_value() ? request.scalar->toDouble() : 1;
  const at::native::DimMask mask = reduced_dims(self, request);
  const at::DimVector shape = at::native::shape_from_dim_mask(self, mask, request.keepdim);
  int64_t outputs = 1;
  for (const int64_t size : shape) outputs *= size;
  // The CPU warns where there are too few elements.
  if (outputs == 0 || static_cast<double>(self.numel() / outputs) <= correction) return std::nullopt;
  const Tensor* given = request.out[0];
  if (given != nullptr && !writable_as(*given, dtype, self)) return std::nullopt;
  Tensor var = prepare_output(given, shape, dtype, self);
  Tensor mean;
  if (with_mean) mean = empty_dense(shape, dtype, self.device());
  const at::DimVector var_strides = spread_strides(var, self.dim(), mask, request.keepdim);
  at::DimVector mean_strides;
  if (with_mean) mean_strides = spread_strides(mean, self.dim(), mask, request.keepdim);
  const mydev_buffer absent{nullptr, nullptr, nullptr, 0, to_frame_dtype(dtype)};
  const std::array<mydev_buffer, 3> buffers = {reduced_buffer(self, var, var_strides),
                                               with_mean ? reduced_buffer(self, mean, mean_strides) : absent,
                                               input_buffer(self)};
  const std::array<mydev_attribute, 2> attributes = {float_attribute("correction", correction),
                                                     bool_attribute("take_root", root)};
  launch_on(*kernel, buffers, 2, attributes, current_stream(self.device().index()));
  return std::pair(std::move(var), std::move(mean));
}

// --- overloads -----------------------------------------------------------------------------------------------------

enum class Kind { kReduce, kNorm, kExtremum, kIndex, kVar, kStd };

// Turns what a kind of reduction gives into what the overload returns.
template <class Result>
auto as_result(std::optional<Tensor> value, const Request& request) {
  if constexpr (std::is_lvalue_reference_v<Result>) {
    return value.has_value() ? const_cast<Tensor*>(request.out[0]) : nullptr;
  } else {
    return value;
  }
}
template <class Result>
auto as_result(std::optional<std::pair<Tensor, Tensor>> value, const Request& request) {
  if constexpr (std::is_lvalue_reference_v<Result>) {
    return value.has_value() ? const_cast<Tensor*>(request.out[0]) : nullptr;
  } else if constexpr (std::is_same_v<Result, std::tuple<Tensor&, Tensor&>>) {
    return value.has_value() ? std::optional<Result>(
                                   Result(const_cast<Tensor&>(*request.out[0]), const_cast<Tensor&>(*request.out[1])))
                             : std::nullopt;
  } else if constexpr (std::is_same_v<Result, Tensor>) {
    return value.has_value() ? std::optional(std::move(value->first)) : std::nullopt;
  } else {
    return value.has_value() ? std::optional(Result(std::move(value->first), std::move(value->second))) : std::nullopt;
  }
}

template <Kind kind, auto& row, class Result, class... Args>
auto try_native(const Tensor& self, Args... args) {
  Request request;
  (request.take(std::forward<Args>(args)), ...);
  if constexpr (kind == Kind::kReduce) {
    return as_result<Result>(reduce(row, self, request), request);
  } else if constexpr (kind == Kind::kNorm) {
    return as_result<Result>(reduce_norm(self, request), request);
  } else if constexpr (kind == Kind::kExtremum) {
    return as_result<Result>(extremum(row, self, request), request);
  } else if constexpr (kind == Kind::kIndex) {
    return as_result<Result>(extremum_index(row, self, request), request);
  } else {
    constexpr bool pair = std::is_same_v<Result, std::tuple<Tensor, Tensor>>;
    return as_result<Result>(variance(self, request, kind == Kind::kStd, pair), request);
  }
}

template <class Op, Kind kind, auto& row, class Schema = typename Op::schema>
struct Overload;
template <class Op, Kind kind, auto& row, class Result, class... Args>
struct Overload<Op, kind, row, Result(const Tensor&, Args...)> {
  static void add(torch::Library& library) { register_native<Op, &try_native<kind, row, Result, Args...>>(library); }
};

// clang-format off
#define MYDEV_REDUCTIONS(X)                                                                        \
  X(sum, kReduce, sum_row) X(sum_dim_IntList, kReduce, sum_row) X(sum_IntList_out, kReduce, sum_row)  \
  X(mean, kReduce, mean_row) X(mean_dim, kReduce, mean_row) X(mean_out, kReduce, mean_row)            \
  X(prod, kReduce, prod_row) X(prod_dim_int, kReduce, prod_row) X(prod_int_out, kReduce, prod_row)    \
  X(amax, kReduce, amax_row) X(amax_out, kReduce, amax_row) X(max, kReduce, amax_row)                 \
  X(amin, kReduce, amin_row) X(amin_out, kReduce, amin_row) X(min, kReduce, amin_row)                 \
  X(any, kReduce, any_row) X(any_dim, kReduce, any_row) X(any_dims, kReduce, any_row)                 \
  X(any_all_out, kReduce, any_row) X(any_out, kReduce, any_row) X(any_dims_out, kReduce, any_row)     \
  X(all, kReduce, all_row) X(all_dim, kReduce, all_row) X(all_dims, kReduce, all_row)                 \
  X(all_all_out, kReduce, all_row) X(all_out, kReduce, all_row) X(all_dims_out, kReduce, all_row)     \
  X(linalg_vector_norm, kNorm, norm2_row) X(linalg_vector_norm_out, kNorm, norm2_row)                 \
  X(max_dim, kExtremum, max_row) X(max_dim_max, kExtremum, max_row)                                   \
  X(min_dim, kExtremum, min_row) X(min_dim_min, kExtremum, min_row)                                   \
  X(argmax, kIndex, max_row) X(argmax_out, kIndex, max_row)                                           \
  X(argmin, kIndex, min_row) X(argmin_out, kIndex, min_row)                                           \
  X(var_correction, kVar, sum_row) X(var_correction_out, kVar, sum_row) X(var_mean_correction, kVar, sum_row) \
  X(std_correction, kStd, sum_row) X(std_correction_out, kStd, sum_row) X(std_mean_correction, kStd, sum_row)
// clang-format on

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#define MYDEV_ADD(op, kind, row) Overload<at::_ops::op, Kind::kind, row>::add(m);
  MYDEV_REDUCTIONS(MYDEV_ADD)
#undef MYDEV_ADD
}

}  // namespace
}  // namespace mydev
