// Matrix products: mm, bmm, mv, dot and their add* forms, all of them one launch of mydev.matmul; _int_mm and
// _scaled_mm.
//
// An op is a row: its kind of product (which says how operands become matrices) and its overloads. The kernel takes
// operands of any strides. takes_dtype() says when it is asked. Whatever else an op accepts (other dtypes, negated
// operands, results that overlap their operands) runs the CPU's kernel, and so does what it refuses: errors are the
// CPU's own.
#include <ATen/Operators.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include <algorithm>
#include <array>

#include "aten/host/native_or_host.h"
#include "kernels/registry/launchable.h"
#include "kernels/spec/contract.h"

namespace mydev {
namespace {

using at::Scalar;
using at::Tensor;

KernelRef matmul_kernel("mydev.matmul");

enum class Product { kMatrices, kBatches, kMatrixVector, kVectors };

constexpr int64_t a_dim(Product kind) {
  return kind == Product::kBatches ? 3 : kind == Product::kVectors ? 1 : 2;
}
constexpr int64_t b_dim(Product kind) {
  return kind == Product::kBatches ? 3 : kind == Product::kMatrices ? 2 : 1;
}
constexpr int64_t out_dim(Product kind) {
  return kind == Product::kBatches ? 3 : kind == Product::kMatrices ? 2 : kind == Product::kMatrixVector ? 1 : 0;
}

// A tensor as the kernel sees it, two or three dimensions.
struct Operand {
  std::array<int64_t, 3> sizes, strides;
  void* data;
};

enum class As { kMatrix, kRow, kColumn };

Operand operand_of(const Tensor& tensor, As as) {
  Operand operand{};
  const c10::IntArrayRef sizes = tensor.sizes(), strides = tensor.strides();
  const size_t vector_at = as == As::kColumn ? 0 : 1;
  if (as != As::kMatrix) operand.sizes[1 - vector_at] = operand.strides[1 - vector_at] = 1;
  if (as != As::kMatrix && sizes.empty()) operand.sizes[vector_at] = operand.strides[vector_at] = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const size_t to = as == As::kMatrix ? i : vector_at;
    operand.sizes[to] = sizes[i];
    operand.strides[to] = strides[i];
  }
  operand.data = const_cast<void*>(tensor.unsafeGetTensorImpl()->data());
  return operand;
}

// `tensor` as broadcast to the sizes of `out`.
Operand expanded_operand(const Tensor& tensor, const Operand& out, As as, size_t rank) {
  Operand operand{out.sizes, {}, const_cast<void*>(tensor.unsafeGetTensorImpl()->data())};
  const c10::IntArrayRef sizes = tensor.sizes(), strides = tensor.strides();
  const size_t last = as == As::kColumn ? 0 : rank - 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const size_t from = sizes.size() - 1 - i;
    operand.strides[last - i] = sizes[from] == 1 ? 0 : strides[from];
  }
  return operand;
}

bool matches(const Tensor& tensor, c10::ScalarType dtype, c10::Device device) {
  return tensor.scalar_type() == dtype && tensor.device() == device && !tensor.is_neg() && !tensor._is_zerotensor();
}

constexpr uint64_t kIntegers =
    dtype_bit(at::kChar) | dtype_bit(at::kShort) | dtype_bit(at::kInt) | dtype_bit(at::kLong) | dtype_bit(at::kByte);
// The operators are given scales for these (_scaled_mm), and have no products without.
constexpr uint64_t kScaled = dtype_bit(at::kFloat8_e4m3fn) | dtype_bit(at::kFloat8_e5m2);

// Whether the kernel is asked for products of this dtype. On the host, PyTorch's kernels for f64 and complex numbers
// are those of a library made for these; those for integers are plain loops.
bool takes_dtype(const Launchable& kernel, c10::ScalarType type, c10::Device device) {
  const uint64_t bit = dtype_bit(type);
  return (is_asked(kernel, bit, device.index()) && (kScaled & bit) == 0) ||
         ((kIntegers & bit) != 0 && mydev::device(device.index()).host_computes());
}

using ProductSizes = c10::SmallVector<int64_t, 3>;

// The sizes of the result, if the kernel takes these factors.
template <Product kind>
std::optional<ProductSizes> native_sizes(const Tensor& a, const Tensor& b) {
  const c10::ScalarType dtype = a.scalar_type();
  if (!on_device(a) || !matches(a, dtype, a.device()) || !matches(b, dtype, a.device())) return std::nullopt;
  if (a.dim() != a_dim(kind) || b.dim() != b_dim(kind)) return std::nullopt;
  if (a.sizes().back() != b.size(kind == Product::kBatches ? 1 : 0)) return std::nullopt;
  const Launchable* kernel = matmul_kernel.on(a);
  if (kernel == nullptr || !takes_dtype(*kernel, dtype, a.device())) return std::nullopt;
  if constexpr (kind == Product::kBatches) {
    if (a.size(0) != b.size(0)) return std::nullopt;
    return ProductSizes{a.size(0), a.size(1), b.size(2)};
  } else if constexpr (kind == Product::kMatrices) {
    return ProductSizes{a.size(0), b.size(1)};
  } else if constexpr (kind == Product::kMatrixVector) {
    return ProductSizes{a.size(0)};
  } else {
    return ProductSizes{};
  }
}

bool expands_to(const Tensor& tensor, c10::IntArrayRef sizes) {
  if (tensor.dim() > static_cast<int64_t>(sizes.size())) return false;
  const size_t skipped = sizes.size() - static_cast<size_t>(tensor.dim());
  for (size_t i = skipped; i < sizes.size(); ++i) {
    const int64_t size = tensor.sizes()[i - skipped];
    if (size != 1 && size != sizes[i]) return false;
  }
  return true;
}

// Whether a factor of elements of the type is what a frame can hold: a real number, of integers a whole one of the
// type.
bool is_factor(const Scalar& scalar, c10::ScalarType type) {
  if (!c10::isIntegralType(type, /*includeBool=*/false)) return !scalar.isComplex();
  if (!scalar.isIntegral(/*includeBool=*/true)) return false;
  const int64_t bits = std::min<int64_t>(8 * static_cast<int64_t>(c10::elementSize(type)), 54);  // a double's, exactly
  const int64_t limit = int64_t{1} << (bits - 1);
  return -limit <= scalar.toLong() && scalar.toLong() < (type == at::kByte ? 2 * limit : limit);
}

bool takes_addend(const Tensor& self, const Tensor& a, c10::IntArrayRef sizes, const Scalar& beta,
                  const Scalar& alpha) {
  const c10::ScalarType type = a.scalar_type();
  return matches(self, type, a.device()) && expands_to(self, sizes) && is_factor(beta, type) && is_factor(alpha, type);
}

// Whether no two elements have a place in common: each dimension steps over all that the narrower ones reach.
bool lies_apart(const Tensor& tensor) {
  c10::SmallVector<std::pair<int64_t, int64_t>, 3> dimensions;  // stride and size
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.size(d) > 1) dimensions.emplace_back(tensor.stride(d), tensor.size(d));
  }
  std::ranges::sort(dimensions);
  int64_t reach = 1;
  for (const auto& [stride, size] : dimensions) {
    if (stride < reach) return false;
    reach += stride * (size - 1);
  }
  return true;
}

// A result that the kernel may write while it reads the factors.
bool writable(const Tensor& out, const Tensor& a, const Tensor& b) {
  return matches(out, a.scalar_type(), a.device()) && !out.is_conj() && !out.is_alias_of(a) && !out.is_alias_of(b) &&
         lies_apart(out);
}

// out = alpha * (a @ b) + beta * addend; addend == nullptr: out itself
template <Product kind>
void multiply(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor* addend, double beta, double alpha) {
  if (out.numel() == 0) return;
  if (C10_UNLIKELY(a.is_conj() || b.is_conj() || (addend != nullptr && addend->is_conj()))) {
    const Tensor added = addend != nullptr ? addend->resolve_conj() : Tensor();
    return multiply<kind>(out, a.resolve_conj(), b.resolve_conj(), addend != nullptr ? &added : nullptr, beta, alpha);
  }
  constexpr size_t rank = kind == Product::kBatches ? 3 : 2;
  constexpr As out_as = kind == Product::kMatrixVector ? As::kColumn
                        : kind == Product::kVectors    ? As::kRow
                                                       : As::kMatrix;
  out.unsafeGetTensorImpl()->mutable_data();  // memory that is shared until it is written becomes its own
  const Operand out_operand = operand_of(out, out_as);
  const Operand a_operand = operand_of(a, kind == Product::kVectors ? As::kRow : As::kMatrix);
  const Operand b_operand = operand_of(b, b_dim(kind) == 1 ? As::kColumn : As::kMatrix);
  const mydev_dtype dtype = to_frame_dtype(out.scalar_type()), factors = to_frame_dtype(a.scalar_type());
  const auto buffer_of = [&](const Operand& operand, mydev_dtype type) {
    return mydev_buffer{operand.data, operand.sizes.data(), operand.strides.data(), rank, type};
  };
  Operand addend_operand;
  std::array<mydev_buffer, 4> buffers = {
      buffer_of(out_operand, dtype), buffer_of(a_operand, factors), buffer_of(b_operand, factors), {}};
  size_t count = 3;
  if (addend != nullptr && beta != 0) {
    addend_operand = expanded_operand(*addend, out_operand, out_as, rank);
    buffers[count++] = buffer_of(addend_operand, dtype);
  }
  launch_on(*matmul_kernel.on(out), out, 1, {buffers.data(), count},
            {float_attribute("alpha", alpha), float_attribute("beta", beta)});
}

// --- the forms of a row ----------------------------------------------------------------------------------------------

template <Product kind, class Op>
Tensor product(const Tensor& a, const Tensor& b) {
  const auto sizes = native_sizes<kind>(a, b);
  if (!sizes) return HostOp<Op>::call(a, b);
  Tensor out = empty_dense(*sizes, a);
  multiply<kind>(out, a, b, nullptr, 0, 1);
  return out;
}

template <Product kind, class Op>
Tensor& product_out(const Tensor& a, const Tensor& b, Tensor& out) {
  const auto sizes = native_sizes<kind>(a, b);
  if (!sizes || !writable(out, a, b)) return HostOp<Op>::call(a, b, out);
  at::native::resize_output(out, *sizes);
  multiply<kind>(out, a, b, nullptr, 0, 1);
  return out;
}

template <Product kind, class Op>
Tensor added(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  const auto sizes = native_sizes<kind>(a, b);
  if (!sizes || !takes_addend(self, a, *sizes, beta, alpha)) return HostOp<Op>::call(self, a, b, beta, alpha);
  Tensor out = empty_dense(*sizes, a);
  multiply<kind>(out, a, b, &self, beta.toDouble(), alpha.toDouble());
  return out;
}

template <Product kind, class Op>
Tensor& added_in_place(Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  const auto sizes = native_sizes<kind>(a, b);
  if (!sizes || !takes_addend(self, a, *sizes, beta, alpha) || self.sizes() != c10::IntArrayRef(*sizes) ||
      !writable(self, a, b)) {
    return HostOp<Op>::call(self, a, b, beta, alpha);
  }
  multiply<kind>(self, a, b, nullptr, beta.toDouble(), alpha.toDouble());
  return self;
}

template <Product kind, class Op>
Tensor& added_out(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
                  Tensor& out) {
  const auto sizes = native_sizes<kind>(a, b);
  const bool accumulates = out.is_same(self);
  if (!sizes || !takes_addend(self, a, *sizes, beta, alpha) || !writable(out, a, b) ||
      (accumulates ? self.sizes() != c10::IntArrayRef(*sizes) : out.is_alias_of(self))) {
    return HostOp<Op>::call(self, a, b, beta, alpha, out);
  }
  at::native::resize_output(out, *sizes);
  multiply<kind>(out, a, b, accumulates ? nullptr : &self, beta.toDouble(), alpha.toDouble());
  return out;
}

// --- products into another dtype -------------------------------------------------------------------------------------

// Two matrices that the kernel is asked to multiply into `out`.
bool multiplies_into(const Tensor& a, const Tensor& b, c10::ScalarType out) {
  const auto is_matrix = [&](const Tensor& factor) {
    return matches(factor, a.scalar_type(), a.device()) && factor.dim() == 2;
  };
  if (!on_device(a) || !is_matrix(a) || !is_matrix(b) || a.size(1) != b.size(0)) return false;
  const Launchable* kernel = matmul_kernel.on(a);
  if (kernel == nullptr) return false;
  return is_asked(*kernel, dtype_bit(a.scalar_type()) | dtype_bit(out), a.device().index()) ||
         (out == at::kInt && mydev::device(a.device().index()).host_computes());
}

Tensor product_into(const Tensor& a, const Tensor& b, c10::ScalarType type) {
  Tensor out = empty_dense({a.size(0), b.size(1)}, type, a.device());
  multiply<Product::kMatrices>(out, a, b, nullptr, 0, 1);
  return out;
}

std::optional<Tensor> int_mm(const Tensor& self, const Tensor& mat2) {
  if (self.scalar_type() != at::kChar || !multiplies_into(self, mat2, at::kInt)) return std::nullopt;
  return product_into(self, mat2, at::kInt);
}

Tensor* int_mm_out(const Tensor& self, const Tensor& mat2, Tensor& out) {
  if (self.scalar_type() != at::kChar || !multiplies_into(self, mat2, at::kInt)) return nullptr;
  if (!matches(out, at::kInt, self.device()) || out.is_alias_of(self) || out.is_alias_of(mat2) || !lies_apart(out)) {
    return nullptr;
  }
  at::native::resize_output(out, {self.size(0), mat2.size(1)});
  multiply<Product::kMatrices>(out, self, mat2, nullptr, 0, 1);
  return &out;
}

// One number for all, or one for each of `count` rows or columns, which lie along `dim`.
bool is_scale(const Tensor& scale, const Tensor& matrix, int64_t dim, int64_t count) {
  if (!matches(scale, at::kFloat, matrix.device())) return false;
  return scale.numel() == 1 || (scale.dim() == 2 && scale.size(dim) == count && scale.size(1 - dim) == 1);
}

// The scales are applied to the f32 result.
std::optional<Tensor> scaled_mm(const Tensor& self, const Tensor& mat2, const Tensor& scale_a, const Tensor& scale_b,
                                const std::optional<Tensor>& bias, const std::optional<Tensor>& scale_result,
                                std::optional<c10::ScalarType> out_dtype, bool /*use_fast_accum*/) {
  const c10::ScalarType type = out_dtype.value_or(self.scalar_type());
  const bool is_float = type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
  if ((dtype_bit(self.scalar_type()) & kScaled) == 0 || !is_float || scale_result.has_value()) return std::nullopt;
  if (!multiplies_into(self, mat2, at::kFloat)) return std::nullopt;
  const int64_t rows = self.size(0), columns = mat2.size(1);
  if (!is_scale(scale_a, self, 0, rows) || !is_scale(scale_b, self, 1, columns)) return std::nullopt;
  if (bias.has_value() && (!on_device(*bias) || bias->dim() != 1 || bias->size(0) != columns)) return std::nullopt;
  Tensor out = product_into(self, mat2, at::kFloat);
  const auto scale_by = [&](const Tensor& scale) { out.mul_(scale.numel() == 1 ? scale.reshape({}) : scale); };
  scale_by(scale_a);
  scale_by(scale_b);
  if (bias.has_value()) out.add_(*bias);
  return out.to(type);
}

// X(op, kind) gives op and op.out; Y(op, kind) gives op, op_ and op.out.
#define MYDEV_PRODUCTS(X) \
  X(mm, kMatrices)        \
  X(bmm, kBatches)        \
  X(mv, kMatrixVector)    \
  X(dot, kVectors)
#define MYDEV_ADDED_PRODUCTS(Y) \
  Y(addmm, kMatrices)           \
  Y(baddbmm, kBatches)          \
  Y(addmv, kMatrixVector)

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#define MYDEV_REGISTER(op, kind)                                                  \
  register_with_fallback<at::_ops::op, &product<Product::kind, at::_ops::op>>(m); \
  register_with_fallback<at::_ops::op##_out, &product_out<Product::kind, at::_ops::op##_out>>(m);
  MYDEV_PRODUCTS(MYDEV_REGISTER)
#undef MYDEV_REGISTER
#define MYDEV_REGISTER(op, kind)                                                               \
  register_with_fallback<at::_ops::op, &added<Product::kind, at::_ops::op>>(m);                \
  register_with_fallback<at::_ops::op##_, &added_in_place<Product::kind, at::_ops::op##_>>(m); \
  register_with_fallback<at::_ops::op##_out, &added_out<Product::kind, at::_ops::op##_out>>(m);
  MYDEV_ADDED_PRODUCTS(MYDEV_REGISTER)
#undef MYDEV_REGISTER
  register_native<at::_ops::_int_mm, &int_mm>(m);
  register_native<at::_ops::_int_mm_out, &int_mm_out>(m);
  register_native<at::_ops::_scaled_mm, &scaled_mm>(m);
  // Not by way of addr.out, where the CPU's kernel could not tell that self and out are one tensor.
  m.impl("addr_", &HostOp<at::_ops::addr_>::call);
}

}  // namespace
}  // namespace mydev
