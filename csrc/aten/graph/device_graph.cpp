#include "aten/graph/device_graph.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <type_traits>
#include <utility>

#include "aten/core/device_type.h"
#include "aten/device/generator.h"
#include "aten/memory/storage.h"
#include "program/text/graphviz.h"
#include "program/text/text.h"
#include "program/transform/fusion.h"
#include "runtime/base/blocking_call.h"
#include "runtime/base/device_name.h"
#include "runtime/command/transfer.h"
#include "runtime/stream/stream_table.h"

namespace mydev {

namespace {

static_assert(std::is_same_v<PoolId, c10::MempoolId_t>);

}  // namespace

c10::MempoolId_t graph_pool_handle() {
  return PrivatePool::next_id();
}

DeviceGraph::~DeviceGraph() {
  reset();
}

void DeviceGraph::register_generator_state(const at::Generator& generator) {
  TORCH_CHECK(recorder_ == nullptr, "register_generator_state: the capture has begun; register generators before it");
  at::check_generator<DeviceGenerator>(generator);
  draws_.emplace_back(generator);
}

void DeviceGraph::capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode mode) {
  TORCH_CHECK(recorder_ == nullptr, "capture_begin: this graph is being captured already");
  TORCH_CHECK(!recording_.has_value(),
              "capture_begin: this graph has been captured; reset() it first, or make another");
  device_ = current_device();
  Stream& stream = current_stream(device_);
  TORCH_CHECK(stream.capture() == nullptr, "capture_begin: stream ", stream.id(), " of ", torch_device(device_),
              " is capturing another graph already; end that capture first");
  pool_id_ = pool == c10::MempoolId_t{0, 0} ? graph_pool_handle() : pool;
  pool_ = PrivatePool::with_id(pool_id_);
  draws_.emplace_back(default_device_generator(static_cast<c10::DeviceIndex>(device_)));
  for (CapturedDraws& draws : draws_) draws.allocate();
  const auto host_functions =
      mode == at::GraphCaptureMode::Relaxed ? program::HostFunctions::kRecorded : program::HostFunctions::kRefused;
  auto recorder = std::make_shared<program::Recorder>("graph", pool_, host_functions);
  recorder->begin(stream);
  recorder_ = std::move(recorder);
  for (CapturedDraws& draws : draws_) draws.begin(*recorder_);
}

void DeviceGraph::end_draws() {
  for (CapturedDraws& draws : draws_) draws.end(*recorder_);
}

void DeviceGraph::capture_end() {
  TORCH_CHECK(recorder_ != nullptr, "capture_end: no capture of this graph has begun");
  end_draws();
  const std::shared_ptr<program::Recorder> recorder = std::exchange(recorder_, nullptr);
  try {
    recording_ = recorder->end();
    recording_->program = program::fuse(recording_->program);
    std::erase_if(draws_, [](const CapturedDraws& draws) { return !draws.any(); });
    if (!keep_graph_) instantiate();
  } catch (...) {
    reset();
    throw;
  }
}

void DeviceGraph::instantiate() {
  TORCH_CHECK(recording_.has_value(), "instantiate: nothing has been captured yet");
  Stream& stream = current_stream(device_);
  executor_ = std::make_unique<program::Executor>(recording_->program, stream, program::caching_allocator_for(stream));
}

void DeviceGraph::replay() {
  TORCH_CHECK(recording_.has_value(),
              "replay: nothing has been captured yet; capture_begin() and capture_end() come first");
  if (executor_ == nullptr) instantiate();
  Stream& stream = current_stream(device_);
  for (CapturedDraws& draws : draws_) draws.prepare(stream, "replaying a graph that draws random numbers");
  executor_->run(stream, recording_->parameters);
}

void DeviceGraph::cancel() noexcept {
  if (recorder_ == nullptr) return;
  end_draws();
  recorder_->cancel();
  recorder_ = nullptr;
}

void DeviceGraph::reset() {
  cancel();
  call_blocking([this] { executor_.reset(); });  // which waits for the last run
  recording_.reset();
  draws_.clear();
  pool_.reset();
  pool_id_ = {0, 0};
}

c10::MempoolId_t DeviceGraph::pool() const {
  TORCH_CHECK(pool_ != nullptr, "pool: a graph has a memory pool from capture_begin() on");
  return pool_id_;
}

void DeviceGraph::debug_dump(const std::string& path) {
  TORCH_CHECK(debug_ || keep_graph_,
              "debug_dump: call enable_debug_mode() before the capture, or make the graph with keep_graph=True");
  TORCH_CHECK(recording_.has_value(), "debug_dump: nothing has been captured yet");
  std::ofstream file(path);
  file << (path.ends_with(".dot") ? program::dot_of(*recording_->program) : program::print(*recording_->program));
  file.close();
  TORCH_CHECK(file.good(), "debug_dump: cannot write to ", path);
}

namespace {

// Registers the graphs by the name of the device in capitals, as PyTorch asks for it.
[[maybe_unused]] const bool graphs_registered = [] {
  std::string key = device_name();
  std::transform(key.begin(), key.end(), key.begin(), [](unsigned char letter) { return std::toupper(letter); });
  at::GraphImplRegistry()->Register(key, [](at::GraphImplArgs args) -> std::unique_ptr<at::GraphImplInterface> {
    return std::make_unique<DeviceGraph>(args);
  });
  return true;
}();

}  // namespace

}  // namespace mydev
