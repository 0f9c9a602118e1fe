// Submitting work to a device, and learning how it ended.
//
// Work goes through the device's queue to its stream. On an inline stream it is done once it was submitted. On an
// asynchronous stream, a host call takes the stream's error, before later work can fail, and leaves the rest to a
// thread of the plugin. So neither continuations of the client nor status queries run on a thread of the driver. Work
// whose inputs failed fails with their error. If it was not submitted yet, it is not run.
//
// Work that only reads finished data does not wait for the device's order, in which a program may wait for the very
// thread that reads. It has a stream of its own (staging_stream.h). All other work that a callback of a program asks of
// a busy device is refused.
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

// Returns the submission's completion, which is ready if the work was done at once.
SharedCompletion submit(LocalDevice& device, Submission submission);
// Submits on the queue's thread, once `before` is ready: for work that waits for another device. A failure of `before`
// is a failure of this work.
SharedCompletion submit_after(LocalDevice& device, const SharedCompletion& before, Submission submission);
// Never submits on the calling thread: for several devices that run one program and wait for each other.
SharedCompletion submit_on_thread(LocalDevice& device, Submission submission);
// Submits beside the device's order, once the inputs are ready: for work that reads, whose storages are lent
// (buffer.h). In a callback, inputs that the waiting device has still to compute are a failure.
SharedCompletion submit_reading(LocalDevice& device, Submission submission);
// Raises FAILED_PRECONDITION in a callback while the device has unfinished work: `what` ("an execution of 'step'")
// would wait for the program that waits for the callback.
void check_not_awaited(const LocalDevice& device, const std::string& what);
// In a callback, waits for the work, which an idle device was given. So the device is idle again for the next work.
void finish_in_callback(Completion& completion);
// Releases it on a thread of its own: the release of a program waits for its work, and the caller may hold a lock that
// this work needs, such as Python's.
void release_later(std::shared_ptr<void> thing);
// Waits until all of that is released.
void wait_for_releases() noexcept;
// Waits until the continuations of all work that the streams have reported so far were called. Continuations must not
// call it.
void wait_for_completions() noexcept;

}  // namespace mydev::pjrt
