#include "cuda_driver/observe/profiler.h"

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace mydev::cuda_driver {

namespace {

EventRef recorded_event(StreamRef stream) {
  EventRef event = nullptr;
  check(cuda().cuEventCreate(&event, 0), "cuEventCreate");
  check(cuda().cuEventRecord(event, stream), "cuEventRecord");
  return event;
}

// The moment that a recording began. Times are measured from there, since CUDA gives them as differences in f32.
struct Base {
  EventRef event = nullptr;
  int64_t host_nanoseconds = 0;

  uint64_t ticks(EventRef at) const {
    float milliseconds = 0;
    check(cuda().cuEventElapsedTime(&milliseconds, event, at), "cuEventElapsedTime");
    return static_cast<uint64_t>(host_nanoseconds + static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6));
  }
};

struct Record {
  mydev_activity activity;
  std::string name;
  bool has_name;
  std::shared_ptr<const Base> base;
  EventRef begin, end;
};

class Recording {
 public:
  void start(CudaDevice& device) {
    const std::lock_guard lock(mutex_);
    if (stream_ == nullptr) {
      check(cuda().cuStreamCreateWithPriority(&stream_, kStreamNonBlocking, 0), "cuStreamCreateWithPriority");
    }
    Base base;
    base.host_nanoseconds = middle_of([&] { base.event = finished_event(); });
    base_ = std::make_shared<const Base>(base);
    start_recording(device.index());
  }
  void add(Record&& record) {
    const std::lock_guard lock(mutex_);
    record.base = base_;
    records_.add(std::move(record));
  }
  std::vector<Record> take_finished() {
    return records_.take([](const Record& record) { return cuda().cuEventQuery(record.end) == kSuccess; });
  }
  void pair(mydev_clock_pair& out) {
    const std::lock_guard lock(mutex_);
    require(base_ != nullptr, MYDEV_FAILED_PRECONDITION, "nothing was recorded yet: start comes first");
    EventRef event = nullptr;
    out.host_nanoseconds = middle_of([&] { event = finished_event(); });
    out.device_ticks = base_->ticks(event);
    check(cuda().cuEventDestroy(event), "cuEventDestroy");
  }

 private:
  EventRef finished_event() const {
    EventRef event = recorded_event(stream_);
    check(cuda().cuEventSynchronize(event), "cuEventSynchronize");
    return event;
  }

  std::mutex mutex_;  // guards what follows
  StreamRef stream_ = nullptr;
  std::shared_ptr<const Base> base_;
  Records<Record> records_;
};

Recording& recording_of(const CudaDevice& device) {
  static auto& all = *new std::array<Recording, 64>;
  return all[static_cast<size_t>(device.index()) % all.size()];
}

mydev_code start(int32_t device) {
  return run_checked([&] {
    CudaDevice& on = device_at(device);
    const CurrentContext context(on);
    recording_of(on).start(on);
  });
}

mydev_code flush(int32_t device, void (*sink)(void* context, const mydev_activity* activity), void* context) {
  return run_checked([&] {
    CudaDevice& on = device_at(device);
    const CurrentContext current(on);
    for (Record& record : recording_of(on).take_finished()) {
      record.activity.name = record.has_name ? record.name.c_str() : nullptr;
      record.activity.begin = record.base->ticks(record.begin);
      record.activity.end = record.base->ticks(record.end);
      check(cuda().cuEventDestroy(record.begin), "cuEventDestroy");
      check(cuda().cuEventDestroy(record.end), "cuEventDestroy");
      sink(context, &record.activity);
    }
  });
}

mydev_code clock_pair(int32_t device, mydev_clock_pair* out_pair) {
  return run_checked([&] {
    CudaDevice& on = device_at(device);
    const CurrentContext context(on);
    recording_of(on).pair(*out_pair);
  });
}

constexpr mydev_profiler_extension kProfiler = {
    .head = {.struct_size = sizeof(mydev_profiler_extension), .version = MYDEV_PROFILER_VERSION, .reserved = 0},
    .start = start,
    .stop = stop_recording,
    .set_launch_id = set_launch_id,
    .flush = flush,
    .clock_pair = clock_pair,
};

}  // namespace

RecordedActivity::RecordedActivity(CudaStream& stream, const Work& work) : stream_(stream), work_(work) {
  if (is_recorded(stream.device().index()) && !stream.capturing()) [[unlikely]] {
    begin_ = recorded_event(stream.ref());
  }
}

RecordedActivity::~RecordedActivity() {
  if (begin_ == nullptr) return;
  try {
    Record record{.activity = activity_of(work_, stream_.device().index(), stream_.handle()),
                  .name = work_.name == nullptr ? "" : work_.name,
                  .has_name = work_.name != nullptr,
                  .begin = begin_,
                  .end = recorded_event(stream_.ref())};
    recording_of(stream_.device()).add(std::move(record));
    // The work itself was given, and its entry says how that went. NOLINTNEXTLINE(bugprone-empty-catch)
  } catch (const std::exception&) {
  }
}

const mydev_profiler_extension& profiler_extension() {
  return kProfiler;
}

}  // namespace mydev::cuda_driver
