// cuBLASLt, which is loaded when the driver starts, if it is there: from where the options say, from beside this
// package (the wheels nvidia-cublas and nvidia-cublas-cu12), or from where the system finds it. Thread-safe.
#pragma once

#include <string>

#include "cuda_driver/device/cuda_device.h"
#include "cuda_driver/library/cublaslt_api.h"

namespace mydev::cuda_driver {

// `path`: of the library or its directory, "" for the usual places, "off" for none. Raises NOT_FOUND if nothing works
// at a path that is given. Without it nothing is raised; has_cublaslt tells.
void load_cublaslt(const std::string& path);
bool has_cublaslt() noexcept;
const CublasLtApi& cublaslt();

// The device's one handle, made when it is first asked for. The device's context is current.
LtHandle cublaslt_handle(const CudaDevice& device);

// "CUBLAS_STATUS_NOT_SUPPORTED (15)"
std::string text_of(LtStatus status);
mydev_code code_of(LtStatus status) noexcept;

}  // namespace mydev::cuda_driver
