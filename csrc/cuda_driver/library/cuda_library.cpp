#include "cuda_driver/library/cuda_library.h"

#include <string_view>
#include <vector>

#include "cuda_driver/library/shared_library.h"

namespace mydev::cuda_driver {

namespace {

CudaApi table;

}  // namespace

void load_cuda(const std::string& path) {
  const std::vector<std::string> names = {path.empty() ? "libcuda.so.1" : path};
  const SharedLibrary library(names);
  require(static_cast<bool>(library), MYDEV_UNAVAILABLE, "NVIDIA's driver is not installed here: ", library.problem());
  CudaApi& api = table;
#define MYDEV_FIND(entry, suffix, parameters) \
  library.find(api.entry, #entry suffix, "NVIDIA's driver for CUDA 11.4 or newer");
  MYDEV_CUDA_ENTRIES(MYDEV_FIND)
#undef MYDEV_FIND
  const Result started = api.cuInit(0);
  if (started == kErrorNoDevice) return;  // a machine without one: there are 0 devices
  require(started == kSuccess, MYDEV_UNAVAILABLE, "CUDA does not start: cuInit: ", text_of(started));
}

const CudaApi& cuda() {
  return table;
}

mydev_code code_of(Result result) noexcept {
  switch (result) {
    case kSuccess:
      return MYDEV_OK;
    case kErrorOutOfMemory:
      return MYDEV_RESOURCE_EXHAUSTED;
    case kErrorInvalidValue:
    case kErrorInvalidDevice:
    case kErrorInvalidHandle:
    case kErrorLaunchOutOfResources:
      return MYDEV_INVALID_ARGUMENT;
    case kErrorNotFound:
      return MYDEV_NOT_FOUND;
    case kErrorNotReady:
      return MYDEV_FAILED_PRECONDITION;
    case kErrorNotSupported:
      return MYDEV_UNIMPLEMENTED;
    case kErrorNotInitialized:
    case kErrorDeinitialized:
    case kErrorNoDevice:
      return MYDEV_UNAVAILABLE;
    default:
      break;
  }
  return result >= kErrorCaptureFirst && result <= kErrorCaptureLast ? MYDEV_FAILED_PRECONDITION : MYDEV_INTERNAL;
}

std::string named_status(const char* name, int status, const char* library) {
  const std::string known = name == nullptr ? std::string("unknown to this version of ") + library : name;
  return known + " (" + std::to_string(status) + ")";
}

std::string text_of(Result result) {
  const char* name = nullptr;
  const char* text = nullptr;
  const CudaApi& api = cuda();
  if (api.cuGetErrorName(result, &name) != kSuccess) name = nullptr;
  if (api.cuGetErrorString(result, &text) != kSuccess || text == nullptr) text = "";
  std::string all = named_status(name, result, "CUDA");
  if (*text != '\0') all += std::string(": ") + text;
  const bool lost = result == kErrorIllegalAddress || result == kErrorAssert ||
                    (result >= kErrorHardwareStack && result <= kErrorLaunchFailed);
  return lost ? all + "; the device takes no more work of this process, which must be started again" : all;
}

}  // namespace mydev::cuda_driver
