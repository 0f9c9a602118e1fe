#include "opencl_driver/memory/pinned_memory.h"

#include "opencl_driver/api/errors.h"

namespace mydev::opencl_driver {

namespace {

constexpr uintptr_t kPage = 4096;

}  // namespace

void* PinnedMemory::allocate(uint64_t bytes) {
  cl_command_queue queue = platform_.devices().front().service;
  cl_int code = CL_SUCCESS;
  cl_mem buffer = cl().clCreateBuffer(platform_.context(), CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes + kPage,
                                      nullptr, &code);
  require(code == CL_SUCCESS, MYDEV_RESOURCE_EXHAUSTED, "no page-locked memory of ", bytes,
          " bytes: ", cl_code_name(code));
  void* mapped = cl().clEnqueueMapBuffer(queue, buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, bytes + kPage, 0,
                                         nullptr, nullptr, &code);
  if (code != CL_SUCCESS) {
    cl().clReleaseMemObject(buffer);
    raise(MYDEV_RESOURCE_EXHAUSTED, "page-locked memory of ", bytes, " bytes is not mapped: ", cl_code_name(code));
  }
  const uintptr_t behind = reinterpret_cast<uintptr_t>(mapped) % kPage;
  void* data = static_cast<char*>(mapped) + (behind == 0 ? 0 : kPage - behind);
  table_.add(data, bytes, {buffer, mapped});
  return data;
}

void PinnedMemory::free(void* data) {
  const auto memory = table_.take(data);
  if (!memory) raise(MYDEV_INVALID_ARGUMENT, "no page-locked memory begins at ", data);
  cl_command_queue queue = platform_.devices().front().service;
  const cl_int code =
      cl().clEnqueueUnmapMemObject(queue, memory->value.buffer, memory->value.data, 0, nullptr, nullptr);
  cl().clFinish(queue);
  cl().clReleaseMemObject(memory->value.buffer);
  check_cl(code, "clEnqueueUnmapMemObject");
}

}  // namespace mydev::opencl_driver
