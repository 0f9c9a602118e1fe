// Ops that give a tensor other memory: resize_, set_ and _lazy_clone.
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <torch/library.h>

#include <algorithm>

#include "aten/launch/native_launch.h"
#include "aten/memory/copy_on_write.h"
#include "aten/memory/device_allocator.h"
#include "aten/memory/storage.h"
#include "aten/memory/uninitialized_memory.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

// Sets sizes and strides in place, and grows the storage if they need more; the tensor is as before if that fails.
void resize_to(c10::TensorImpl& self, c10::IntArrayRef sizes, c10::OptionalIntArrayRef strides) {
  if (self.sizes() == sizes && (!strides.has_value() || self.strides() == strides.value())) return;
  const size_t itemsize = self.dtype().itemsize();
  const size_t offset = static_cast<size_t>(self.storage_offset());
  const size_t bytes = strides.has_value() ? at::detail::computeStorageNbytes(sizes, *strides, itemsize, offset)
                                           : at::detail::computeStorageNbytesContiguous(sizes, itemsize, offset);
  c10::StorageImpl& storage = *self.unsafe_storage().unsafeGetStorageImpl();
  if (bytes > storage.nbytes() && std::find(sizes.begin(), sizes.end(), 0) == sizes.end()) {
    resize_storage(storage, bytes);
  }
  if (strides.has_value()) {
    self.set_sizes_and_strides(sizes, *strides);
  } else {
    self.set_sizes_contiguous(sizes);
  }
}

const at::Tensor& resize_(const at::Tensor& self, c10::IntArrayRef sizes,
                          std::optional<at::MemoryFormat> memory_format) {
  at::detail::check_size_nonnegative(sizes);
  const size_t bytes_before = self.storage().nbytes();
  resize_to(*self.unsafeGetTensorImpl(), sizes, std::nullopt);
  if (memory_format.has_value()) {
    TORCH_CHECK(*memory_format != at::MemoryFormat::Preserve, "resize_: unsupported memory format ", *memory_format);
    self.unsafeGetTensorImpl()->empty_tensor_restride(*memory_format);
  }
  if (fills_uninitialized_memory()) [[unlikely]]
    at::native::fill_resize_deterministic_(self, static_cast<int64_t>(bytes_before));
  return self;
}

at::Tensor& set_storage_offset(at::Tensor& self, at::Storage source, int64_t offset, c10::IntArrayRef sizes,
                               c10::IntArrayRef strides) {
  at::native::checkSetStorage(self, source, offset, sizes, strides);
  self.unsafeGetTensorImpl()->set_storage_offset(offset);
  resize_to(*self.unsafeGetTensorImpl(), sizes,
            strides.data() != nullptr ? c10::OptionalIntArrayRef(strides) : std::nullopt);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source) {
  const int64_t count = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_storage_offset(self, std::move(source), 0, {count}, {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  if (self.is_same(source)) return self;
  TORCH_CHECK(source.device() == self.device(), "set_: cannot give a tensor on ", self.device(),
              " the storage of one on ", source.device(), "; move it with .to() first");
  return set_storage_offset(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_empty(at::Tensor& self) {
  at::Storage storage = device_storage(allocate_device_memory(self.device().index(), 0), 0);
  return set_storage_offset(self, std::move(storage), 0, {0}, {});
}

at::Tensor lazy_clone(const at::Tensor& self) {
  auto impl =
      c10::make_intrusive<c10::TensorImpl>(c10::Storage(lazy_clone_storage(*self.storage().unsafeGetStorageImpl())),
                                           c10::DispatchKeySet(kDispatchKey), self.dtype());
  impl->set_sizes_and_strides(self.sizes(), self.strides(), self.storage_offset());
  return at::Tensor(std::move(impl));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_lazy_clone", &lazy_clone);
  m.impl("resize_", &resize_);
  m.impl("set_.source_Storage", &set_storage);
  m.impl("set_.source_Storage_storage_offset", &set_storage_offset);
  m.impl("set_.source_Tensor", &set_tensor);
  m.impl("set_", &set_empty);
}

}  // namespace
}  // namespace mydev
