// Buffer objects, for devices whose memory has no addresses. An allocation has reserved addresses, which nobody can
// read or write; the table has the buffer of each. Kernels are given a buffer and an offset.
#include <sys/mman.h>

#include <array>

#include "opencl_driver/api/errors.h"
#include "opencl_driver/memory/device_memory.h"

namespace mydev::opencl_driver {

namespace {

// Behind each allocation, so that the address behind its last byte is no other's.
constexpr uint64_t kGap = 4096;

class BufferMemory final : public DeviceMemory {
 public:
  explicit BufferMemory(const Platform& platform) : DeviceMemory(platform) {}

  mydev_parameter_form parameters() const override { return MYDEV_PARAMETERS_BASE_AND_OFFSET; }

  void set_parameter(cl_kernel kernel, cl_uint& next, void* data) const override {
    Place place{};
    if (data != nullptr) place = place_of(data, 0);
    const auto offset = static_cast<int64_t>(place.offset);
    const void* buffer = place.buffer == nullptr ? nullptr : static_cast<const void*>(&place.buffer);
    check_cl(cl().clSetKernelArg(kernel, next++, sizeof(cl_mem), buffer), "clSetKernelArg");
    check_cl(cl().clSetKernelArg(kernel, next++, sizeof(offset), &offset), "clSetKernelArg");
  }

  // Within one buffer OpenCL copies only if the distances are the same.
  std::optional<Rectangles> rectangles(const mydev_buffer& dst, const mydev_buffer& src,
                                       mydev_copy_kind kind) const override {
    std::optional<Rectangles> made = rectangles_of(dst, src);
    const bool has_own_distances = made && made->dst_pitch != made->src_pitch;
    if (has_own_distances && kind == MYDEV_COPY_DEVICE_TO_DEVICE &&
        place_of(dst.data, 0).buffer == place_of(src.data, 0).buffer) {
      return std::nullopt;
    }
    return made;
  }

  void copy_rectangles(cl_command_queue queue, void* dst, const void* src, const Rectangles& rectangles,
                       mydev_copy_kind kind, cl_event* out_event) const override {
    const auto& [region, to_pitch, from_pitch] = rectangles;
    Place to{}, from{};
    if (kind != MYDEV_COPY_DEVICE_TO_HOST) to = place_of(dst, rectangles.dst_span());
    if (kind != MYDEV_COPY_HOST_TO_DEVICE) from = place_of(src, rectangles.src_span());
    const std::array<size_t, 3> to_origin = {to.offset, 0, 0}, from_origin = {from.offset, 0, 0};
    cl_int code = CL_SUCCESS;
    if (kind == MYDEV_COPY_HOST_TO_DEVICE) {
      code = cl().clEnqueueWriteBufferRect(queue, to.buffer, CL_FALSE, to_origin.data(), from_origin.data(),
                                           region.data(), to_pitch[0], to_pitch[1], from_pitch[0], from_pitch[1], src,
                                           0, nullptr, out_event);
    } else if (kind == MYDEV_COPY_DEVICE_TO_HOST) {
      code = cl().clEnqueueReadBufferRect(queue, from.buffer, CL_FALSE, from_origin.data(), to_origin.data(),
                                          region.data(), from_pitch[0], from_pitch[1], to_pitch[0], to_pitch[1], dst, 0,
                                          nullptr, out_event);
    } else {
      code = cl().clEnqueueCopyBufferRect(queue, from.buffer, to.buffer, from_origin.data(), to_origin.data(),
                                          region.data(), from_pitch[0], from_pitch[1], to_pitch[0], to_pitch[1], 0,
                                          nullptr, out_event);
    }
    check_cl(code, "a copy of rectangles");
  }

 private:
  struct Place {
    cl_mem buffer;
    uint64_t offset;
  };

  Place place_of(const void* data, uint64_t bytes) const {
    const Allocation allocation = must_find(data, bytes);
    return {allocation.value.buffer, static_cast<uint64_t>(static_cast<const char*>(data) - allocation.begin)};
  }

  void* acquire(int32_t /*device*/, uint64_t bytes, cl_mem& out_buffer) override {
    cl_int code = CL_SUCCESS;
    cl_mem buffer = cl().clCreateBuffer(context(), CL_MEM_READ_WRITE, bytes, nullptr, &code);
    if (code != CL_SUCCESS) return nullptr;
    void* address = ::mmap(nullptr, bytes + kGap, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) {
      cl().clReleaseMemObject(buffer);
      return nullptr;
    }
    out_buffer = buffer;
    return address;
  }

  void release(const Allocation& allocation) override {
    ::munmap(allocation.begin, allocation.bytes + kGap);
    cl().clReleaseMemObject(allocation.value.buffer);
  }

  cl_int enqueue_copy(cl_command_queue queue, void* dst, const void* src, uint64_t bytes, mydev_copy_kind kind,
                      cl_event* out_event) const override {
    if (kind == MYDEV_COPY_HOST_TO_DEVICE) {
      const Place to = place_of(dst, bytes);
      return cl().clEnqueueWriteBuffer(queue, to.buffer, CL_FALSE, to.offset, bytes, src, 0, nullptr, out_event);
    }
    const Place from = place_of(src, bytes);
    if (kind == MYDEV_COPY_DEVICE_TO_HOST) {
      return cl().clEnqueueReadBuffer(queue, from.buffer, CL_FALSE, from.offset, bytes, dst, 0, nullptr, out_event);
    }
    const Place to = place_of(dst, bytes);
    return cl().clEnqueueCopyBuffer(queue, from.buffer, to.buffer, from.offset, to.offset, bytes, 0, nullptr,
                                    out_event);
  }

  cl_int enqueue_fill(cl_command_queue queue, void* dst, uint64_t bytes, const void* pattern, uint32_t pattern_bytes,
                      cl_event* out_event) const override {
    const Place to = place_of(dst, bytes);
    return cl().clEnqueueFillBuffer(queue, to.buffer, pattern, pattern_bytes, to.offset, bytes, 0, nullptr, out_event);
  }
};

}  // namespace

std::unique_ptr<DeviceMemory> make_buffer_memory(const Platform& platform) {
  return std::make_unique<BufferMemory>(platform);
}

}  // namespace mydev::opencl_driver
