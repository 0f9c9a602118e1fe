#include "kernels/launch/staged_launch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/launch/launch_plan.h"
#include "kernels/spec/contract.h"
#include "kernels/spec/dense.h"
#include "runtime/command/launch.h"
#include "runtime/command/transfer.h"
#include "runtime/frame/dtype.h"
#include "runtime/frame/frame.h"
#include "runtime/memory/host_memory.h"

namespace mydev {

namespace {

std::atomic<const StagingCounter*> staging_counter{nullptr};

bool lies_on_device(const mydev_buffer& buffer) {
  return buffer.data != nullptr && !is_scalar(buffer);
}

// A frame whose operands and scratch lie in one block of host memory.
class StagedFrame {
 public:
  StagedFrame(const mydev_frame& frame, std::span<const BufferUse> uses, uint64_t scratch_bytes)
      : frame_(frame), buffers_(frame.buffers, frame.buffers + frame.num_outputs + frame.num_inputs) {
    for (size_t i = 0; i < buffers_.size(); ++i) add_region(buffers_[i], uses[i]);
    merge_regions();
    for (Region& region : regions_) region.offset = reserve(region.end - region.begin);
    scratch_offset_ = reserve(scratch_bytes);
    frame_.scratch_bytes = scratch_bytes;
  }

  uint64_t bytes() const noexcept { return bytes_; }
  // `memory` has bytes().
  void place(std::shared_ptr<void> memory) {
    memory_ = std::move(memory);
    for (mydev_buffer& buffer : buffers_) {
      if (const Region* region = region_of(buffer)) {
        buffer.data = host(*region) + (reinterpret_cast<uintptr_t>(buffer.data) - region->begin);
      }
    }
    frame_.buffers = buffers_.data();
    frame_.scratch = frame_.scratch_bytes != 0 ? static_cast<char*>(memory_.get()) + scratch_offset_ : nullptr;
  }

  mydev_frame& frame() noexcept { return frame_; }
  const std::shared_ptr<void>& memory() const noexcept { return memory_; }
  // The memory that the record reads, and that which it wrote.
  void copy_in(Stream& stream) {
    for (const Region& region : regions_) {
      if (region.read) copy(stream, host(region), device(region), region, MYDEV_COPY_DEVICE_TO_HOST);
    }
  }
  void copy_out(Stream& stream) {
    for (const Region& region : regions_) {
      if (region.written) copy(stream, device(region), host(region), region, MYDEV_COPY_HOST_TO_DEVICE);
    }
  }
  uint64_t bytes_copied() const noexcept { return bytes_copied_; }

 private:
  // Memory of the device that operands lie in, and where its copy is.
  struct Region {
    uintptr_t begin, end;
    bool read, written;
    uint64_t offset;
  };

  void add_region(const mydev_buffer& buffer, const BufferUse& use) {
    if (!lies_on_device(buffer) || use.begin == use.end) return;
    const auto data = reinterpret_cast<uintptr_t>(buffer.data);
    regions_.push_back(
        {data + static_cast<uintptr_t>(use.begin), data + static_cast<uintptr_t>(use.end), use.reads, use.writes, 0});
  }

  void merge_regions() {
    std::sort(regions_.begin(), regions_.end(), [](const Region& a, const Region& b) { return a.begin < b.begin; });
    std::vector<Region> merged;
    for (const Region& region : regions_) {
      if (merged.empty() || region.begin >= merged.back().end) {
        merged.push_back(region);
        continue;
      }
      Region& last = merged.back();
      last.read = true;  // a result may be part of it only
      last.written |= region.written;
      last.end = std::max(last.end, region.end);
    }
    regions_ = std::move(merged);
  }

  uint64_t reserve(uint64_t bytes) {
    constexpr uint64_t kAlignment = 64;
    constexpr uint64_t kMost = UINT64_MAX / 4;  // which no host has
    const uint64_t offset = bytes_;
    bytes_ = std::min(bytes_ + (std::min(bytes, kMost) + kAlignment - 1) / kAlignment * kAlignment, kMost);
    return offset;
  }

  const Region* region_of(const mydev_buffer& buffer) const {
    if (!lies_on_device(buffer)) return nullptr;
    const auto data = reinterpret_cast<uintptr_t>(buffer.data);
    const auto found = std::find_if(regions_.begin(), regions_.end(),
                                    [data](const Region& region) { return data >= region.begin && data < region.end; });
    return found == regions_.end() ? nullptr : &*found;
  }

  char* host(const Region& region) const { return static_cast<char*>(memory_.get()) + region.offset; }
  static void* device(const Region& region) {
    return reinterpret_cast<void*>(region.begin);  // NOLINT(performance-no-int-to-ptr)
  }
  void copy(Stream& stream, void* to, const void* from, const Region& region, mydev_copy_kind kind) {
    copy_bytes(stream, to, from, region.end - region.begin, kind);
    bytes_copied_ += region.end - region.begin;
  }

  mydev_frame frame_;
  std::vector<mydev_buffer> buffers_;
  std::vector<Region> regions_;
  std::shared_ptr<void> memory_;
  uint64_t bytes_ = 0, scratch_offset_ = 0;
  uint64_t bytes_copied_ = 0;
};

// Users' records may need what the thread that launches holds, Python's lock for one.
bool runs_in_host_call(const KernelCandidate& candidate, const Stream& stream) {
  return stream.asynchronous() && stream.device().driver->stream_host_call != nullptr &&
         is_builtin_name(candidate.record->name);
}

void run_staged(StagedLaunch& launch, StagedFrame& staged, Stream& stream) {
  const mydev_kernel& record = *launch.candidate.record;
  const bool in_order = runs_in_host_call(launch.candidate, stream);
  with_scratch_errors(
      record, staged.frame(), [&] { return launch.candidate.owner; },
      [&] { staged.place(in_order ? pinned_memory(stream.device(), staged.bytes()) : host_memory(staged.bytes())); });
  LaunchMode mode{.enqueues = !in_order, .in_host_call = in_order, .decision = std::move(launch.decision)};
  try {
    staged.copy_in(stream);
    if (!in_order) stream.synchronize();
    launch_or_decline(record, staged.frame(), stream, std::move(mode));
    staged.copy_out(stream);
    if (in_order) stream.host_call([memory = staged.memory()] {}, "the end of a launch on copies", "");
  } catch (...) {  // the stream may be copying from and to the memory
    stream.device().driver->stream_synchronize(stream.handle());
    throw;
  }
}

// Whether a result's old value is read. Contracts with lists are asked as a whole.
bool reads_result(const KernelContract& contract, size_t result) {
  const auto updated = [](const ContractOperand& operand) { return operand.is_updated; };
  const auto listed = [](const ContractOperand& operand) { return operand.is_list; };
  if (std::ranges::any_of(contract.results, listed)) return std::ranges::any_of(contract.results, updated);
  return result >= contract.results.size() || contract.results[result].is_updated;
}

}  // namespace

std::vector<BufferUse> buffer_uses(const mydev_kernel& kernel, const mydev_frame& frame) {
  const KernelContract* contract = builtin_contract(kernel.name);
  std::vector<BufferUse> uses;
  for (size_t i = 0; i < frame.num_outputs + frame.num_inputs; ++i) {
    const mydev_buffer& buffer = frame.buffers[i];
    const bool is_result = i < frame.num_outputs;
    int64_t first = 0, last = 0;  // in elements
    bool empty = !lies_on_device(buffer);
    for (int32_t d = 0; d < buffer.rank && !empty; ++d) {
      const int64_t reach = (buffer.sizes[d] - 1) * buffer.strides[d];
      (reach < 0 ? first : last) += reach;
      // The result of a reduction over no elements has an element.
      empty = buffer.sizes[d] == 0 && !(is_result && buffer.strides[d] == 0);
    }
    const int64_t size = dtype_row(buffer.dtype).size;
    // The bytes between a result's elements are copied back with them.
    const bool reads = !is_result || !is_dense(buffer) || (contract != nullptr && reads_result(*contract, i));
    uses.push_back(empty ? BufferUse{} : BufferUse{first * size, (last + 1) * size, reads, is_result});
  }
  return uses;
}

void launch_staged(StagedLaunch launch, const mydev_frame& frame, Stream& stream) {
  const StagingCounter* counter = staging_counter.load(std::memory_order_acquire);
  if (counter != nullptr) counter->begin(launch.candidate.record->name, launch.declined);
  const auto begin = std::chrono::steady_clock::now();
  StagedFrame staged(frame, launch.uses, launch.scratch_bytes);
  run_staged(launch, staged, stream);
  if (counter != nullptr) {
    const std::chrono::nanoseconds elapsed = std::chrono::steady_clock::now() - begin;
    counter->end(launch.candidate.record->name, elapsed.count(), staged.bytes_copied());
  }
}

void set_staging_counter(const StagingCounter& counter) {
  staging_counter.store(&counter, std::memory_order_release);
}

}  // namespace mydev
