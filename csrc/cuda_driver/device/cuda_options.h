// Options of the driver: MYDEV_DRIVER=cuda:device=1,nvrtc=PATH.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mydev::cuda_driver {

struct CudaOptions {
  int32_t device = -1;  // device=N: this one alone, by CUDA's number; -1: all
  std::string nvrtc;    // nvrtc=PATH: of libnvrtc, or of its directory
  std::string cublas;   // cublas=PATH: of libcublasLt, or of its directory; "off": products are not given to it
  std::string cudnn;    // cudnn=PATH: likewise of libcudnn, for convolutions
  std::string library;  // library=PATH: in place of libcuda.so.1
};

// Raises INVALID_ARGUMENT naming the option and what is valid.
CudaOptions parse_cuda_options(std::string_view text);

}  // namespace mydev::cuda_driver
