#include "cuda_driver/kernels/cublaslt.h"

#include <map>
#include <mutex>

#include "cuda_driver/library/library_search.h"

namespace mydev::cuda_driver {

namespace {

constexpr const char* kCublasLtNames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
// The wheels have it in these, beside packages.
constexpr const char* kCublasLtWheels[] = {"nvidia/cu13/lib", "nvidia/cublas/lib"};

CublasLtApi cublaslt_table;

}  // namespace

void load_cublaslt(const std::string& path) {
  if (path == "off") return;
  const SharedLibrary library = find_library({"cublas", kCublasLtNames, kCublasLtWheels}, path);
  if (!library) return;
  CublasLtApi found{};
  constexpr const char* kNeeded = "cuBLAS 12 or 13";
#define MYDEV_FIND(entry, parameters) library.find(found.entry, #entry, kNeeded);
  MYDEV_CUBLASLT_ENTRIES(MYDEV_FIND)
#undef MYDEV_FIND
  library.find(found.cublasLtGetStatusName, "cublasLtGetStatusName", kNeeded);
  cublaslt_table = found;
}

bool has_cublaslt() noexcept {
  return cublaslt_table.cublasLtCreate != nullptr;
}

const CublasLtApi& cublaslt() {
  return cublaslt_table;
}

LtHandle cublaslt_handle(const CudaDevice& device) {
  static std::mutex& mutex = *new std::mutex;
  static auto& handles = *new std::map<int32_t, LtHandle>;
  const std::lock_guard lock(mutex);
  LtHandle& handle = handles[device.index()];
  if (handle == nullptr) {
    check(cublaslt().cublasLtCreate(&handle), "cublasLtCreate on device ", device.ordinal(),
          "; the option cublas=off of the CUDA driver does without cuBLASLt");
  }
  return handle;
}

mydev_code code_of(LtStatus status) noexcept {
  switch (status) {
    case LtStatus::kSuccess:
      return MYDEV_OK;
    case LtStatus::kNotInitialized:
      return MYDEV_UNAVAILABLE;
    case LtStatus::kAllocationFailed:
      return MYDEV_RESOURCE_EXHAUSTED;
    default:
      return MYDEV_INTERNAL;
  }
}

std::string text_of(LtStatus status) {
  return named_status(cublaslt().cublasLtGetStatusName(status), static_cast<int>(status), "cuBLAS");
}

}  // namespace mydev::cuda_driver
