// A buffer of the C API: a shape, a memory, an event that tells when its content is there, and storage until it is
// deleted or donated. Thread-safe; only the storage changes.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "pjrt/base/completion.h"
#include "pjrt/base/shape.h"
#include "pjrt/buffer/storage.h"
#include "pjrt/device/platform.h"

struct PJRT_Buffer {
 public:
  PJRT_Buffer(PJRT_Memory& memory, mydev::pjrt::SharedShape shape, mydev::pjrt::SharedStorage storage,
              mydev::pjrt::SharedCompletion ready)
      : memory(memory), shape(std::move(shape)), ready(std::move(ready)), storage_(std::move(storage)) {}
  PJRT_Buffer(const PJRT_Buffer&) = delete;
  PJRT_Buffer& operator=(const PJRT_Buffer&) = delete;

  PJRT_Memory& memory;
  const mydev::pjrt::SharedShape shape;
  const mydev::pjrt::SharedCompletion ready;
  mydev::pjrt::LocalDevice& device() const noexcept { return *memory.device; }

  // Returns a reference for work. Raises INVALID_ARGUMENT, naming `what` and the buffer, if it is deleted or donated.
  mydev::pjrt::SharedStorage hold(const char* what) const;
  // Donates the buffer and returns its storage, if this is the allocator's or the host's, has no external reference and
  // is not lent. `reason` says what the buffer is donated to. Else returns nullptr, and the buffer keeps its storage.
  mydev::pjrt::SharedStorage donate(const std::string& reason);
  // Like hold(), for a user that uses it in place and not in the device's order: it is lent (storage.h), and not
  // donated.
  mydev::pjrt::SharedStorage lend(const char* what) const;
  // Gives up the storage; external references keep it.
  void drop(std::string reason) noexcept;
  bool deleted() const;

  void add_external_reference();
  void remove_external_reference();  // raises FAILED_PRECONDITION where there is none

 private:
  [[noreturn]] void raise_gone(const char* what) const;

  mutable std::mutex mutex_;  // guards what follows
  mydev::pjrt::SharedStorage storage_;
  std::string gone_;  // why there is no storage: "deleted", "donated to 'step'"
  size_t external_references_ = 0;
  mydev::pjrt::SharedStorage external_storage_;  // while there are such references
};

namespace mydev::pjrt {

// "f32[2,3] in device of mydev:0"
std::string describe(const PJRT_Buffer& buffer);

}  // namespace mydev::pjrt
