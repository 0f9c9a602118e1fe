// A handler of XLA's typed FFI, as one would write it for JAX; nothing in it knows of mydev. Built where jaxlib's
// headers are, and called through register_ffi_target and ffi_call (ffi_targets.py).
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

// [docs: ffi-handler]
static ffi::Error ClampRows(ffi::Buffer<ffi::F32> x, ffi::Buffer<ffi::F32> limits, ffi::ResultBuffer<ffi::F32> out,
                            float scale) {
  const auto sizes = x.dimensions();
  if (sizes.size() != 2 || limits.element_count() != static_cast<size_t>(sizes[0])) {
    return ffi::Error::InvalidArgument("x must be a matrix, and limits have an entry per row");
  }
  for (int64_t i = 0; i < sizes[0]; ++i) {
    const float limit = scale * limits.typed_data()[i];
    for (int64_t j = i * sizes[1]; j < (i + 1) * sizes[1]; ++j) {
      const float value = x.typed_data()[j];
      out->typed_data()[j] = value > limit ? limit : value < -limit ? -limit : value;
    }
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    ClampRowsHandler, ClampRows,
    ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>().Attr<float>(
        "scale"));
// [docs: end]
