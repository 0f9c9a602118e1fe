// Memory whose addresses kernels are given as they are: shared virtual memory, and device memory of
// cl_intel_unified_shared_memory.
#include "opencl_driver/api/errors.h"
#include "opencl_driver/memory/device_memory.h"

namespace mydev::opencl_driver {

namespace {

class SharedVirtualMemory final : public DeviceMemory {
 public:
  SharedVirtualMemory(const Platform& platform, bool fine) : DeviceMemory(platform), fine_(fine) {}

  bool host_accessible() const override { return fine_; }

  void set_parameter(cl_kernel kernel, cl_uint& next, void* data) const override {
    check_cl(cl().clSetKernelArgSVMPointer(kernel, next++, data), "clSetKernelArgSVMPointer");
  }

 private:
  void* acquire(int32_t /*device*/, uint64_t bytes, cl_mem& /*out_buffer*/) override {
    return cl().clSVMAlloc(context(), CL_MEM_READ_WRITE | (fine_ ? CL_MEM_SVM_FINE_GRAIN_BUFFER : 0), bytes,
                           kAlignment);
  }
  void release(const Allocation& allocation) override { cl().clSVMFree(context(), allocation.begin); }
  cl_int enqueue_copy(cl_command_queue queue, void* dst, const void* src, uint64_t bytes, mydev_copy_kind /*kind*/,
                      cl_event* out_event) const override {
    return cl().clEnqueueSVMMemcpy(queue, CL_FALSE, dst, src, bytes, 0, nullptr, out_event);
  }
  cl_int enqueue_fill(cl_command_queue queue, void* dst, uint64_t bytes, const void* pattern, uint32_t pattern_bytes,
                      cl_event* out_event) const override {
    return cl().clEnqueueSVMMemFill(queue, dst, pattern, pattern_bytes, bytes, 0, nullptr, out_event);
  }

  const bool fine_;
};

class UnifiedMemory final : public DeviceMemory {
 public:
  explicit UnifiedMemory(const Platform& platform) : DeviceMemory(platform) {}

  // One device's memory is not promised to be another's.
  bool has_peers() const override { return false; }

  void set_parameter(cl_kernel kernel, cl_uint& next, void* data) const override {
    check_cl(cl().clSetKernelArgMemPointerINTEL(kernel, next++, data), "clSetKernelArgMemPointerINTEL");
  }

 private:
  void* acquire(int32_t device, uint64_t bytes, cl_mem& /*out_buffer*/) override {
    cl_int code = CL_SUCCESS;
    void* data = cl().clDeviceMemAllocINTEL(context(), platform().device(device).id, nullptr, bytes, kAlignment, &code);
    return code == CL_SUCCESS ? data : nullptr;
  }
  void release(const Allocation& allocation) override { cl().clMemFreeINTEL(context(), allocation.begin); }
  cl_int enqueue_copy(cl_command_queue queue, void* dst, const void* src, uint64_t bytes, mydev_copy_kind /*kind*/,
                      cl_event* out_event) const override {
    return cl().clEnqueueMemcpyINTEL(queue, CL_FALSE, dst, src, bytes, 0, nullptr, out_event);
  }
  cl_int enqueue_fill(cl_command_queue queue, void* dst, uint64_t bytes, const void* pattern, uint32_t pattern_bytes,
                      cl_event* out_event) const override {
    return cl().clEnqueueMemFillINTEL(queue, dst, pattern, pattern_bytes, bytes, 0, nullptr, out_event);
  }
};

}  // namespace

std::unique_ptr<DeviceMemory> make_shared_virtual_memory(const Platform& platform, bool fine) {
  return std::make_unique<SharedVirtualMemory>(platform, fine);
}

std::unique_ptr<DeviceMemory> make_unified_memory(const Platform& platform) {
  return std::make_unique<UnifiedMemory>(platform);
}

}  // namespace mydev::opencl_driver
