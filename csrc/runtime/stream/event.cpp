#include "runtime/stream/event.h"

#include <utility>

#include "runtime/base/device_name.h"
#include "runtime/base/status.h"
#include "runtime/stream/host_function_scope.h"

namespace mydev {

Event::Event(int device, bool timing) : device_(mydev::device(device).index), timing_(timing) {}

Event::~Event() {
  if (handle_ != nullptr) {
    detail::devices[device_].driver->event_destroy(handle_);
  }
}

void Event::check_waits(const char* what) const {
  MYDEV_CHECK(
      !captured_, MYDEV_FAILED_PRECONDITION, what,
      " an event that was recorded while its stream captured a graph: it is a point of the graph, which streams "
      "can wait for during the capture only");
}

void Event::share(std::shared_ptr<SharedEvent> shared) {
  MYDEV_CHECK(!timing_, MYDEV_INVALID_ARGUMENT, "an event of several processes cannot be made for timing");
  shared_ = std::move(shared);
}

void Event::record(Stream& stream) {
  Capture* capture = stream.capture();
  if (capture == nullptr) return record_uncaptured(stream);
  if (shared_ != nullptr) raise_not_captured(stream, "recording an event of several processes");
  if (timing_) raise_not_captured(stream, "recording an event made for timing");
  point_ = capture->mark(stream);
  capture_ = capture->weak_from_this();
  captured_ = true;
  stream_ = nullptr;
}

void Event::record_uncaptured(Stream& stream) {
  stream.check_open();
  Device& device = stream.device();
  MYDEV_CHECK(device.index == device_, MYDEV_INVALID_ARGUMENT, "an event of device ", device_text(device_),
              " cannot be recorded on a stream of device ", device_text(device.index));
  if (handle_ == nullptr) {
    const uint32_t flags = timing_ ? uint32_t{MYDEV_EVENT_TIMING} : 0U;
    check_driver(device, device.driver->event_create(device_, flags, &handle_), "creating an event");
  }
  check_driver(device, device.driver->event_record(handle_, stream.handle()), "recording an event");
  stream_ = &stream;
  captured_ = false;
  if (shared_ != nullptr) shared_->record(stream);
}

void Event::block(Stream& stream) const {
  stream.check_open();
  if (captured_) {
    const std::shared_ptr<Capture> capture = capture_.lock();
    const Capture* of_stream = stream.capture();
    MYDEV_CHECK(capture != nullptr && (of_stream == nullptr || of_stream == capture.get()), MYDEV_FAILED_PRECONDITION,
                "a stream cannot wait for an event of ",
                capture == nullptr ? "a capture that has ended" : "another capture", "; record the event anew");
    capture->wait(stream, point_);
  } else if (stream.capture() != nullptr) {
    if (!query()) raise_not_captured(stream, "waiting for an event recorded outside of the capture, and not done yet,");
  } else if (shared_ != nullptr) {
    shared_->block(stream);
  } else if (recorded()) {
    const Device& device = stream.device();
    check_driver(device, device.driver->stream_wait_event(stream.handle(), handle_), "waiting for an event");
  }
}

bool Event::query() const {
  check_waits("asking for");
  if (shared_ != nullptr) return shared_->query();
  if (!recorded()) {
    return true;
  }
  Device& device = stream_->device();
  int32_t done = 0;
  check_driver(device, device.driver->event_query(handle_, &done), "querying an event");
  return done != 0;
}

void Event::synchronize() const {
  HostFunctionScope::check_waits("waiting for an event");
  check_waits("waiting for");
  if (shared_ != nullptr) shared_->synchronize();
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
    // A failure is the stream's, and shows when somebody waits for the stream.
    stream_->device().driver->event_synchronize(handle_);
  }
}

double Event::elapsed(const Event& end) const {
  MYDEV_CHECK(timing_ && end.timing_, MYDEV_INVALID_ARGUMENT,
              "elapsed time needs two events made with enable_timing=True");
  check_waits("timing");
  end.check_waits("timing");
  MYDEV_CHECK(recorded() && end.recorded(), MYDEV_FAILED_PRECONDITION, "elapsed time needs two recorded events; the ",
              recorded() ? "end" : "start", " event has not been recorded");
  MYDEV_CHECK(device_ == end.device_, MYDEV_INVALID_ARGUMENT, "elapsed time needs two events of one device, not ",
              device_text(device_), " and ", device_text(end.device_));
  MYDEV_CHECK(query() && end.query(), MYDEV_FAILED_PRECONDITION,
              "elapsed time needs finished events; call synchronize() on the end event first");
  Device& device = stream_->device();
  double milliseconds = 0;
  check_driver(device, device.driver->event_elapsed(handle_, end.handle_, &milliseconds), "timing two events");
  return milliseconds;
}

}  // namespace mydev
