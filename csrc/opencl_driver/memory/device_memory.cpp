#include "opencl_driver/memory/device_memory.h"

#include "opencl_driver/api/errors.h"
#include "opencl_driver/platform/device_facts.h"

namespace mydev::opencl_driver {

std::unique_ptr<DeviceMemory> DeviceMemory::make(const Platform& platform, MemoryKind kind) {
  const bool best = kind == MemoryKind::kBest;
  const auto need = [](bool has, const char* option, const char* what) {
    require(has, MYDEV_FAILED_PRECONDITION, "option 'memory=", option, "' of the OpenCL driver: a device has no ", what,
            "; memory=buffers works on each");
  };
  if (kind == MemoryKind::kUsm || (best && platform.has_usm())) {
    need(platform.has_usm(), "usm", "cl_intel_unified_shared_memory");
    return make_unified_memory(platform);
  }
  if (kind == MemoryKind::kFine) {
    need(platform.has_svm(CL_DEVICE_SVM_FINE_GRAIN_BUFFER), "fine", "shared virtual memory of fine grain");
    return make_shared_virtual_memory(platform, /*fine=*/true);
  }
  if (kind == MemoryKind::kSvm || (best && platform.has_svm(CL_DEVICE_SVM_COARSE_GRAIN_BUFFER))) {
    need(platform.has_svm(CL_DEVICE_SVM_COARSE_GRAIN_BUFFER), "svm", "shared virtual memory");
    return make_shared_virtual_memory(platform, /*fine=*/false);
  }
  return make_buffer_memory(platform);
}

void* DeviceMemory::allocate(int32_t device, uint64_t bytes) {
  const OpenclDevice& owner = platform_.device(device);
  std::atomic<uint64_t>& allocated = allocated_[static_cast<size_t>(device)];
  const uint64_t before = allocated.fetch_add(bytes);
  cl_mem buffer = nullptr;
  void* data = nullptr;
  if (bytes <= owner.limit && before <= owner.limit - bytes &&
      bytes <= device_number<cl_ulong>(owner.id, CL_DEVICE_MAX_MEM_ALLOC_SIZE)) {
    data = acquire(device, bytes, buffer);
  }
  if (data == nullptr) {
    allocated.fetch_sub(bytes);
    raise(MYDEV_RESOURCE_EXHAUSTED, "out of device memory: ", bytes, " bytes asked for, ", before, " of ", owner.limit,
          " in use, and at most ", device_number<cl_ulong>(owner.id, CL_DEVICE_MAX_MEM_ALLOC_SIZE), " at once");
  }
  table_.add(data, bytes, {device, buffer});
  return data;
}

void DeviceMemory::free(void* data) {
  const std::optional<Allocation> allocation = table_.take(data);
  if (!allocation) raise(MYDEV_INVALID_ARGUMENT, "no allocation begins at ", data);
  release(*allocation);
  allocated_[static_cast<size_t>(allocation->value.device)].fetch_sub(allocation->bytes);
}

DeviceMemory::Allocation DeviceMemory::must_find(const void* data, uint64_t bytes) const {
  const std::optional<Allocation> allocation = find(data, bytes);
  if (!allocation) {
    raise(MYDEV_INVALID_ARGUMENT, "no allocation of the device holds the ", bytes, " bytes at ", data);
  }
  return *allocation;
}

void DeviceMemory::copy(cl_command_queue queue, void* dst, const void* src, uint64_t bytes, mydev_copy_kind kind,
                        cl_event* out_event) const {
  if (kind != MYDEV_COPY_DEVICE_TO_HOST) must_find(dst, bytes);
  if (kind != MYDEV_COPY_HOST_TO_DEVICE) must_find(src, bytes);
  check_cl(enqueue_copy(queue, dst, src, bytes, kind, out_event), "a copy");
}

void DeviceMemory::fill(cl_command_queue queue, void* dst, uint64_t bytes, const void* pattern, uint32_t pattern_bytes,
                        cl_event* out_event) const {
  must_find(dst, bytes);
  check_cl(enqueue_fill(queue, dst, bytes, pattern, pattern_bytes, out_event), "a fill");
}

}  // namespace mydev::opencl_driver
