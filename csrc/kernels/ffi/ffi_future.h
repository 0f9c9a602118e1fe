// Futures: handlers that finish later, on a thread of their own.
//
// The handler makes a future, returns it in the call frame, and completes it once; the host waits. Pointers that come
// from handlers are looked up before they are used: a future that does not exist, or is completed twice, is an error
// and no crash. A call whose future is not completed in time is handed to the future, which keeps it until it is.
// Thread-safe.
#pragma once

#include <chrono>
#include <memory>

#include "kernels/ffi/ffi_host.h"

namespace mydev::ffi {

// The memory that a handler may still touch after the host has stopped waiting.
struct Pending {
  Pending() = default;
  virtual ~Pending() = default;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
};

Future* create_future();
// Returns nullptr, or the error that the handler is to get. If `error` is nullptr, the future succeeds.
std::unique_ptr<Error> complete_future(Future* future, std::unique_ptr<Error> error);

struct Outcome {
  enum Kind { kDone, kTimedOut, kUnknown } kind;
  std::unique_ptr<Error> error;  // kDone: what the handler said, if anything
};
// Waits at most for `timeout`; 0 means for ever. Afterwards the host no longer needs the future, except after
// kTimedOut: then it must call cancel_future.
Outcome wait_for_future(Future* future, std::chrono::nanoseconds timeout);
// Keeps `pending` until the future is completed.
void cancel_future(Future* future, std::shared_ptr<Pending> pending);

}  // namespace mydev::ffi
