#include "runtime/stream/stream.h"

#include <sstream>
#include <utility>

#include "runtime/base/device_name.h"
#include "runtime/base/source_location.h"
#include "runtime/stream/host_function_scope.h"

namespace mydev {

namespace {

struct HostCall {
  Stream* stream;
  std::function<void()> function;
  const char* name;
  const char* line;
};

// A driver calls this, so nothing is thrown across the boundary. Deletes the call.
void run_host_call(void* context) noexcept {
  const std::unique_ptr<HostCall> call(static_cast<HostCall*>(context));
  const RaiserBypass bypass;
  mydev_code code = MYDEV_INTERNAL;
  std::string message;
  try {
    call->function();
    return;
  } catch (const Error& error) {
    code = error.code();
    message = error.what();
  } catch (const std::exception& error) {
    message = error.what();
  } catch (...) {
    message = "it threw something that is no std::exception";
  }
  Stream& stream = *call->stream;
  message = std::string("the host call ") + call->name + " failed: " + message + " [" + code_name(code) +
            " on stream " + std::to_string(stream.id()) + " of device " + device_text(stream.device().index) + "]";
  if (*call->line != '\0') message += std::string(", submitted at ") + call->line;
  stream.set_error(code, std::move(message));
}

}  // namespace

Stream::Stream(Device& device, mydev_stream handle, int64_t id, int priority) noexcept
    : device_(&device),
      handle_(handle),
      id_(id),
      priority_(priority),
      asynchronous_(device.asynchronous()),
      needs_care_(device.asynchronous()),
      launch_copies_(device.launch_copies()) {}

std::unique_ptr<Stream> Stream::alias_of(const Stream& other) {
  auto stream = std::make_unique<Stream>(other.device(), other.handle(), other.id(), other.priority());
  stream->aliased_ = &other;
  return stream;
}

void Stream::check_open() const {
  MYDEV_CHECK(!released_, MYDEV_FAILED_PRECONDITION, "stream ", id_, " of device ", device_text(device_->index),
              " is closed: it was an external stream, and its owner has released it");
}

void raise_not_captured(const Stream& stream, const char* what) {
  const char* line = source_location();
  std::string at = *line == '\0' ? std::string() : std::string(" (") + line + ")";
  raise(MYDEV_FAILED_PRECONDITION, std::string(what) + at + " cannot be captured: stream " +
                                       std::to_string(stream.id()) + " of device " +
                                       device_text(stream.device().index) +
                                       " is capturing a graph, and nothing that it is given runs before a replay; do "
                                       "it before or after the capture");
}

void Stream::begin_capture(Capture& capture, Stream& pool) {
  check_open();
  Capture* none = nullptr;
  MYDEV_CHECK(capture_.compare_exchange_strong(none, &capture), MYDEV_FAILED_PRECONDITION, "stream ", id_,
              " of device ", device_text(device_->index),
              " is capturing already; a capture inside another one is not supported, end the first one");
  pool_.store(&pool, std::memory_order_relaxed);
  needs_care_.store(true, std::memory_order_relaxed);
}

void Stream::end_capture() noexcept {
  needs_care_.store(asynchronous_ || released_, std::memory_order_relaxed);
  pool_.store(nullptr, std::memory_order_relaxed);
  capture_.store(nullptr, std::memory_order_release);
}

void Stream::check_waits(const char* what) const {
  if (capture() != nullptr) [[unlikely]]
    raise_not_captured(*this, what);
}

bool Stream::query() {
  check_open();
  check_waits("asking whether the stream is done");
  int32_t done = 0;
  check_driver(*device_, device_->driver->stream_query(handle_, &done), "querying a stream");
  collect_status();
  raise_error_if_any();
  return done != 0;
}

void Stream::synchronize() {
  HostFunctionScope::check_waits("waiting for the stream");
  check_open();
  check_waits("waiting for the stream");
  check_driver(*device_, device_->driver->stream_synchronize(handle_), "synchronizing a stream");
  collect_status();
  raise_error_if_any();
}

std::string describe_transfer(const TransferNote& note) {
  std::ostringstream out;
  out << note.name;
  if (note.dst != nullptr) {
    out << " of " << note.bytes << " bytes";
    if (note.src != nullptr) out << " from " << note.src;
    out << (note.src != nullptr ? " to " : " at ") << note.dst;
  }
  if (*note.line != '\0') out << ", submitted at " << note.line;
  return out.str();
}

void Stream::note_transfer(const TransferNote& note) {
  const std::lock_guard lock(mutex_);
  notes_[noted_++ % kNotes] = note;
}

// Returns the latest notes, oldest first, and forgets them.
std::string Stream::take_notes() {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (size_t i = noted_ > kNotes ? noted_ - kNotes : 0; i < noted_; ++i) {
    text += "\n  " + describe_transfer(notes_[i % kNotes]);
  }
  noted_ = 0;
  return text;
}

void Stream::collect_status() {
  const mydev_driver_api& driver = *device_->driver;
  mydev_code status = MYDEV_OK;
  if (driver.stream_status != nullptr) {
    check_driver(*device_, driver.stream_status(handle_, &status), "asking for the status of a stream");
  }
  if (status == MYDEV_OK) {
    const std::lock_guard lock(mutex_);
    noted_ = 0;
    return;
  }
  std::string message = driver.last_error();
  message += std::string(" [") + code_name(status) + " in work of stream " + std::to_string(id_) + " on device " +
             device_text(device_->index) + "]";
  if (const std::string notes = take_notes(); !notes.empty()) {
    message += "\ncopies, fills and graphs that the stream was given since it was last waited for:" + notes;
  }
  // A check of a kernel that fails is a mistake of the program, an IndexError. Other failures are the device's.
  const ErrorOwner owner = status == MYDEV_OUT_OF_RANGE ? ErrorOwner::kRuntime : ErrorOwner::kDriver;
  set_error(status, std::move(message), owner);
}

void Stream::host_call(std::function<void()> function, const char* name, const char* line) {
  check_open();
  check_waits(name);
  const mydev_driver_api& driver = *device_->driver;
  auto call = std::make_unique<HostCall>(HostCall{this, std::move(function), name, line});
  if (driver.stream_host_call != nullptr) {
    check_driver(*device_, driver.stream_host_call(handle_, run_host_call, call.get()), "giving a stream a host call");
    [[maybe_unused]] const HostCall* call_of_driver = call.release();
    return;
  }
  if (asynchronous_) check_driver(*device_, driver.stream_synchronize(handle_), "synchronizing a stream");
  run_host_call(call.release());
}

void Stream::call_when_reached(std::function<void()> function) {
  auto call = std::make_unique<HostCall>(HostCall{this, std::move(function), "timing", ""});
  if (device_->driver->stream_host_call(handle_, run_host_call, call.get()) != MYDEV_OK) return;
  [[maybe_unused]] const HostCall* call_of_driver = call.release();
}

void Stream::set_error(mydev_code code, std::string message, ErrorOwner owner) {
  const std::lock_guard lock(mutex_);
  if (code_ == MYDEV_OK) {
    code_ = code;
    message_ = std::move(message);
    owner_ = owner;
    failed_.store(true, std::memory_order_release);
  }
}

void Stream::raise_error_if_any() {
  if (!failed_.load(std::memory_order_acquire)) {
    return;
  }
  mydev_code code = MYDEV_OK;
  std::string message;
  ErrorOwner owner = ErrorOwner::kRuntime;
  {
    const std::lock_guard lock(mutex_);
    std::swap(code, code_);
    std::swap(message, message_);
    owner = owner_;
    failed_.store(false, std::memory_order_relaxed);
  }
  if (code != MYDEV_OK) {  // else another thread has raised it meanwhile
    raise(code, message, owner);
  }
}

void Stream::drop_error() noexcept {
  const std::lock_guard lock(mutex_);
  code_ = MYDEV_OK;
  message_.clear();
  failed_.store(false, std::memory_order_relaxed);
}

}  // namespace mydev
