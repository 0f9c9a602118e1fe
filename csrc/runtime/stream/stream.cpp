#include "runtime/stream/stream.h"

#include <utility>

#include "runtime/base/device_name.h"

namespace mydev {

Stream::Stream(Device& device, mydev_stream handle, int64_t id, int priority) noexcept
    : device_(&device),
      handle_(handle),
      id_(id),
      priority_(priority),
      asynchronous_(device.asynchronous()),
      needs_care_(device.asynchronous()) {}

std::unique_ptr<Stream> Stream::alias_of(const Stream& other) {
  auto stream = std::make_unique<Stream>(other.device(), other.handle(), other.id(), other.priority());
  stream->aliased_ = &other;
  return stream;
}

void Stream::check_open() const {
  MYDEV_CHECK(!released_, MYDEV_FAILED_PRECONDITION, "stream ", id_, " of device " MYDEV_DEVICE_NAME ":",
              device_->index, " is closed: it was an external stream, and its owner has released it");
}

bool Stream::query() {
  check_open();
  int32_t done = 0;
  check_driver(*device_, device_->driver->stream_query(handle_, &done), "querying a stream");
  raise_error_if_any();
  return done != 0;
}

void Stream::synchronize() {
  check_open();
  check_driver(*device_, device_->driver->stream_synchronize(handle_), "synchronizing a stream");
  raise_error_if_any();
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
