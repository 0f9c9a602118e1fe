// Giving a device work, and learning how it ended.
//
// Work goes through the device's queue to its stream. On an inline stream it is done when it was submitted; on an
// asynchronous one a host call of the stream takes the stream's error, before later work can fail, and leaves the rest
// to a thread of ours: neither continuations of the client nor questions to the driver run on a thread of the driver's.
// Work whose inputs failed fails with their error: what was not submitted yet is not run.
//
// Work that only reads what is there already does not wait for the device's order, in which a program may wait for the
// very thread that reads: it has a stream of its own (staging_stream.h). All other work that a callback of a program
// asks of a busy device is refused.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pjrt/base/completion.h"
#include "pjrt/buffer/storage.h"
#include "pjrt/device/platform.h"

namespace mydev::pjrt {

struct Submission {
  const char* name = "";  // in errors; lives as long as the process
  std::function<void(Stream& stream)> submit;
  std::function<void()> after;                         // the host's part, once the device is done; or nothing
  std::function<void(const Failure& failure)> cancel;  // an input, `submit` or the work failed; or nothing
  std::vector<SharedCompletion> inputs;                // of the same device
  std::vector<SharedStorage> storages;                 // that it uses
  SharedCompletion completion;                         // which it sets; nullptr: one is made where it is needed
};

// Gives the submission's completion: one that is ready where the work was done at once.
SharedCompletion submit(LocalDevice& device, Submission submission);
// By the queue's thread, once `before` is ready, whose failure is this work's: work that waits for another device.
SharedCompletion submit_after(LocalDevice& device, const SharedCompletion& before, Submission submission);
// Never on the calling thread: for parts of one program on several devices, which wait for each other.
SharedCompletion submit_on_thread(LocalDevice& device, Submission submission);
// Beside the device's order, once its inputs are ready: for work that reads, whose storages are lent (buffer.h). In a
// callback, inputs which the waiting device is still to compute are a failure.
SharedCompletion submit_reading(LocalDevice& device, Submission submission);
// Raises FAILED_PRECONDITION in a callback while the device has unfinished work: `what` ("an execution of 'step'")
// would wait for the program that waits for the callback.
void check_not_awaited(const LocalDevice& device, const std::string& what);
// Waits for the work in a callback, which an idle device was given: so the device is idle for what comes next.
void finish_in_callback(Completion& completion);
// Drops it on a thread of its own: letting go of a program waits for its work, and the caller may hold what that work
// needs, as Python's lock.
void let_go(std::shared_ptr<void> thing);
// Waits until all of that is gone.
void wait_for_what_is_let_go() noexcept;
// Waits until continuations of what the streams have told so far were called. Not for continuations.
void wait_for_completions() noexcept;

}  // namespace mydev::pjrt
