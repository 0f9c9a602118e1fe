#include "runtime/stream/event.h"

#include "runtime/base/device_name.h"
#include "runtime/base/status.h"

namespace mydev {

Event::Event(int device, bool timing) : device_(mydev::device(device).index), timing_(timing) {}

Event::~Event() {
  if (handle_ != nullptr) {
    detail::devices[device_].driver->event_destroy(handle_);
  }
}

void Event::record(Stream& stream) {
  stream.check_open();
  Device& device = stream.device();
  MYDEV_CHECK(device.index == device_, MYDEV_INVALID_ARGUMENT, "an event of device " MYDEV_DEVICE_NAME ":", device_,
              " cannot be recorded on a stream of device " MYDEV_DEVICE_NAME ":", device.index);
  if (handle_ == nullptr) {
    const uint32_t flags = timing_ ? uint32_t{MYDEV_EVENT_TIMING} : 0U;
    check_driver(device, device.driver->event_create(device_, flags, &handle_), "creating an event");
  }
  check_driver(device, device.driver->event_record(handle_, stream.handle()), "recording an event");
  stream_ = &stream;
}

void Event::block(Stream& stream) const {
  stream.check_open();
  if (recorded()) {
    const Device& device = stream.device();
    check_driver(device, device.driver->stream_wait_event(stream.handle(), handle_), "waiting for an event");
  }
}

bool Event::query() const {
  if (!recorded()) {
    return true;
  }
  Device& device = stream_->device();
  int32_t done = 0;
  check_driver(device, device.driver->event_query(handle_, &done), "querying an event");
  return done != 0;
}

void Event::synchronize() const {
  if (!recorded()) {
    return;
  }
  Device& device = stream_->device();
  check_driver(device, device.driver->event_synchronize(handle_), "synchronizing an event");
  stream_->collect_status();
  stream_->raise_error_if_any();
}

void Event::wait_until_done() const noexcept {
  if (recorded()) {
    // A failure is the stream's, and found by whoever waits for it.
    stream_->device().driver->event_synchronize(handle_);
  }
}

double Event::elapsed(const Event& end) const {
  MYDEV_CHECK(timing_ && end.timing_, MYDEV_INVALID_ARGUMENT,
              "elapsed time needs two events made with enable_timing=True");
  MYDEV_CHECK(recorded() && end.recorded(), MYDEV_FAILED_PRECONDITION, "elapsed time needs two recorded events; the ",
              recorded() ? "end" : "start", " event has not been recorded");
  MYDEV_CHECK(device_ == end.device_, MYDEV_INVALID_ARGUMENT, "elapsed time needs two events of one device, not ",
              MYDEV_DEVICE_NAME ":", device_, " and " MYDEV_DEVICE_NAME ":", end.device_);
  MYDEV_CHECK(query() && end.query(), MYDEV_FAILED_PRECONDITION,
              "elapsed time needs finished events; call synchronize() on the end event first");
  Device& device = stream_->device();
  double milliseconds = 0;
  check_driver(device, device.driver->event_elapsed(handle_, end.handle_, &milliseconds), "timing two events");
  return milliseconds;
}

}  // namespace mydev
