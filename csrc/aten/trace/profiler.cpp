// Device timing for torch.autograd.profiler.profile(use_device=...), over events of the runtime.
//
// Each record is an event with timing on the current stream of the current device. Marks and ranges are for vendors'
// own tools, which this backend has none of. Thread-safe, as events are.
#include <torch/csrc/profiler/stubs/base.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "runtime/driver/device.h"
#include "runtime/stream/event.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

using torch::profiler::impl::ProfilerStubs;
using torch::profiler::impl::ProfilerVoidEventStub;

class DeviceProfiler final : public ProfilerStubs {
 public:
  void record(c10::DeviceIndex* device_index, ProfilerVoidEventStub* event, int64_t* cpu_ns) const override {
    const int index = current_device();
    if (device_index != nullptr) *device_index = static_cast<c10::DeviceIndex>(index);
    auto recorded = std::make_shared<Event>(index, /*timing=*/true);
    recorded->record(current_stream(index));
    if (cpu_ns != nullptr) {
      *cpu_ns =
          std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
              .count();
    }
    *event = std::move(recorded);
  }

  // Microseconds, rounded up: PyTorch drops the fraction, and takes 0 for an op that was not timed.
  float elapsed(const ProfilerVoidEventStub* begin, const ProfilerVoidEventStub* end) const override {
    const auto& first = *static_cast<const Event*>(begin->get());
    const auto& second = *static_cast<const Event*>(end->get());
    first.synchronize();
    second.synchronize();
    return static_cast<float>(std::max(1.0, std::ceil(first.elapsed(second) * 1000.0)));
  }

  void mark(const char* /*name*/) const override {}
  void rangePush(const char* /*name*/) const override {}
  void rangePop() const override {}
  bool enabled() const override { return true; }

  void onEachDevice(std::function<void(int)> visit) const override {
    const int previous = current_device();
    for (int index = 0; index < device_count(); ++index) {
      set_current_device(index);
      visit(index);
    }
    exchange_current_device(previous);
  }

  void synchronize() const override { synchronize_device(current_device_object()); }
};

[[maybe_unused]] const bool profiler_registered = [] {
  static DeviceProfiler profiler;
  torch::profiler::impl::registerPrivateUse1Methods(&profiler);
  return true;
}();

}  // namespace
}  // namespace mydev
