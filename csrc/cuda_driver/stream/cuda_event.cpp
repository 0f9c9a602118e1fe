#include <memory>

#include "cuda_driver/stream/cuda_stream.h"

namespace mydev::cuda_driver {

namespace {

struct CudaEvent {
  CudaDevice& device;
  EventRef ref = nullptr;
};

CudaEvent& as_event(mydev_event event) {
  return *reinterpret_cast<CudaEvent*>(event);
}

}  // namespace

mydev_code event_create(int32_t device, uint32_t flags, mydev_event* out_event) {
  return run_checked([&] {
    auto event = std::make_unique<CudaEvent>(CudaEvent{device_at(device)});
    const CurrentContext context(event->device);
    const unsigned given = (flags & MYDEV_EVENT_TIMING) != 0 ? 0 : kEventDisableTiming;
    check(cuda().cuEventCreate(&event->ref, given), "cuEventCreate");
    *out_event = reinterpret_cast<mydev_event>(event.release());
  });
}

mydev_code event_destroy(mydev_event event) {
  return run_checked([&] {
    const std::unique_ptr<CudaEvent> owned(&as_event(event));
    const CurrentContext context(owned->device);
    check_given_back(cuda().cuEventDestroy(owned->ref), "cuEventDestroy");
  });
}

mydev_code event_record(mydev_event event, mydev_stream stream) {
  return run_checked([&] {
    const CurrentContext context(as_stream(stream).device());
    check(cuda().cuEventRecord(as_event(event).ref, as_stream(stream).ref()), "cuEventRecord");
  });
}

mydev_code event_query(mydev_event event, int32_t* out_done) {
  return run_checked([&] {
    const CurrentContext context(as_event(event).device);
    const Result result = cuda().cuEventQuery(as_event(event).ref);
    if (result != kErrorNotReady) check(result, "cuEventQuery");
    *out_done = result == kSuccess ? 1 : 0;
  });
}

mydev_code event_synchronize(mydev_event event) {
  return run_checked([&] {
    const CurrentContext context(as_event(event).device);
    check(cuda().cuEventSynchronize(as_event(event).ref), "cuEventSynchronize");
  });
}

mydev_code event_elapsed(mydev_event start, mydev_event end, double* out_milliseconds) {
  return run_checked([&] {
    const CurrentContext context(as_event(start).device);
    float milliseconds = 0;
    const Result result = cuda().cuEventElapsedTime(&milliseconds, as_event(start).ref, as_event(end).ref);
    require(result != kErrorInvalidHandle, MYDEV_FAILED_PRECONDITION,
            "an event of the pair was never recorded, or was made without MYDEV_EVENT_TIMING");
    require(result != kErrorNotReady, MYDEV_FAILED_PRECONDITION,
            "an event of the pair is not finished; synchronize it first");
    check(result, "cuEventElapsedTime");
    *out_milliseconds = milliseconds;
  });
}

mydev_code stream_wait_event(mydev_stream stream, mydev_event event) {
  return run_checked([&] {
    const CurrentContext context(as_stream(stream).device());
    check(cuda().cuStreamWaitEvent(as_stream(stream).ref(), as_event(event).ref, 0), "cuStreamWaitEvent");
  });
}

}  // namespace mydev::cuda_driver
