#include "cuda_driver/kernels/cudnn.h"

#include <map>

#include "cuda_driver/library/library_search.h"

namespace mydev::cuda_driver {

namespace {

constexpr const char* kCudnnNames[] = {"libcudnn.so.9"};
// The wheels have it in this, beside packages.
constexpr const char* kCudnnWheels[] = {"nvidia/cudnn/lib"};

CudnnApi cudnn_table;

struct OwnedDnnHandle {
  std::mutex mutex;
  DnnHandle handle = nullptr;
};

OwnedDnnHandle& owned_handle(const CudaDevice& device) {
  static std::mutex& mutex = *new std::mutex;
  static auto& handles = *new std::map<int32_t, OwnedDnnHandle>;
  const std::lock_guard lock(mutex);
  return handles[device.index()];
}

}  // namespace

void load_cudnn(const std::string& path) {
  if (path == "off") return;
  const SharedLibrary library = find_library({"cudnn", kCudnnNames, kCudnnWheels}, path);
  if (!library) return;
  CudnnApi found{};
  constexpr const char* kNeeded = "cuDNN 9";
#define MYDEV_FIND(entry, parameters) library.find(found.entry, #entry, kNeeded);
  MYDEV_CUDNN_ENTRIES(MYDEV_FIND)
#undef MYDEV_FIND
  library.find(found.cudnnGetErrorString, "cudnnGetErrorString", kNeeded);
  cudnn_table = found;
}

bool has_cudnn() noexcept {
  return cudnn_table.cudnnCreate != nullptr;
}

const CudnnApi& cudnn() {
  return cudnn_table;
}

std::string text_of(DnnStatus status) {
  return named_status(cudnn().cudnnGetErrorString(status), static_cast<int>(status), "cuDNN");
}

mydev_code code_of(DnnStatus status) noexcept {
  switch (status) {
    case DnnStatus::kSuccess:
      return MYDEV_OK;
    case DnnStatus::kNotInitialized:
      return MYDEV_UNAVAILABLE;
    case DnnStatus::kHostAllocationFailed:
    case DnnStatus::kDeviceAllocationFailed:
      return MYDEV_RESOURCE_EXHAUSTED;
    default:
      return MYDEV_INTERNAL;
  }
}

bool is_refusal(DnnStatus status) noexcept {
  return status >= DnnStatus::kBadParameter && status < DnnStatus::kInternalError;
}

DnnHandleInUse::DnnHandleInUse(const CudaDevice& device) {
  OwnedDnnHandle& owned = owned_handle(device);
  lock_ = std::unique_lock(owned.mutex);
  if (owned.handle == nullptr) {
    check(cudnn().cudnnCreate(&owned.handle), "cudnnCreate on device ", device.ordinal(),
          "; the option cudnn=off of the CUDA driver does without cuDNN");
  }
  handle_ = owned.handle;
}

}  // namespace mydev::cuda_driver
