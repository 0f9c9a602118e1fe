#include "aten/memory/strided_copy.h"

#include "runtime/command/transfer.h"
#include "runtime/driver/device.h"

namespace mydev {

namespace {

// Returns a dtype with elements of that size: drivers need to know no more of a dtype. INVALID: there is none.
mydev_dtype dtype_of_size(size_t bytes) {
  switch (bytes) {
    case 1:
      return MYDEV_U8;
    case 2:
      return MYDEV_U16;
    case 4:
      return MYDEV_U32;
    case 8:
      return MYDEV_U64;
    case 16:
      return MYDEV_C128;
    default:
      return MYDEV_DTYPE_INVALID;
  }
}

mydev_buffer view_of(const at::Tensor& tensor, void* data, mydev_dtype dtype) {
  return {data,
          tensor.sizes().data(),
          tensor.strides().data(),
          static_cast<int32_t>(tensor.dim()),
          static_cast<int16_t>(dtype),
          0};
}

}  // namespace

bool try_copy_strided(const at::Tensor& dst, const at::Tensor& src, Stream& stream, mydev_copy_kind kind) {
  const Device& device = stream.device();
  const mydev_dtype dtype = dtype_of_size(dst.dtype().itemsize());
  if (device.driver->copy_strided == nullptr || dtype == MYDEV_DTYPE_INVALID || dst.is_quantized() ||
      dst.scalar_type() != src.scalar_type() || dst.is_conj() != src.is_conj() || dst.is_neg() != src.is_neg()) {
    return false;
  }
  const mydev_buffer to = view_of(dst, dst.mutable_data_ptr(), dtype);
  const mydev_buffer from = view_of(src, const_cast<void*>(src.const_data_ptr()), dtype);
  return copy_views(stream, to, from, kind);
}

}  // namespace mydev
