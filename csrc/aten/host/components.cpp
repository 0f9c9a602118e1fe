#include "aten/host/components.h"

#include "aten/host/nested.h"
#include "aten/host/quantized.h"
#include "aten/host/sparse.h"

namespace mydev {

Components components(const at::Tensor& tensor) {
  if (is_sparse(tensor)) return sparse_components(tensor);
  return tensor.is_nested() ? Components{nested_buffer(tensor)} : quantized_components(tensor);
}

at::Tensor tensor_of(const Components& components, const at::Tensor& tensor) {
  if (is_sparse(tensor)) return sparse_over(components, tensor);
  return tensor.is_nested() ? nested_over(components[0], tensor) : quantized_over(components, tensor);
}

void set_components(const at::Tensor& destination, const Components& components, const at::Tensor& like) {
  if (is_sparse(like)) {
    set_sparse(destination, components, like);
  } else if (like.is_nested()) {
    set_nested(destination, components[0]);
  } else {
    set_quantized(destination, components, like);
  }
}

at::Tensor whole_storage(const at::Tensor& tensor, caffe2::TypeMeta type) {
  const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
  const c10::DispatchKeySet keys(tensor.key_set().highestBackendKey());
  auto whole = c10::make_intrusive<c10::TensorImpl>(c10::Storage(storage),
                                                    keys | c10::DispatchKeySet(c10::DispatchKey::Dense), type);
  whole->set_sizes_contiguous({static_cast<int64_t>(storage.nbytes() / type.itemsize())});
  return at::Tensor(std::move(whole));
}

}  // namespace mydev
