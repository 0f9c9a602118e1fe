#include "aten/host/sparse.h"

#include <ATen/NativeFunctions.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <torch/library.h>

namespace mydev {
namespace {

at::SparseTensorImpl* coo_impl(const at::Tensor& tensor) {
  return static_cast<at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
}

at::SparseCsrTensorImpl* compressed_impl(const at::Tensor& tensor) {
  return static_cast<at::SparseCsrTensorImpl*>(tensor.unsafeGetTensorImpl());
}

// The CPU's makes a tensor that shares elements, but not their number: torch.distributed, which reduces complex tensors
// through it, would lose the result.
at::Tensor view_as_real(const at::Tensor& self) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "view_as_real: a sparse tensor on ", self.device(),
                              " has no view as real numbers, which would not follow when elements come or go; use ",
                              "that of its values(), or to_dense()");
}

}  // namespace

bool is_sparse(const at::Tensor& tensor) noexcept {
  const c10::DispatchKeySet keys = tensor.key_set();
  return keys.has_any(c10::DispatchKeySet({c10::DispatchKey::Sparse, c10::DispatchKey::SparseCsr}));
}

Components sparse_components(const at::Tensor& sparse) {
  if (sparse.layout() == c10::kSparse) return {coo_impl(sparse)->indices(), coo_impl(sparse)->values()};
  const at::SparseCsrTensorImpl& impl = *compressed_impl(sparse);
  return {impl.compressed_indices(), impl.plain_indices(), impl.values()};
}

at::Tensor sparse_over(const Components& components, const at::Tensor& sparse) {
  const c10::Device device = components[0].device();
  const c10::BackendComponent backend = components[0].key_set().highestBackendKey();
  const bool coo = sparse.layout() == c10::kSparse;
  const c10::DispatchKeySet keys =
      c10::DispatchKeySet(coo ? c10::DispatchKey::Sparse : c10::DispatchKey::SparseCsr) | c10::DispatchKeySet(backend);
  const at::Tensor result =
      coo ? at::detail::make_tensor<at::SparseTensorImpl>(keys, sparse.dtype())
          : at::detail::make_tensor<at::SparseCsrTensorImpl>(keys, device, sparse.layout(), sparse.dtype());
  set_sparse(result, components, sparse);
  return result;
}

void set_sparse(const at::Tensor& destination, const Components& components, const at::Tensor& like) {
  if (like.layout() == c10::kSparse) {
    at::SparseTensorImpl& impl = *coo_impl(destination);
    impl.raw_resize_(like.sparse_dim(), like.dense_dim(), like.sizes());
    impl.set_indices_and_values_unsafe(components[0], components[1]);
    impl.set_coalesced(coo_impl(like)->coalesced());
  } else {
    at::SparseCsrTensorImpl& impl = *compressed_impl(destination);
    impl.set_layout(like.layout());
    impl.set_member_tensors(components[0], components[1], components[2], like.sizes());
  }
}

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  m.impl("empty.memory_format", &at::native::empty_sparse_symint);
  m.impl("_sparse_coo_tensor_with_dims", &at::native::new_with_dims_sparse);
  m.impl("_sparse_coo_tensor_with_dims_and_tensors", &at::native::new_with_dims_and_tensor_sparse_symint);
  m.impl("sparse_resize_", &at::native::sparse_resize_);
  m.impl("sparse_resize_and_clear_", &at::native::sparse_resize_and_clear_);
  m.impl("copy_", &at::native::copy_sparse_wrapper_);
  m.impl("copy_sparse_to_sparse_", &at::native::copy_sparse_);
  m.impl("clone", &at::native::clone_sparse);
  m.impl("_indices", &at::native::_indices_sparse);
  m.impl("_values", &at::native::_values_sparse);
  m.impl("indices", &at::native::indices_sparse);
  m.impl("values", &at::native::values_sparse);
  m.impl("is_coalesced", &at::native::is_coalesced_sparse);
  m.impl("_coalesced_", &at::native::_coalesced_sparse_);
  m.impl("sparse_dim", &at::native::sparse_dim_sparse);
  m.impl("dense_dim", &at::native::dense_dim_sparse);
  m.impl("_dimI", &at::native::sparse_dim_sparse);
  m.impl("_dimV", &at::native::dense_dim_sparse);
  m.impl("_nnz", &at::native::_nnz_sparse);
  m.impl("view_as_real", &view_as_real);
}

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  m.impl("copy_", &at::native::copy_sparse_compressed_);
  m.impl("crow_indices", &at::native::crow_indices_sparse_csr);
  m.impl("ccol_indices", &at::native::ccol_indices_sparse_csr);
  m.impl("col_indices", &at::native::col_indices_sparse_csr);
  m.impl("row_indices", &at::native::row_indices_sparse_csr);
  m.impl("values", &at::native::values_sparse_csr);
  m.impl("sparse_dim", &at::native::sparse_dim_sparse_csr);
  m.impl("dense_dim", &at::native::dense_dim_sparse_csr);
  m.impl("_nnz", &at::native::_nnz_sparse_csr);
}

}  // namespace mydev
