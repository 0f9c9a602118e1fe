#include "runtime/launch.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/device_name.h"
#include "runtime/status.h"

namespace mydev {

namespace {

// What the completion of an asynchronous launch needs; the frame's `launch` points to it.
struct PendingLaunch {
  const mydev_kernel* kernel;
  Stream* stream;
  std::string source;
};

// --- messages of failing kernels -------------------------------------------------------------------------------------

// Given by set_error, taken by the launch that sees the code. Only failures come here.
struct KernelMessages {
  std::mutex mutex;
  std::unordered_map<const mydev_frame*, std::string> by_frame;
};

KernelMessages& kernel_messages() {
  static KernelMessages& instance = *new KernelMessages;
  return instance;
}

void give_kernel_message(const mydev_frame* frame, const char* message) {
  KernelMessages& messages = kernel_messages();
  const std::lock_guard lock(messages.mutex);
  messages.by_frame[frame] = message != nullptr ? message : "";
  detail::kernel_messages_left.store(messages.by_frame.size(), std::memory_order_relaxed);
}

// What the kernel said of its failure, else what the driver says.
std::string failure_message(const mydev_frame& frame, const Device& device) {
  KernelMessages& messages = kernel_messages();
  {
    const std::lock_guard lock(messages.mutex);
    if (auto node = messages.by_frame.extract(&frame); !node.empty()) {
      detail::kernel_messages_left.store(messages.by_frame.size(), std::memory_order_relaxed);
      return std::move(node.mapped());
    }
  }
  return device.driver->last_error();
}

struct Failure {
  std::string message;
  ErrorOwner owner;
};

std::atomic<FailureExplainer> installed_explainer{nullptr};

// `source` as of source_location(); "" for a launch that is still under way.
Failure describe_failure(const mydev_kernel& kernel, const mydev_frame& frame, const Stream& stream, mydev_code code,
                         const std::string& source) {
  std::string message = failure_message(frame, stream.device());
  if (message.empty()) {
    message = "the kernel gave no message";
  }
  message += std::string(" [") + code_name(code) + " in " + describe_frame(kernel, frame) +
             " on device " MYDEV_DEVICE_NAME ":" + std::to_string(stream.device().index) + "]";
  if (!source.empty()) {
    message += ", launched at " + source;
  }
  const FailureExplainer explainer = installed_explainer.load(std::memory_order_acquire);
  const auto explanation = explainer != nullptr ? explainer(kernel, frame, code) : std::nullopt;
  if (!explanation) {
    return {std::move(message), ErrorOwner::kRuntime};
  }
  return {message + "\n" + *explanation, ErrorOwner::kCustomCall};
}

// --- services --------------------------------------------------------------------------------------------------------

void serial_for(int64_t count, int64_t /*grain*/, void (*body)(void*, int64_t, int64_t), void* context) {
  if (count > 0) {
    body(context, 0, count);
  }
}

std::atomic<ParallelFor> installed_parallel_for{serial_for};

void run_parallel_for(int64_t count, int64_t grain, void (*body)(void*, int64_t, int64_t), void* context) {
  installed_parallel_for.load(std::memory_order_acquire)(count, grain, body, context);
}

void discard_launch(mydev_frame* frame) {
  const OwnedFrame owned(frame);
  const std::unique_ptr<PendingLaunch> pending(static_cast<PendingLaunch*>(frame->launch));
}

void complete_launch(mydev_frame* frame, mydev_code code) {
  const OwnedFrame owned(frame);
  const std::unique_ptr<PendingLaunch> pending(static_cast<PendingLaunch*>(frame->launch));
  if (code == MYDEV_OK) {
    detail::forget_kernel_message(*frame);
    return;
  }
  Failure failure = describe_failure(*pending->kernel, *frame, *pending->stream, code, pending->source);
  pending->stream->set_error(code, std::move(failure.message), failure.owner);
}

// --- instrumentation -------------------------------------------------------------------------------------------------

struct InstalledHook {
  int id;
  LaunchHook hook;
  void* context;
};

// The list is replaced as a whole, so that launches call hooks without holding the lock.
struct Hooks {
  std::mutex mutex;
  std::shared_ptr<const std::vector<InstalledHook>> list = std::make_shared<std::vector<InstalledHook>>();
  int next_id = 1;
};

Hooks& hooks() {
  static Hooks& instance = *new Hooks;
  return instance;
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::atomic<SourceLocator> installed_locator{nullptr};

// Gives the frame to the driver; on success of an asynchronous launch the driver has taken it.
mydev_code submit(const mydev_kernel& kernel, mydev_frame& frame, Stream& stream) {
  const mydev_driver_api& driver = *stream.device().driver;
  if (!stream.asynchronous()) {
    return driver.launch(stream.handle(), &kernel, &frame);
  }
  auto pending = std::make_unique<PendingLaunch>(&kernel, &stream, source_location());
  mydev_frame* copy = clone_frame(frame).release();
  copy->launch = pending.release();
  const mydev_code code = driver.launch(stream.handle(), &kernel, copy);
  if (code != MYDEV_OK) {
    discard_launch(copy);
  }
  return code;
}

}  // namespace

namespace detail {

std::atomic<bool> instrumented{false};
std::atomic<size_t> kernel_messages_left{0};

void forget_kernel_message(const mydev_frame& frame) noexcept {
  if (kernel_messages_left.load(std::memory_order_relaxed) == 0) {
    return;
  }
  KernelMessages& messages = kernel_messages();
  const std::lock_guard lock(messages.mutex);
  messages.by_frame.erase(&frame);
  kernel_messages_left.store(messages.by_frame.size(), std::memory_order_relaxed);
}

constinit const mydev_host_services services = {sizeof(mydev_host_services), give_kernel_message, run_parallel_for,
                                                complete_launch};

void launch_slowly(const mydev_kernel& kernel, mydev_frame& frame, Stream& stream) {
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
  mydev_code code = MYDEV_OK;
  if (!instrumented.load(std::memory_order_acquire)) {
    code = submit(kernel, frame, stream);
  } else {
    std::shared_ptr<const std::vector<InstalledHook>> list;
    {
      const std::lock_guard lock(hooks().mutex);
      list = hooks().list;
    }
    const int64_t begin = now_ns();
    code = submit(kernel, frame, stream);
    const LaunchRecord record{&kernel, &frame, &stream, begin, now_ns(), code};
    for (const InstalledHook& installed : *list) {
      installed.hook(installed.context, record);
    }
  }
  if (code != MYDEV_OK) {
    raise_launch_error(kernel, frame, stream, code);
  }
  forget_kernel_message(frame);
}

void raise_launch_error(const mydev_kernel& kernel, const mydev_frame& frame, const Stream& stream, mydev_code code) {
  const Failure failure = describe_failure(kernel, frame, stream, code, "");
  raise(code, failure.message, failure.owner);
}

}  // namespace detail

int add_launch_hook(LaunchHook hook, void* context) {
  Hooks& all = hooks();
  const std::lock_guard lock(all.mutex);
  auto list = std::make_shared<std::vector<InstalledHook>>(*all.list);
  const int id = all.next_id++;
  list->push_back({id, hook, context});
  all.list = std::move(list);
  detail::instrumented.store(true, std::memory_order_release);
  return id;
}

void remove_launch_hook(int id) {
  Hooks& all = hooks();
  const std::lock_guard lock(all.mutex);
  auto list = std::make_shared<std::vector<InstalledHook>>(*all.list);
  const size_t removed = std::erase_if(*list, [id](const InstalledHook& hook) { return hook.id == id; });
  MYDEV_CHECK(removed == 1, MYDEV_INVALID_ARGUMENT, "no launch hook ", id);
  detail::instrumented.store(!list->empty(), std::memory_order_release);
  all.list = std::move(list);
}

uint64_t launch_count() noexcept {
  return detail::total_launches();
}

void set_source_locator(SourceLocator locator) noexcept {
  installed_locator.store(locator, std::memory_order_release);
}

void set_failure_explainer(FailureExplainer explainer) noexcept {
  installed_explainer.store(explainer, std::memory_order_release);
}

std::string source_location() {
  const SourceLocator locator = installed_locator.load(std::memory_order_acquire);
  return locator != nullptr ? locator() : std::string();
}

const mydev_host_services& host_services() noexcept {
  return detail::services;
}

void set_parallel_for(ParallelFor parallel_for) noexcept {
  installed_parallel_for.store(parallel_for, std::memory_order_release);
}

}  // namespace mydev
