// cuDNN 9, which is loaded when the driver starts, if it is there: from where the options say, from beside this package
// (the wheels nvidia-cudnn-cu13 and nvidia-cudnn-cu12), or from where the system finds it. Thread-safe.
#pragma once

#include <mutex>
#include <string>

#include "cuda_driver/device/cuda_device.h"
#include "cuda_driver/library/cudnn_api.h"

namespace mydev::cuda_driver {

// Loads it as load_cublaslt does.
void load_cudnn(const std::string& path);
bool has_cudnn() noexcept;
const CudnnApi& cudnn();

// "CUDNN_STATUS_NOT_SUPPORTED (3000)"
std::string text_of(DnnStatus status);
mydev_code code_of(DnnStatus status) noexcept;
// True for a status that says that the library does not do what it was asked.
bool is_refusal(DnnStatus status) noexcept;

// The device's one handle, which is made when it is first used, for one thread at a time. The device's context is
// current.
class DnnHandleInUse {
 public:
  explicit DnnHandleInUse(const CudaDevice& device);
  DnnHandle get() const noexcept { return handle_; }

 private:
  std::unique_lock<std::mutex> lock_;
  DnnHandle handle_ = nullptr;
};

}  // namespace mydev::cuda_driver
