// NVRTC, NVIDIA's compiler for CUDA C, which is loaded when the driver starts: from where the options say, from beside
// this package (the wheels nvidia-cuda-nvrtc and nvidia-cuda-nvrtc-cu12), or from where the system finds it.
// Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "cuda_driver/library/cuda_api.h"

namespace mydev::cuda_driver {

// `path`: of the library or its directory, "" for the usual places. Raises NOT_FOUND if nothing works at a path that is
// given. Without it nothing is raised; has_nvrtc tells.
void load_nvrtc(const std::string& path);
bool has_nvrtc() noexcept;
// "13.0"; "" without NVRTC.
std::string nvrtc_version();

// Compiles for devices of a compute capability, 90 for 9.0, to what cuModuleLoadDataEx takes: machine code, or PTX
// where this NVRTC does not know the device. Raises INVALID_ARGUMENT with what the compiler says.
std::string compile_cuda(std::string_view source, const std::string& options, int compute_capability);

}  // namespace mydev::cuda_driver
