// The memory of the devices: allocations up to a limit, and the commands that copy and fill it.
//
// Each kind of memory of OpenCL has a class: shared virtual memory, the memory of Intel's extension (both with
// addresses that kernels are given as they are), and buffer objects, behind addresses that name no memory of the
// process. Copies and fills are checked against the allocations, since a stray address could end the process.
// Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "mydev/driver_extensions.h"
#include "opencl_driver/memory/address_table.h"
#include "opencl_driver/memory/rectangles.h"
#include "opencl_driver/platform/platform.h"

namespace mydev::opencl_driver {

class DeviceMemory {
 public:
  // Each pointer has that of OpenCL's largest type.
  static constexpr uint32_t kAlignment = 128;

  struct Backing {
    int32_t device;
    cl_mem buffer;  // of buffer objects; else NULL
  };
  using Allocation = AddressTable<Backing>::Entry;

  // Raises FAILED_PRECONDITION where the devices lack memory of that kind.
  static std::unique_ptr<DeviceMemory> make(const Platform& platform, MemoryKind kind);

  virtual ~DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  virtual bool host_accessible() const { return false; }
  virtual bool has_peers() const { return true; }
  virtual mydev_parameter_form parameters() const { return MYDEV_PARAMETERS_POINTERS; }

  void* allocate(int32_t device, uint64_t bytes);  // raises RESOURCE_EXHAUSTED
  void free(void* data);                           // raises INVALID_ARGUMENT for what allocate did not give
  uint64_t allocated(int32_t device) const { return allocated_[static_cast<size_t>(device)]; }
  std::optional<Allocation> find(const void* data, uint64_t bytes) const { return table_.find(data, bytes); }

  // Commands, of a queue; the event is their end. They raise INVALID_ARGUMENT for what is no allocation's.
  void copy(cl_command_queue queue, void* dst, const void* src, uint64_t bytes, mydev_copy_kind kind,
            cl_event* out_event) const;
  void fill(cl_command_queue queue, void* dst, uint64_t bytes, const void* pattern, uint32_t pattern_bytes,
            cl_event* out_event) const;
  // How this memory copies between the views by one command; nothing where it does not.
  virtual std::optional<Rectangles> rectangles(const mydev_buffer& /*dst*/, const mydev_buffer& /*src*/,
                                               mydev_copy_kind /*kind*/) const {
    return std::nullopt;
  }
  virtual void copy_rectangles(cl_command_queue /*queue*/, void* /*dst*/, const void* /*src*/,
                               const Rectangles& /*rectangles*/, mydev_copy_kind /*kind*/,
                               cl_event* /*out_event*/) const {}
  // Sets the next parameter, or parameters, of a kernel to memory, which may be NULL.
  virtual void set_parameter(cl_kernel kernel, cl_uint& next, void* data) const = 0;

 protected:
  explicit DeviceMemory(const Platform& platform) : platform_(platform) {}

  cl_context context() const { return platform_.context(); }
  const Platform& platform() const { return platform_; }
  Allocation must_find(const void* data, uint64_t bytes) const;

  // Returns the address of new memory, or NULL.
  virtual void* acquire(int32_t device, uint64_t bytes, cl_mem& out_buffer) = 0;
  virtual void release(const Allocation& allocation) = 0;
  virtual cl_int enqueue_copy(cl_command_queue queue, void* dst, const void* src, uint64_t bytes, mydev_copy_kind kind,
                              cl_event* out_event) const = 0;
  virtual cl_int enqueue_fill(cl_command_queue queue, void* dst, uint64_t bytes, const void* pattern,
                              uint32_t pattern_bytes, cl_event* out_event) const = 0;

 private:
  const Platform& platform_;
  AddressTable<Backing> table_;
  std::array<std::atomic<uint64_t>, kMaxDevices> allocated_{};
};

std::unique_ptr<DeviceMemory> make_shared_virtual_memory(const Platform& platform, bool fine);
std::unique_ptr<DeviceMemory> make_unified_memory(const Platform& platform);
std::unique_ptr<DeviceMemory> make_buffer_memory(const Platform& platform);

}  // namespace mydev::opencl_driver
