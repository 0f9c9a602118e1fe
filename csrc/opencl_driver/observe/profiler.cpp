#include "opencl_driver/observe/profiler.h"

namespace mydev::opencl_driver {

Profiler& profiler() {
  static Profiler& instance = *new Profiler;  // never destroyed: streams run until the process is gone
  return instance;
}

void Profiler::add(const EventHandle& event, int32_t device, mydev_stream stream, const Work& work) {
  records_.add({event, activity_of(work, device, stream), work.name == nullptr ? "" : work.name});
}

void Profiler::flush(int32_t device, void (*sink)(void*, const mydev_activity*), void* context) {
  const auto is_finished = [&](const Record& record) {
    return record.activity.device == device && record.event.done();
  };
  for (Record& record : records_.take(is_finished)) {
    if (record.event.status() < CL_COMPLETE) continue;  // what failed has no times
    if (record.activity.kind == MYDEV_ACTIVITY_LAUNCH) record.activity.name = record.name.c_str();
    record.activity.begin = record.event.time(CL_PROFILING_COMMAND_START);
    record.activity.end = record.event.time(CL_PROFILING_COMMAND_END);
    sink(context, &record.activity);
  }
}

void read_clocks(const OpenclDevice& device, mydev_clock_pair& out) {
  out.host_nanoseconds = middle_of([&] {
    cl_ulong ticks = 0, host = 0;
    // Since OpenCL 2.1, where the platform keeps such a clock. Else a command's time.
    if (cl().clGetDeviceAndHostTimer == nullptr ||
        cl().clGetDeviceAndHostTimer(device.id, &ticks, &host) != CL_SUCCESS || ticks == 0) {
      cl_event event = nullptr;
      check_cl(cl().clEnqueueMarkerWithWaitList(device.service, 0, nullptr, &event), "clEnqueueMarkerWithWaitList");
      const EventHandle marker(event);
      marker.wait();
      ticks = marker.time(CL_PROFILING_COMMAND_END);
    }
    out.device_ticks = ticks;
  });
}

}  // namespace mydev::opencl_driver
