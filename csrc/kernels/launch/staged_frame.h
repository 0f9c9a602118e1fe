// A frame whose operands lie in host memory. It is for a record that computes on the host, if the host does not reach
// the device's memory. Operands that overlap on the device overlap on the host. Not thread-safe: of one launch.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mydev/custom_call.h"
#include "runtime/stream/stream.h"

namespace mydev {

class StagedFrame {
 public:
  // Copies the memory that the record reads to the host, after the stream's earlier work, and waits. Raises the error
  // of work that failed.
  StagedFrame(const mydev_frame& frame, Stream& stream);
  StagedFrame(const StagedFrame&) = delete;
  StagedFrame& operator=(const StagedFrame&) = delete;

  mydev_frame& frame() noexcept { return frame_; }
  void set_scratch(uint64_t bytes);  // in host memory
  void copy_back(Stream& stream);    // what the record wrote
  uint64_t bytes_copied() const noexcept { return bytes_copied_; }

 private:
  struct Free {
    void operator()(void* data) const noexcept;
  };
  using HostMemory = std::unique_ptr<void, Free>;
  static HostMemory allocate(uint64_t bytes);

  // Memory of the device that operands lie in, and its copy.
  struct Region {
    uintptr_t begin, end;
    bool read, written;
    HostMemory host;
  };
  void add_region(const mydev_buffer& buffer, bool result);
  void merge_regions();
  const Region* region_of(const mydev_buffer& buffer) const;

  mydev_frame frame_;
  std::vector<mydev_buffer> buffers_;
  std::vector<Region> regions_;
  HostMemory scratch_;
  uint64_t bytes_copied_ = 0;
};

}  // namespace mydev
