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
#include "runtime/command/host_work.h"
#include "runtime/command/launch.h"
#include "runtime/command/transfer.h"
#include "runtime/frame/dtype.h"
#include "runtime/frame/frame.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/memory/host_memory.h"

namespace mydev {

namespace {

constinit std::atomic<const StagingCounter*> staging_counter{nullptr};

bool lies_on_device(const mydev_buffer& buffer) {
  return buffer.data != nullptr && !is_scalar(buffer);
}

// Operands, and scratch, in one block of host memory.
class StagedBuffers {
 public:
  StagedBuffers(std::span<const mydev_buffer> buffers, std::span<const BufferUse> uses, uint64_t scratch_bytes)
      : buffers_(buffers.begin(), buffers.end()) {
    for (size_t i = 0; i < buffers_.size(); ++i) add_region(buffers_[i], uses[i]);
    merge_regions();
    for (Region& region : regions_) region.offset = reserve(region.end - region.begin);
    scratch_offset_ = reserve(scratch_bytes);
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
  }

  std::vector<mydev_buffer>& buffers() noexcept { return buffers_; }
  void* scratch() const noexcept { return static_cast<char*>(memory_.get()) + scratch_offset_; }
  const std::shared_ptr<void>& memory() const noexcept { return memory_; }
  // The memory that the work reads, and that which it wrote.
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

  std::vector<mydev_buffer> buffers_;
  std::vector<Region> regions_;
  std::shared_ptr<void> memory_;
  uint64_t bytes_ = 0, scratch_offset_ = 0;
  uint64_t bytes_copied_ = 0;
};

std::shared_ptr<void> memory_for(const StagedBuffers& staged, const Stream& stream, bool in_order) {
  return in_order ? pinned_memory(stream.device(), staged.bytes()) : host_memory(staged.bytes());
}

bool calls_in_order(const Stream& stream) {
  return stream.asynchronous() && stream.device().driver->stream_host_call != nullptr;
}

// Runs submit(), the work, between the copies. Without `in_order` it is done when submit() returns.
template <typename Submit>
void run_staged(StagedBuffers& staged, Stream& stream, bool in_order, const Submit& submit) {
  try {
    staged.copy_in(stream);
    if (!in_order) stream.synchronize();
    submit();
    staged.copy_out(stream);
    if (in_order) stream.host_call([memory = staged.memory()] {}, "the end of work on copies", "");
  } catch (...) {  // the stream may be copying from and to the memory
    stream.device().driver->stream_synchronize(stream.handle());
    throw;
  }
}

// Counts work from its beginning to done().
class Counted {
 public:
  Counted(const char* name, const std::string& declined)
      : name_(name), counter_(staging_counter.load(std::memory_order_acquire)) {
    if (counter_ != nullptr) counter_->begin(name, declined);
  }
  void done(uint64_t bytes_copied) const {
    const std::chrono::nanoseconds elapsed = std::chrono::steady_clock::now() - begin_;
    if (counter_ != nullptr) counter_->end(name_, elapsed.count(), bytes_copied);
  }

 private:
  const char* name_;
  const StagingCounter* counter_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Whether a result's old value is read. Contracts with lists are asked as a whole.
bool reads_result(const KernelContract& contract, size_t result) {
  const auto updated = [](const ContractOperand& operand) { return operand.is_updated; };
  const auto listed = [](const ContractOperand& operand) { return operand.is_list; };
  if (std::ranges::any_of(contract.results, listed)) return std::ranges::any_of(contract.results, updated);
  return result >= contract.results.size() || contract.results[result].is_updated;
}

std::vector<BufferUse> uses_of(std::span<const mydev_buffer> buffers, size_t results, const KernelContract* contract) {
  std::vector<BufferUse> uses;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const mydev_buffer& buffer = buffers[i];
    const bool is_result = i < results;
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

std::span<const mydev_buffer> buffers_of(const mydev_frame& frame) {
  return {frame.buffers, size_t{frame.num_outputs} + frame.num_inputs};
}

std::vector<HostRange> ranges_of(std::span<const mydev_buffer> buffers, size_t results) {
  std::vector<HostRange> ranges;
  const std::vector<BufferUse> uses = buffer_uses(buffers, results);
  for (size_t i = 0; i < buffers.size(); ++i) {
    const BufferUse& use = uses[i];
    // Memory of the host, as devices with UNIFIED_MEMORY are given it, needs no opening.
    if (is_scalar(buffers[i]) || use.begin == use.end || device_of_pointer(buffers[i].data) < 0) continue;
    const uint32_t access =
        (use.reads ? uint32_t{MYDEV_HOST_READS} : 0U) | (use.writes ? uint32_t{MYDEV_HOST_WRITES} : 0U);
    ranges.push_back(
        {static_cast<char*>(buffers[i].data) + use.begin, static_cast<uint64_t>(use.end - use.begin), access});
  }
  return ranges;
}

}  // namespace

std::vector<BufferUse> buffer_uses(const mydev_kernel& kernel, const mydev_frame& frame) {
  return uses_of(buffers_of(frame), frame.num_outputs, builtin_contract(kernel.name));
}

std::vector<BufferUse> buffer_uses(std::span<const mydev_buffer> results_and_operands, size_t results) {
  return uses_of(results_and_operands, results, nullptr);
}

void launch_staged(StagedLaunch launch, const mydev_frame& frame, Stream& stream) {
  const mydev_kernel& record = *launch.candidate.record;
  const Counted counted(record.name, launch.declined);
  StagedBuffers staged(buffers_of(frame), launch.uses, launch.scratch_bytes);
  mydev_frame on_copies = frame;
  // Users' records may need what the thread that launches holds, Python's lock for one.
  const bool in_order = calls_in_order(stream) && is_builtin_name(record.name);
  with_scratch_errors(
      record, frame, [&] { return launch.candidate.owner; },
      [&] { staged.place(memory_for(staged, stream, in_order)); });
  on_copies.buffers = staged.buffers().data();
  on_copies.scratch_bytes = launch.scratch_bytes;
  on_copies.scratch = launch.scratch_bytes != 0 ? staged.scratch() : nullptr;
  LaunchMode mode{.enqueues = !in_order, .in_host_call = in_order, .decision = std::move(launch.decision)};
  run_staged(staged, stream, in_order, [&] { launch_or_decline(record, on_copies, stream, std::move(mode)); });
  counted.done(staged.bytes_copied());
}

void call_staged(const char* name, std::span<const mydev_buffer> buffers, std::span<const BufferUse> uses,
                 std::function<void(std::span<const mydev_buffer>)> function, Stream& stream) {
  const Counted counted(name, "");
  StagedBuffers staged(buffers, uses, /*scratch_bytes=*/0);
  const bool in_order = calls_in_order(stream);
  staged.place(memory_for(staged, stream, in_order));
  run_staged(staged, stream, in_order, [&] {
    call_in_order(stream, name, [function = std::move(function), given = staged.buffers()] { function(given); });
  });
  counted.done(staged.bytes_copied());
}

void call_on_host(const char* name, std::span<const mydev_buffer> buffers, size_t results,
                  std::function<void(std::span<const mydev_buffer>)> function, Stream& stream) {
  Device& device = stream.device();
  if (buffers.empty()) {
    call_in_order(stream, name, [function = std::move(function)] { function({}); });
  } else if (!device.host_accessible()) {
    call_staged(name, buffers, buffer_uses(buffers, results), std::move(function), stream);
  } else {
    call_in_order(
        stream, name,
        [function = std::move(function), given = std::vector(buffers.begin(), buffers.end()), results, &device] {
          const HostAccess access(device, ranges_of(given, results));
          function(given);
        });
  }
}

void set_staging_counter(const StagingCounter& counter) {
  staging_counter.store(&counter, std::memory_order_release);
}

}  // namespace mydev
