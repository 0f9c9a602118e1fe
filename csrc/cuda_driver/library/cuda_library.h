// libcuda, loaded at start, and what its results mean here. Thread-safe once it is loaded.
#pragma once

#include <string>

#include "cuda_driver/library/cuda_api.h"
#include "cuda_driver/library/cuda_error.h"

namespace mydev::cuda_driver {

// Loads libcuda.so.1, or the library at `path`, and starts it. Raises UNAVAILABLE with the reason if there is none or
// none that works.
void load_cuda(const std::string& path);
const CudaApi& cuda();

inline DevicePointer as_device(const void* pointer) noexcept {
  return reinterpret_cast<DevicePointer>(pointer);
}

// The code that a result of CUDA's is.
mydev_code code_of(Result result) noexcept;
// "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"
std::string text_of(Result result);

// "CUDNN_STATUS_NOT_SUPPORTED (3000)"; `name` is nullptr if the library does not know the status.
std::string named_status(const char* name, int status, const char* library);

// Raises unless the status is success: "cuMemAlloc of 64 bytes: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory". The
// statuses of cuBLASLt and cuDNN have a code_of() and a text_of(), too, and all libraries' success is 0.
template <typename Status, typename... What>
void check(Status status, const What&... what) {
  if (status != Status{}) [[unlikely]] {
    raise(code_of(status), what..., ": ", text_of(status));
  }
}
// The same where something is given back: at exit CUDA may have given back everything already.
template <typename... What>
void check_given_back(Result result, const What&... what) {
  if (result != kErrorDeinitialized) check(result, what...);
}

}  // namespace mydev::cuda_driver
