#include "kernels/launch/staged_frame.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "kernels/spec/dense.h"
#include "runtime/base/status.h"
#include "runtime/command/transfer.h"
#include "runtime/frame/dtype.h"
#include "runtime/frame/frame.h"

namespace mydev {

namespace {

constexpr size_t kAlignment = 64;

// The bytes that a buffer's elements lie in, from the first to behind the last. Empty if there are no elements.
std::pair<uintptr_t, uintptr_t> span_of(const mydev_buffer& buffer) {
  int64_t first = 0, last = 0;  // in elements
  for (int32_t d = 0; d < buffer.rank; ++d) {
    if (buffer.sizes[d] == 0) return {0, 0};
    const int64_t reach = (buffer.sizes[d] - 1) * buffer.strides[d];
    (reach < 0 ? first : last) += reach;
  }
  const int64_t size = dtype_row(buffer.dtype).size;
  const auto data = reinterpret_cast<uintptr_t>(buffer.data);
  return {data + static_cast<uintptr_t>(first * size), data + static_cast<uintptr_t>((last + 1) * size)};
}

bool lies_on_device(const mydev_buffer& buffer) {
  return buffer.data != nullptr && !is_scalar(buffer);
}

}  // namespace

void StagedFrame::Free::operator()(void* data) const noexcept {
  std::free(data);
}

StagedFrame::HostMemory StagedFrame::allocate(uint64_t bytes) {
  const uint64_t rounded = (std::min(bytes, UINT64_MAX - kAlignment) + kAlignment - 1) / kAlignment * kAlignment;
  HostMemory memory(std::aligned_alloc(kAlignment, rounded));
  MYDEV_CHECK(memory != nullptr, MYDEV_RESOURCE_EXHAUSTED, "out of host memory: ", bytes, " bytes asked for");
  return memory;
}

StagedFrame::StagedFrame(const mydev_frame& frame, Stream& stream)
    : frame_(frame), buffers_(frame.buffers, frame.buffers + frame.num_outputs + frame.num_inputs) {
  for (size_t i = 0; i < buffers_.size(); ++i) add_region(buffers_[i], i < frame.num_outputs);
  merge_regions();
  for (Region& region : regions_) {
    const uint64_t bytes = region.end - region.begin;
    region.host = allocate(bytes);
    if (!region.read) continue;
    const void* data = reinterpret_cast<const void*>(region.begin);  // NOLINT(performance-no-int-to-ptr)
    copy_bytes(stream, region.host.get(), data, bytes, MYDEV_COPY_DEVICE_TO_HOST);
    bytes_copied_ += bytes;
  }
  stream.synchronize();
  for (mydev_buffer& buffer : buffers_) {
    if (const Region* region = region_of(buffer)) {
      buffer.data = static_cast<char*>(region->host.get()) + (reinterpret_cast<uintptr_t>(buffer.data) - region->begin);
    }
  }
  frame_.buffers = buffers_.data();
}

void StagedFrame::add_region(const mydev_buffer& buffer, bool result) {
  if (!lies_on_device(buffer)) return;
  const auto [begin, end] = span_of(buffer);
  if (begin == end) return;
  // The bytes between a result's elements are copied back with them.
  regions_.push_back({begin, end, !result || !is_dense(buffer), result, nullptr});
}

void StagedFrame::merge_regions() {
  std::sort(regions_.begin(), regions_.end(), [](const Region& a, const Region& b) { return a.begin < b.begin; });
  std::vector<Region> merged;
  for (Region& region : regions_) {
    if (merged.empty() || region.begin >= merged.back().end) {
      merged.push_back(std::move(region));
      continue;
    }
    Region& last = merged.back();
    last.read = true;  // a result may be part of it only
    last.written |= region.written;
    last.end = std::max(last.end, region.end);
  }
  regions_ = std::move(merged);
}

const StagedFrame::Region* StagedFrame::region_of(const mydev_buffer& buffer) const {
  if (!lies_on_device(buffer)) return nullptr;
  const auto data = reinterpret_cast<uintptr_t>(buffer.data);
  const auto found = std::find_if(regions_.begin(), regions_.end(),
                                  [data](const Region& region) { return data >= region.begin && data < region.end; });
  return found == regions_.end() ? nullptr : &*found;
}

void StagedFrame::set_scratch(uint64_t bytes) {
  frame_.scratch = nullptr;
  frame_.scratch_bytes = bytes;
  if (bytes == 0) return;
  scratch_ = allocate(bytes);
  frame_.scratch = scratch_.get();
}

void StagedFrame::copy_back(Stream& stream) {
  for (const Region& region : regions_) {
    if (!region.written) continue;
    const uint64_t bytes = region.end - region.begin;
    void* data = reinterpret_cast<void*>(region.begin);  // NOLINT(performance-no-int-to-ptr)
    copy_bytes(stream, data, region.host.get(), bytes, MYDEV_COPY_HOST_TO_DEVICE);
    bytes_copied_ += bytes;
  }
}

}  // namespace mydev
