#include "host_driver/observe/profiler.h"

#include <utility>

namespace mydev::host_driver {

namespace {

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

Task Profiler::recorded(Task&& task, int32_t device, mydev_stream stream, const Work& work) {
  Record record{activity_of(work, device, stream), work.name == nullptr ? "" : work.name};
  return [this, task = std::move(task), record = std::move(record)]() mutable {
    // Also of work that fails.
    struct Ends {
      Profiler& profiler;
      Record& record;
      ~Ends() {
        record.activity.end = static_cast<uint64_t>(now_ns());
        profiler.records_.add(std::move(record));
      }
    } const ends{*this, record};
    record.activity.begin = static_cast<uint64_t>(now_ns());
    task();
  };
}

void Profiler::flush(int32_t device, void (*sink)(void*, const mydev_activity*), void* context) {
  const auto of_device = [&](const Record& record) { return record.activity.device == device; };
  for (Record& record : records_.take(of_device)) {
    if (record.activity.kind == MYDEV_ACTIVITY_LAUNCH) record.activity.name = record.name.c_str();
    sink(context, &record.activity);
  }
}

const mydev_profiler_extension& profiler_extension() {
  static constexpr mydev_profiler_extension kTable = {
      .head = {.struct_size = sizeof(mydev_profiler_extension), .version = MYDEV_PROFILER_VERSION},
      .start = start_recording,
      .stop = stop_recording,
      .set_launch_id = set_launch_id,
      .flush = flush,
      .clock_pair = clock_pair,
  };
  return kTable;
}

}  // namespace mydev::host_driver
