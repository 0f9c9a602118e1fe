#include "host_driver/observe/profiler.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "host_driver/host_error.h"

namespace mydev::host_driver {

namespace {

thread_local uint64_t launch_id = 0;

// Reads CLOCK_MONOTONIC, which is the device's clock.
int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

mydev_code start(int32_t device) {
  profiler().start(device);
  return MYDEV_OK;
}

mydev_code stop(int32_t device) {
  profiler().stop(device);
  return MYDEV_OK;
}

void set_launch_id(uint64_t id) {
  launch_id = id;
}

mydev_code flush(int32_t device, void (*sink)(void*, const mydev_activity*), void* context) {
  return run_checked([&] { profiler().flush(device, sink, context); });
}

mydev_code clock_pair(int32_t /*device*/, mydev_clock_pair* out_pair) {
  out_pair->host_nanoseconds = now_ns();
  out_pair->device_ticks = static_cast<uint64_t>(out_pair->host_nanoseconds);
  return MYDEV_OK;
}

}  // namespace

Profiler& profiler() {
  static Profiler& instance = *new Profiler;  // never destroyed: streams run until the process is gone
  return instance;
}

void Profiler::start(int32_t device) {
  recording_.fetch_or(uint64_t{1} << static_cast<unsigned>(device));
}

void Profiler::stop(int32_t device) {
  recording_.fetch_and(~(uint64_t{1} << static_cast<unsigned>(device)));
}

Task Profiler::recorded(Task&& task, int32_t device, mydev_stream stream, const Work& work) {
  Record record{{.struct_size = sizeof(mydev_activity),
                 .kind = work.kind,
                 .device = device,
                 .stream = stream,
                 .launch_id = launch_id,
                 .bytes = work.bytes},
                work.name == nullptr ? "" : work.name};
  return [this, task = std::move(task), record = std::move(record)]() mutable {
    // Also of work that fails.
    struct Ends {
      Profiler& profiler;
      Record& record;
      ~Ends() {
        record.activity.end = static_cast<uint64_t>(now_ns());
        profiler.add(std::move(record));
      }
    } const ends{*this, record};
    record.activity.begin = static_cast<uint64_t>(now_ns());
    task();
  };
}

void Profiler::add(Record&& record) {
  const std::lock_guard lock(mutex_);
  records_.push_back(std::move(record));
}

void Profiler::flush(int32_t device, void (*sink)(void*, const mydev_activity*), void* context) {
  std::vector<Record> ready;
  {
    const std::lock_guard lock(mutex_);
    const auto others = std::stable_partition(records_.begin(), records_.end(),
                                              [&](const Record& record) { return record.activity.device != device; });
    ready.assign(std::make_move_iterator(others), std::make_move_iterator(records_.end()));
    records_.erase(others, records_.end());
  }
  for (Record& record : ready) {
    if (record.activity.kind == MYDEV_ACTIVITY_LAUNCH) record.activity.name = record.name.c_str();
    sink(context, &record.activity);
  }
}

const mydev_profiler_extension& profiler_extension() {
  static constexpr mydev_profiler_extension kTable = {
      .head = {.struct_size = sizeof(mydev_profiler_extension), .version = MYDEV_PROFILER_VERSION},
      .start = start,
      .stop = stop,
      .set_launch_id = set_launch_id,
      .flush = flush,
      .clock_pair = clock_pair,
  };
  return kTable;
}

}  // namespace mydev::host_driver
