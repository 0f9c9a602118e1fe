#include "pjrt/buffer/submission.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "pjrt/device/callback_scope.h"
#include "runtime/stream/staging_stream.h"

namespace mydev::pjrt {

namespace {

// The thread that calls continuations.
WorkQueue& completion_thread() {
  static WorkQueue& thread = *new WorkQueue("mydev-pjrt-end");
  return thread;
}
// The thread that asks drivers how work ended.
WorkQueue& status_thread() {
  static WorkQueue& thread = *new WorkQueue("mydev-pjrt-sts");
  return thread;
}
// The thread that releases programs.
WorkQueue& dropping_thread() {
  static WorkQueue& thread = *new WorkQueue("mydev-pjrt-del");
  return thread;
}

Failure failure_of_inputs(const Submission& submission) {
  for (const SharedCompletion& input : submission.inputs) {
    if (input->has_failed()) return input->failure();
  }
  return {};
}

void finish(Submission& submission, Failure failure) {
  if (!failure.failed()) failure = failure_of_inputs(submission);
  if (!failure.failed() && submission.after) failure = failure_of(submission.after);
  if (failure.failed() && submission.cancel) submission.cancel(failure);
  submission.storages.clear();
  if (submission.completion != nullptr) {
    submission.completion->set(std::move(failure));
  } else if (failure.failed()) {
    submission.completion = Completion::failed(std::move(failure));
  } else {
    submission.completion = Completion::ready();
  }
}

// The device and the stream that work is given to, and whether it is in the device's order.
struct Place {
  LocalDevice& device;
  Stream& stream;
  bool in_order;

  static Place of(LocalDevice& device) { return {device, device.stream, true}; }
  static Place beside(LocalDevice& device) {
    const bool has_own = device.stream.asynchronous();
    return {device, has_own ? staging_stream(device.device.index) : device.stream, false};
  }
  void begin() const noexcept {
    if (in_order) device.unfinished.fetch_add(1, std::memory_order_relaxed);
  }
  void end() const noexcept {
    if (in_order) device.unfinished.fetch_sub(1, std::memory_order_relaxed);
  }
};

// Runs on a thread of the driver, in the order of the stream. Later work waits, so that a failure belongs to this
// submission and to none after it. A driver that reports failures with the stream's status is asked on another thread,
// since it must not be called on this one.
void take_end(const Place& place, const std::shared_ptr<Submission>& submission) {
  Stream& stream = place.stream;
  Failure failure;
  if (stream.device().driver->stream_status == nullptr) {
    failure = failure_of([&stream] { stream.raise_error_if_any(); });
  } else {
    auto asked = std::make_shared<Completion>();  // the other thread may still be in set() when this one goes on
    status_thread().enqueue([&failure, &stream, asked] {
      failure = failure_of([&stream] {
        stream.collect_status();
        stream.raise_error_if_any();
      });
      asked->set();
    });
    asked->wait();
  }
  place.end();
  completion_thread().enqueue([submission, failure = std::move(failure)] { finish(*submission, failure); });
}

// Submits in the device's turn, or beside it. Returns the completion, which may not be ready yet.
SharedCompletion submit_now(const Place& place, Submission submission) {
  Stream& stream = place.stream;
  Failure failure = failure_of_inputs(submission);
  if (!failure.failed()) failure = failure_of([&] { submission.submit(stream); });
  if (failure.failed() || !stream.asynchronous()) {
    place.end();
    finish(submission, std::move(failure));
    return submission.completion;
  }
  if (submission.completion == nullptr) submission.completion = std::make_shared<Completion>();
  SharedCompletion completion = submission.completion;
  submission.submit = nullptr;  // what it holds is needed no more
  if (place.in_order) {
    std::erase_if(submission.storages, [](const SharedStorage& storage) { return storage->stream_ordered(); });
  }
  auto shared = std::make_shared<Submission>(std::move(submission));
  failure = failure_of([&] { stream.host_call([place, shared] { take_end(place, shared); }, shared->name, ""); });
  if (failure.failed()) {
    place.end();
    finish(*shared, std::move(failure));
  }
  return completion;
}

bool all_ready(const std::vector<SharedCompletion>& inputs) {
  return std::ranges::all_of(inputs, [](const SharedCompletion& input) { return input->is_ready(); });
}

// Runs on the thread of readings. If `awaited`, the device waits for the callback that asks. Data that were computed
// before the callback's program are ready once the reports of the streams so far were handled.
void read_when_ready(LocalDevice& device, bool awaited, const std::shared_ptr<Submission>& reading) {
  if (awaited) wait_for_completions();
  const auto pending =
      std::ranges::find_if(reading->inputs, [](const SharedCompletion& input) { return !input->is_ready(); });
  if (pending == reading->inputs.end()) {
    submit_now(Place::beside(device), std::move(*reading));
  } else if (awaited) {
    finish(*reading, {MYDEV_FAILED_PRECONDITION,
                      std::string("in a callback, a ") + reading->name + " asks for an array that " +
                          device.description.to_string +
                          " is still to compute, and it waits for the callback; pass the array to the callback as an "
                          "argument"});
  } else {
    (*pending)->on_ready([&device, reading](const Failure&) {
      device.readings.enqueue([&device, reading] { read_when_ready(device, false, reading); });
    });
  }
}

}  // namespace

void release_later(std::shared_ptr<void> thing) {
  dropping_thread().enqueue([thing = std::move(thing)] {});  // functions are destroyed there too
}

void wait_for_releases() noexcept {
  dropping_thread().drain();
}

void wait_for_completions() noexcept {
  completion_thread().drain();
}

SharedCompletion submit(LocalDevice& device, Submission submission) {
  SharedCompletion completion;
  const Place place = Place::of(device);
  const auto now = [&] {
    place.begin();
    completion = submit_now(place, std::move(submission));
  };
  if (!CallbackScope::waiting_device() && device.queue.run_if_idle(now)) return completion;
  return submit_on_thread(device, std::move(submission));
}

SharedCompletion submit_on_thread(LocalDevice& device, Submission submission) {
  if (submission.completion == nullptr) submission.completion = std::make_shared<Completion>();
  SharedCompletion completion = submission.completion;
  auto shared = std::make_shared<Submission>(std::move(submission));
  Place::of(device).begin();
  device.queue.enqueue([&device, shared] { submit_now(Place::of(device), std::move(*shared)); });
  return completion;
}

SharedCompletion submit_reading(LocalDevice& device, Submission submission) {
  const std::optional<int> waiting = CallbackScope::waiting_device();
  const bool may_use_driver = !waiting || !device.stream.asynchronous();
  if (may_use_driver && all_ready(submission.inputs)) return submit_now(Place::beside(device), std::move(submission));
  submission.completion = std::make_shared<Completion>();
  SharedCompletion completion = submission.completion;
  auto shared = std::make_shared<Submission>(std::move(submission));
  device.readings.enqueue(
      [&device, awaited = waiting == device.device.index, shared] { read_when_ready(device, awaited, shared); });
  return completion;
}

void finish_in_callback(Completion& completion) {
  if (CallbackScope::waiting_device()) completion.wait();
}

void check_not_awaited(const LocalDevice& device, const std::string& what) {
  const bool busy = CallbackScope::waiting_device() && device.unfinished.load(std::memory_order_relaxed) != 0;
  MYDEV_CHECK(!busy, MYDEV_FAILED_PRECONDITION, "a callback asks ", device.description.to_string, " for ", what,
              ", which would never run: the device is busy with the program that waits for the callback, or behind it; "
              "in callbacks, compute with NumPy or on JAX's CPU, as in jax.device_put(x, jax.devices('cpu')[0])");
}

SharedCompletion submit_after(LocalDevice& device, const SharedCompletion& before, Submission submission) {
  submission.submit = [before, submit = std::move(submission.submit)](Stream& stream) {
    before->wait();
    if (before->has_failed()) raise(before->failure().code, before->failure().message);
    submit(stream);
  };
  return submit_on_thread(device, std::move(submission));
}

}  // namespace mydev::pjrt
