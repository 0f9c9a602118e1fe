#include "pjrt/buffer/buffer.h"

#include <utility>

#include "runtime/base/status.h"

using mydev::pjrt::SharedStorage;

SharedStorage PJRT_Buffer::hold(const char* what) const {
  const std::lock_guard lock(mutex_);
  if (storage_ == nullptr) raise_gone(what);
  return storage_;
}

SharedStorage PJRT_Buffer::lend(const char* what) const {
  const std::lock_guard lock(mutex_);
  if (storage_ == nullptr) raise_gone(what);
  storage_->lend();
  return storage_;
}

SharedStorage PJRT_Buffer::donate(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (storage_ == nullptr) raise_gone("a donation");
  const bool may_be = memory.on_host() || storage_->stream_ordered();  // programs do not write memory of the host
  if (!may_be || external_references_ != 0 || storage_->lent()) return nullptr;
  gone_ = reason;
  return std::exchange(storage_, nullptr);
}

void PJRT_Buffer::drop(std::string reason) noexcept {
  SharedStorage storage;  // released when the lock is not held
  const std::lock_guard lock(mutex_);
  if (storage_ == nullptr) return;
  gone_ = std::move(reason);
  storage = std::exchange(storage_, nullptr);
}

bool PJRT_Buffer::deleted() const {
  const std::lock_guard lock(mutex_);
  return storage_ == nullptr;
}

void PJRT_Buffer::add_external_reference() {
  const std::lock_guard lock(mutex_);
  if (storage_ == nullptr) raise_gone("an external reference");
  ++external_references_;
  external_storage_ = storage_;
}

void PJRT_Buffer::remove_external_reference() {
  SharedStorage storage;
  const std::lock_guard lock(mutex_);
  MYDEV_CHECK(external_references_ != 0, MYDEV_FAILED_PRECONDITION, "the buffer ", mydev::pjrt::describe(*this),
              " has no external reference that could be given back");
  if (--external_references_ == 0) storage = std::exchange(external_storage_, nullptr);
}

void PJRT_Buffer::raise_gone(const char* what) const {
  mydev::raise(MYDEV_INVALID_ARGUMENT, std::string(what) + " asks for a buffer that has been deleted or donated: " +
                                           mydev::pjrt::describe(*this) + " was " + gone_ +
                                           ", and has no memory any more");
}

std::string mydev::pjrt::describe(const PJRT_Buffer& buffer) {
  return describe(*buffer.shape) + " in " + buffer.memory.to_string;
}
