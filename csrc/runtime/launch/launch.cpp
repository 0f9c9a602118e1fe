#include "runtime/launch/launch.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "runtime/launch/source_location.h"
#include "runtime/memory/workspace.h"

namespace mydev::detail {

namespace {

// The end of an asynchronous launch: a failure sticks to the stream.
class StickyCompletion final : public LaunchCompletion {
 public:
  StickyCompletion(const mydev_kernel& kernel, Stream& stream, std::string source, Decision decision)
      : kernel_(kernel), stream_(stream), source_(std::move(source)), decision_(std::move(decision)) {}

  void complete(const mydev_frame& frame, mydev_code code) override {
    if (code == MYDEV_OK) {
      forget_kernel_message(frame);
      return;
    }
    LaunchFailure failure = describe_launch_failure(kernel_, frame, stream_.device(), code, source_);
    stream_.set_error(code, std::move(failure.message), failure.owner);
  }

 private:
  const mydev_kernel& kernel_;
  Stream& stream_;
  std::string source_;
  Decision decision_;
};

// Records that enqueue for themselves come from users: what they throw ends here.
mydev_code run_entry(const mydev_kernel& kernel, const mydev_frame& frame) noexcept {
  try {
    return kernel.entry(&frame);
  } catch (const std::exception& error) {
    services.set_error(&frame, (std::string("the kernel threw: ") + error.what()).c_str());
  } catch (...) {
    services.set_error(&frame, "the kernel threw something that is no std::exception");
  }
  return MYDEV_INTERNAL;
}

// Gives the frame to the driver; on success of an asynchronous launch the driver owns the clone and its completion. A
// record that enqueues for itself borrows the frame.
mydev_code submit(const mydev_kernel& kernel, mydev_frame& frame, Stream& stream, LaunchMode& mode) {
  const mydev_driver_api& driver = *stream.device().driver;
  const LaunchScope scope;
  if (mode.enqueues) return run_entry(kernel, frame);
  if (!stream.asynchronous() || (mode.of_driver && stream.launch_copies())) {
    return driver.launch(stream.handle(), &kernel, &frame);
  }
  std::unique_ptr<LaunchCompletion> completion =
      std::make_unique<StickyCompletion>(kernel, stream, source_location(), std::move(mode.decision));
  OwnedFrame clone = clone_frame(frame);
  clone->launch = completion.get();
  const mydev_code code = driver.launch(stream.handle(), &kernel, clone.get());
  if (code == MYDEV_OK) {
    [[maybe_unused]] const mydev_frame* frame_of_driver = clone.release();
    [[maybe_unused]] const LaunchCompletion* completion_of_driver = completion.release();
  }
  return code;
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

mydev_code submit_with_hooks(const mydev_kernel& kernel, mydev_frame& frame, Stream& stream, LaunchMode& mode) {
  const LaunchHooks hooks = installed_launch_hooks();
  const int64_t begin = now_ns();
  const mydev_code code = submit(kernel, frame, stream, mode);
  const LaunchRecord record{&kernel, &frame, &stream, begin, now_ns(), code};
  for (const InstalledHook& installed : *hooks) {
    installed.hook(installed.context, record);
  }
  return code;
}

// Launches and tells how it went; does not raise the kernel's error.
mydev_code launch_with_care(const mydev_kernel& kernel, mydev_frame& frame, Stream& stream, LaunchMode& mode) {
  stream.check_open();
  if (ThreadState* thread = register_thread()) {
    thread->launches.store(thread->launches.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  } else {
    count_unregistered_launch();
  }
  frame.device = stream.device().index;
  frame.stream = stream.handle();
  frame.host = &services;
  frame.launch = nullptr;
  frame.kernel = &kernel;
  frame.decision = mode.decision.get();
  const bool observed = instrumented.load(std::memory_order_acquire);
  return observed ? submit_with_hooks(kernel, frame, stream, mode) : submit(kernel, frame, stream, mode);
}

}  // namespace

void launch_slowly(const mydev_kernel& kernel, mydev_frame& frame, Stream& stream, void* decision) {
  LaunchMode mode{.decision = Decision(decision, nullptr)};
  if (const mydev_code code = launch_with_care(kernel, frame, stream, mode); code != MYDEV_OK) {
    raise_launch_error(kernel, frame, stream.device(), code);
  }
  forget_kernel_message(frame);
}

}  // namespace mydev::detail

namespace mydev {

std::optional<std::string> launch_or_decline(const mydev_kernel& kernel, mydev_frame& frame, Stream& stream,
                                             LaunchMode mode) {
  const mydev_code code = detail::launch_with_care(kernel, frame, stream, mode);
  if (code == MYDEV_UNIMPLEMENTED && mode.may_decline) {
    std::optional<std::string> reason = take_kernel_message(frame);
    return reason ? *std::move(reason) : std::string(stream.device().driver->last_error());
  }
  if (code != MYDEV_OK) raise_launch_error(kernel, frame, stream.device(), code);
  forget_kernel_message(frame);
  return std::nullopt;
}

}  // namespace mydev
