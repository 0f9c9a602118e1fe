#include "opencl_driver/observe/profiler.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace mydev::opencl_driver {

namespace {

thread_local uint64_t launch_id = 0;

int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

}  // namespace

Profiler& profiler() {
  static Profiler& instance = *new Profiler;  // never destroyed: streams run until the process is gone
  return instance;
}

void set_launch_id(uint64_t id) {
  launch_id = id;
}

void Profiler::add(const EventHandle& event, int32_t device, mydev_stream stream, const Work& work) {
  const mydev_activity activity{.struct_size = sizeof(mydev_activity),
                                .kind = work.kind,
                                .device = device,
                                .stream = stream,
                                .launch_id = launch_id,
                                .bytes = work.bytes};
  const std::lock_guard lock(mutex_);
  records_.push_back({event, activity, work.name == nullptr ? "" : work.name});
}

void Profiler::flush(int32_t device, void (*sink)(void*, const mydev_activity*), void* context) {
  std::vector<Record> ready;
  {
    const std::lock_guard lock(mutex_);
    const auto finished = std::stable_partition(records_.begin(), records_.end(), [&](const Record& record) {
      return record.activity.device != device || !record.event.done();
    });
    ready.assign(std::make_move_iterator(finished), std::make_move_iterator(records_.end()));
    records_.erase(finished, records_.end());
  }
  for (Record& record : ready) {
    if (record.event.status() < CL_COMPLETE) continue;  // what failed has no times
    if (record.activity.kind == MYDEV_ACTIVITY_LAUNCH) record.activity.name = record.name.c_str();
    record.activity.begin = record.event.time(CL_PROFILING_COMMAND_START);
    record.activity.end = record.event.time(CL_PROFILING_COMMAND_END);
    sink(context, &record.activity);
  }
}

void read_clocks(const OpenclDevice& device, mydev_clock_pair& out) {
  const int64_t before = now_ns();
  cl_ulong ticks = 0, host = 0;
  // Since OpenCL 2.1, where the platform keeps such a clock. Else a command's time.
  if (cl().clGetDeviceAndHostTimer == nullptr || cl().clGetDeviceAndHostTimer(device.id, &ticks, &host) != CL_SUCCESS ||
      ticks == 0) {
    cl_event event = nullptr;
    check_cl(cl().clEnqueueMarkerWithWaitList(device.service, 0, nullptr, &event), "clEnqueueMarkerWithWaitList");
    const EventHandle marker(event);
    marker.wait();
    ticks = marker.time(CL_PROFILING_COMMAND_END);
  }
  out.device_ticks = ticks;
  out.host_nanoseconds = before + (now_ns() - before) / 2;
}

}  // namespace mydev::opencl_driver
