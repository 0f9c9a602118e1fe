#include "runtime/memory/allocator_settings.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/memory/size_classes.h"

namespace mydev {
namespace {

struct Settings {
  std::mutex mutex;
  std::vector<std::unique_ptr<const AllocatorSettings>> all;  // readers may hold on to any of them
  std::atomic<const AllocatorSettings*> current{nullptr};

  Settings() { set({}); }
  void set(const AllocatorSettings& settings) {
    const std::lock_guard guard(mutex);
    all.push_back(std::make_unique<AllocatorSettings>(settings));
    current.store(all.back().get(), std::memory_order_release);
  }
};

Settings& settings_store() {
  static Settings& instance = *new Settings;  // blocks are freed until the very end of the process
  return instance;
}

}  // namespace

void set_allocator_settings(const AllocatorSettings& settings) {
  MYDEV_CHECK(settings.medium_segment_size >= kMediumLimit && settings.medium_segment_size % kSegmentGranularity == 0,
              MYDEV_INVALID_ARGUMENT, "medium_segment_size must be a multiple of ", kSegmentGranularity,
              " bytes and at least ", kMediumLimit, ", but is ", settings.medium_segment_size);
  MYDEV_CHECK(settings.max_split_size >= settings.medium_segment_size, MYDEV_INVALID_ARGUMENT,
              "max_split_size must be at least medium_segment_size, ", settings.medium_segment_size, " bytes, but is ",
              settings.max_split_size);
  MYDEV_CHECK(settings.garbage_collection_threshold >= 0 && settings.garbage_collection_threshold < 1,
              MYDEV_INVALID_ARGUMENT, "garbage_collection_threshold must be at least 0 and below 1, but is ",
              settings.garbage_collection_threshold);
  settings_store().set(settings);
}

const AllocatorSettings& allocator_settings() noexcept {
  return *settings_store().current.load(std::memory_order_acquire);
}

}  // namespace mydev
