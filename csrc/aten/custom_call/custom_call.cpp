#include "aten/custom_call/custom_call.h"

#include <map>

#include "aten/host/census.h"
#include "kernels/launch/staged_launch.h"
#include "runtime/base/status.h"
#include "runtime/stream/stream_table.h"

namespace mydev {

namespace {

// One counter per kernel name, immortal.
std::atomic<uint64_t>& dense_copy_counter(const std::string& kernel) {
  static std::mutex& mutex = *new std::mutex;
  static auto& counters = *new std::map<std::string, std::atomic<uint64_t>>;
  const std::lock_guard lock(mutex);
  return counters[kernel];
}

// A kernel that runs on copies is a fallback like an operator's.
constexpr StagingCounter kCensus = {
    [](const char* kernel, const std::string& declined) {
      FallbackRecord& record = fallback_record(std::string(kernel));
      if (!declined.empty()) record.note_declined(declined.c_str());
      record.enter();
    },
    [](const char* kernel, int64_t nanoseconds, uint64_t bytes_copied) {
      fallback_record(std::string(kernel)).leave(nanoseconds, 0, bytes_copied);
    },
};
[[maybe_unused]] const bool counted = [] {
  set_staging_counter(kCensus);
  return true;
}();

}  // namespace

uint64_t dense_copies(const std::string& kernel) {
  return dense_copy_counter(kernel).load(std::memory_order_relaxed);
}

CustomKernel::CustomKernel(std::string name) : name_(std::move(name)), dense_copies_(dense_copy_counter(name_)) {}

const CustomKernel::Resolved& CustomKernel::resolve(int device_index) {
  Device& on = device(device_index);
  const std::lock_guard lock(mutex_);
  const mydev_kernel* record = find_kernel(name_);  // may load a library
  const uint64_t generation = registry_generation();
  MYDEV_CHECK(record != nullptr, MYDEV_NOT_FOUND, "there is no kernel '", name_,
              "' any more: it was unregistered, or its library was reloaded without it");
  const Launchable* launchable = resolve_kernel(on, name_.c_str());
  MYDEV_CHECK(launchable != nullptr, MYDEV_UNIMPLEMENTED, "kernel '", name_, "' is for platform ",
              record->platform != nullptr ? record->platform : "Host", " and cannot run on device ",
              device_text(device_index), ", whose memory the host does not reach");
  if (generation_.load(std::memory_order_relaxed) != generation) {
    for (auto& resolved : resolved_) resolved.store(nullptr, std::memory_order_relaxed);
  }
  const auto* resolved = new Resolved{record, launchable};
  resolved_[static_cast<size_t>(device_index)].store(resolved, std::memory_order_release);
  generation_.store(generation, std::memory_order_release);
  return *resolved;
}

CustomFrame::CustomFrame(size_t num_results) : num_results_(num_results), buffers_(num_results) {}

void CustomFrame::launch(const CustomKernel::Resolved& kernel, std::span<const mydev_attribute> attributes,
                         int device) const {
  mydev_frame launched = frame(attributes);
  Stream& stream = current_stream(device);
  try {
    launch_kernel(*kernel.launchable, launched, stream);
  } catch (const KernelDeclined& declined) {
    raise(MYDEV_UNIMPLEMENTED,
          "no kernel of device " + device_text(device) + " takes these operands: " + declined.what(),
          ErrorOwner::kCustomCall);
  }
}

}  // namespace mydev
