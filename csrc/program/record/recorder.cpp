#include "program/record/recorder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "program/ir/builder.h"
#include "program/ir/compiled_step.h"
#include "program/record/recorded_memory.h"
#include "runtime/base/device_name.h"
#include "runtime/base/status.h"
#include "runtime/stream/stream.h"

namespace mydev::program {

// --- blocks that are held --------------------------------------------------------------------------------------------

HeldBlocks& HeldBlocks::operator=(HeldBlocks&& other) noexcept {
  if (this != &other) {
    drop();
    blocks_ = std::exchange(other.blocks_, {});
  }
  return *this;
}

void HeldBlocks::hold(Block& block) {
  if (blocks_.emplace(block.data, &block).second) retain(block);
}

bool HeldBlocks::holds(const void* data) const noexcept {
  const auto found = blocks_.lower_bound(data);
  return found != blocks_.end() && data < static_cast<const char*>(found->first) + found->second->size;
}

void HeldBlocks::drop() noexcept {
  for (const auto& [data, block] : std::exchange(blocks_, {})) release(*block);
}

// --- life ------------------------------------------------------------------------------------------------------------

void Recorder::begin(Stream& stream) {
  const std::lock_guard lock(mutex_);
  join(stream);
}

uint32_t Recorder::join(Stream& stream) {
  stream.begin_capture(*this, pool_->key_of(stream));
  lanes_.emplace_back().stream = &stream;
  return static_cast<uint32_t>(lanes_.size() - 1);
}

void Recorder::cancel() noexcept {
  for (const Lane& lane : lanes_) lane.stream->end_capture();
  lanes_.clear();
  steps_.clear();
  points_.clear();
  until_end_.drop();
  memory_.drop();
}

std::vector<Step> Recorder::take_steps() {
  for (const Lane& lane : lanes_) lane.stream->end_capture();
  const std::vector<Lane> lanes = std::exchange(lanes_, {});
  std::vector<Step> steps = std::exchange(steps_, {});
  points_.clear();
  until_end_.drop();
  for (size_t i = 1; i < lanes.size(); ++i) {
    const uint32_t seen = i < lanes[0].seen.size() ? lanes[0].seen[i] : 0;
    MYDEV_CHECK(seen == lanes[i].steps, MYDEV_FAILED_PRECONDITION, "stream ", lanes[i].stream->id(),
                " joined the capture of stream ", lanes[0].stream->id(), " of device ",
                device_text(lanes[0].stream->device().index), ", which did not wait for its last ",
                lanes[i].steps - seen, " commands; record an event there and wait for it before the capture ends");
  }
  return steps;
}

Recording Recorder::end(const Signature& signature) {
  const std::lock_guard lock(mutex_);
  Recording recording;
  recording.memory = std::move(memory_);
  RecordedMemory memory(take_steps(), signature);
  recording.program = memory.build(name_);
  recording.parameters = memory.other_parameters();
  recording.results = memory.written_results();
  return recording;
}

// --- commands --------------------------------------------------------------------------------------------------------

uint32_t Recorder::lane_of(const Stream& stream) const {
  const auto found =
      std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& lane) { return lane.stream == &stream; });
  MYDEV_ASSERT(found != lanes_.end());
  return static_cast<uint32_t>(found - lanes_.begin());
}

Operand Recorder::operand(Stream& stream, const mydev_buffer& buffer, bool written) {
  if ((buffer.flags & MYDEV_BUFFER_SCALAR) != 0) return ProgramBuilder::number(buffer);
  if (buffer.data == nullptr && buffer.rank == 0) return ProgramBuilder::absent();
  // The pool's memory stays with the pool.
  if (buffer.data != nullptr && !memory_.holds(buffer.data)) {
    Block* block = block_containing(stream.device().index, buffer.data);
    if (block != nullptr && !pool_->has_key(*block->stream)) memory_.hold(*block);
  }
  Operand view = ProgramBuilder::view(0, reinterpret_cast<uint64_t>(buffer.data), buffer);
  if (!written && std::ranges::count(view.sizes, 0) != 0) view.strides = dense_strides(view.sizes);
  return view;
}

void Recorder::add(Stream& stream, Step step) {
  const uint32_t index = lane_of(stream);
  Lane& lane = lanes_[index];
  step.lane = index;
  step.after = std::exchange(lane.after, {});
  lane.last = static_cast<StepIndex>(steps_.size());
  lane.seen.resize(std::max<size_t>(lane.seen.size(), index + 1));
  lane.seen[index] = ++lane.steps;
  steps_.push_back(std::move(step));
}

void Recorder::launch(Stream& stream, const mydev_kernel& kernel, const mydev_frame& frame,
                      const CompiledLaunch* compiled) {
  const std::lock_guard lock(mutex_);
  Step step;
  step.kind = StepKind::kLaunch;
  step.name = kernel.name;
  for (uint32_t i = 0; i < frame.num_outputs + frame.num_inputs; ++i) {
    const bool written = i < frame.num_outputs;
    (written ? step.results : step.operands).push_back(operand(stream, frame.buffers[i], written));
  }
  step.attributes = Attributes({frame.attributes, frame.num_attributes});
  if (compiled != nullptr) describe_compiled_launch(*compiled, step);
  add(stream, std::move(step));
}

void Recorder::copy(Stream& stream, const mydev_buffer& dst, const mydev_buffer& src) {
  const std::lock_guard lock(mutex_);
  Step step;
  step.kind = StepKind::kCopy;
  step.results.push_back(operand(stream, dst, true));
  step.operands.push_back(operand(stream, src, false));
  add(stream, std::move(step));
}

void Recorder::fill(Stream& stream, void* dst, uint64_t bytes, const void* pattern, uint32_t pattern_bytes) {
  const std::lock_guard lock(mutex_);
  const int64_t size = static_cast<int64_t>(bytes), stride = 1;
  Step step;
  step.kind = StepKind::kFill;
  step.results.push_back(
      operand(stream, {.data = dst, .sizes = &size, .strides = &stride, .rank = 1, .dtype = MYDEV_U8}, true));
  step.pattern.resize(pattern_bytes);
  std::memcpy(step.pattern.data(), pattern, pattern_bytes);
  add(stream, std::move(step));
}

void Recorder::collective(Stream& stream, const std::string& name, std::span<const mydev_buffer> written,
                          std::span<const mydev_buffer> read, CollectiveFunction function) {
  const std::lock_guard lock(mutex_);
  Step step;
  step.kind = StepKind::kCollective;
  step.name = name;
  for (const mydev_buffer& buffer : written) step.results.push_back(operand(stream, buffer, true));
  for (const mydev_buffer& buffer : read) step.operands.push_back(operand(stream, buffer, false));
  step.collective = std::make_shared<const CollectiveFunction>(std::move(function));
  add(stream, std::move(step));
}

bool Recorder::host_function(Stream& stream, const std::string& name, std::function<void()> function) {
  if (host_functions_ == HostFunctions::kRefused) return false;
  const std::lock_guard lock(mutex_);
  Step step;
  step.kind = StepKind::kHostCall;
  step.name = name;
  step.function = std::make_shared<const HostFunction>(
      [function = std::move(function)](std::span<const mydev_buffer> /*buffers*/) { function(); });
  add(stream, std::move(step));
  return true;
}

uint64_t Recorder::mark(Stream& stream) {
  const std::lock_guard lock(mutex_);
  const Lane& lane = lanes_[lane_of(stream)];
  points_.push_back({lane.seen, lane.after});
  if (lane.steps != 0) points_.back().after.push_back(lane.last);
  return points_.size() - 1;
}

void Recorder::wait(Stream& stream, uint64_t point) {
  const std::lock_guard lock(mutex_);
  MYDEV_CHECK(!lanes_.empty(), MYDEV_FAILED_PRECONDITION, "stream ", stream.id(),
              " cannot wait for an event of a capture that has ended; record the event anew");
  const Point& waited = points_[point];
  Lane& lane = lanes_[stream.capture() == nullptr ? join(stream) : lane_of(stream)];
  const auto index = static_cast<uint32_t>(&lane - lanes_.data());
  lane.seen.resize(std::max(lane.seen.size(), waited.seen.size()));
  for (size_t i = 0; i < waited.seen.size(); ++i) lane.seen[i] = std::max(lane.seen[i], waited.seen[i]);
  for (const StepIndex step : waited.after) {
    if (steps_[step].lane != index) lane.after.push_back(step);
  }
}

void Recorder::keep(Block& block) {
  const std::lock_guard lock(mutex_);
  until_end_.hold(block);
}

}  // namespace mydev::program
