#include "opencl_driver/stream/stream.h"

#include "opencl_driver/api/errors.h"

namespace mydev::opencl_driver {

OpenclStream::OpenclStream(const Platform& platform, int32_t device)
    : platform_(platform), device_(device), queue_(make_queue(platform.context(), platform.device(device).id)) {}

OpenclStream::~OpenclStream() {
  cl().clFinish(queue_);
  host_calls_.stop();
  if (fault_word_ != nullptr) cl().clReleaseMemObject(fault_word_);
  cl().clReleaseCommandQueue(queue_);
}

EventHandle OpenclStream::note(EventHandle event, const Work& work) {
  cl().clFlush(queue_);
  if (is_recorded(device_)) {
    profiler().add(event, device_, reinterpret_cast<mydev_stream>(this), work);
  }
  last_ = event;
  return event;
}

EventHandle OpenclStream::mark() {
  const std::lock_guard lock(mutex_);
  cl_event marker = nullptr;
  check_cl(cl().clEnqueueMarkerWithWaitList(queue_, 0, nullptr, &marker), "clEnqueueMarkerWithWaitList");
  cl().clFlush(queue_);
  last_ = EventHandle(marker);
  return last_;
}

void OpenclStream::wait_for(const EventHandle& event) {
  if (!event) return;
  enqueue({MYDEV_ACTIVITY_WAIT}, [&](cl_command_queue queue, cl_event* out_event) {
    cl_event awaited = event.get();
    check_cl(cl().clEnqueueBarrierWithWaitList(queue, 1, &awaited, out_event), "clEnqueueBarrierWithWaitList");
  });
}

void OpenclStream::call_host(std::function<void()> function) {
  cl_int code = CL_SUCCESS;
  EventHandle gate(cl().clCreateUserEvent(platform_.context(), &code));
  check_cl(code, "clCreateUserEvent");
  EventHandle before;
  enqueue({MYDEV_ACTIVITY_HOST_CALL}, [&](cl_command_queue queue, cl_event* out_event) {
    cl_event marker = nullptr;
    check_cl(cl().clEnqueueMarkerWithWaitList(queue, 0, nullptr, &marker), "clEnqueueMarkerWithWaitList");
    before = EventHandle(marker);
    cl_event awaited = gate.get();
    check_cl(cl().clEnqueueBarrierWithWaitList(queue, 1, &awaited, out_event), "clEnqueueBarrierWithWaitList");
    host_calls_.add(before, gate, std::move(function));
  });
}

bool OpenclStream::idle() {
  const std::lock_guard lock(mutex_);
  return !last_ || last_.done();
}

void OpenclStream::finish() {
  check_cl(cl().clFinish(queue_), "waiting for a stream");
}

// --- failures --------------------------------------------------------------------------------------------------------

OpenclStream::Failure OpenclStream::take_failure() {
  const std::lock_guard lock(mutex_);
  if (!last_) return {};
  const cl_int status = last_.status();
  if (status > CL_COMPLETE) return {};  // asked again after the next wait
  if (status < CL_COMPLETE) {
    last_ = EventHandle();
    return {MYDEV_INTERNAL, "work of a stream of the OpenCL device failed: " + cl_code_name(status)};
  }
  if (!checked_ || !take_fault()) return {};
  return {MYDEV_OUT_OF_RANGE,
          "a check of a kernel failed: an index is out of bounds, an integer is divided by 0, or an assertion does not "
          "hold"};
}

cl_mem OpenclStream::fault_word() {
  if (fault_word_ != nullptr) return fault_word_;
  constexpr cl_uint kNone = 0;
  cl_int code = CL_SUCCESS;
  cl_mem word = cl().clCreateBuffer(platform_.context(), CL_MEM_READ_WRITE, sizeof(kNone), nullptr, &code);
  check_cl(code, "clCreateBuffer");
  check_cl(cl().clEnqueueFillBuffer(queue_, word, &kNone, sizeof(kNone), 0, sizeof(kNone), 0, nullptr, nullptr),
           "clEnqueueFillBuffer");
  fault_word_ = word;
  return word;
}

// Reads the fault word of a stream that has nothing to do, and makes it 0 again. Returns whether it was not.
bool OpenclStream::take_fault() {
  cl_uint word = 0;
  check_cl(cl().clEnqueueReadBuffer(queue_, fault_word_, CL_TRUE, 0, sizeof(word), &word, 0, nullptr, nullptr),
           "reading a fault word");
  checked_ = false;
  if (word == 0) return false;
  const cl_uint none = 0;
  check_cl(cl().clEnqueueWriteBuffer(queue_, fault_word_, CL_TRUE, 0, sizeof(none), &none, 0, nullptr, nullptr),
           "clearing a fault word");
  return true;
}

// --- events ----------------------------------------------------------------------------------------------------------

double elapsed_milliseconds(const EventHandle& start, const EventHandle& end) {
  require(start && end, MYDEV_FAILED_PRECONDITION, "an event of the pair was never recorded");
  require(start.done() && end.done(), MYDEV_FAILED_PRECONDITION,
          "an event of the pair is not finished; synchronize it first");
  constexpr double kNanosecondsOfAMillisecond = 1e6;
  const cl_ulong from = start.time(CL_PROFILING_COMMAND_END), to = end.time(CL_PROFILING_COMMAND_END);
  return (static_cast<double>(to) - static_cast<double>(from)) / kNanosecondsOfAMillisecond;
}

}  // namespace mydev::opencl_driver
