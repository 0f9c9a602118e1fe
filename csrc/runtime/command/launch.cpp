#include "runtime/command/launch.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/base/device_name.h"
#include "runtime/base/source_location.h"
#include "runtime/command/pending_launch.h"
#include "runtime/memory/workspace.h"

namespace mydev::detail {

namespace {

// Records that enqueue for themselves come from users, so their exceptions are caught here.
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

// The frame is copied. A failure sticks to the stream.
mydev_code call_in_order(const mydev_kernel& kernel, const mydev_frame& frame, Stream& stream, LaunchMode& mode) {
  PendingLaunch& pending = PendingLaunch::make(kernel, frame, stream, std::move(mode.decision));
  try {
    stream.host_call([&kernel, &pending] { pending.complete(pending.frame(), run_entry(kernel, *pending.frame())); },
                     kernel.name, source_location());
  } catch (...) {
    pending.release();
    throw;
  }
  return MYDEV_OK;
}

// Gives the frame to the driver; on success of an asynchronous launch the driver owns the copy until it completes it. A
// record that enqueues for itself borrows the frame.
mydev_code submit(const mydev_kernel& kernel, mydev_frame& frame, Stream& stream, LaunchMode& mode) {
  const mydev_driver_api& driver = *stream.device().driver;
  const LaunchScope scope;
  if (mode.enqueues) return run_entry(kernel, frame);
  if (mode.in_host_call) return call_in_order(kernel, frame, stream, mode);
  const auto give = [&](mydev_frame* given) {
    const CompiledLaunch* compiled = mode.compiled;
    return compiled == nullptr ? driver.launch(stream.handle(), &kernel, given)
                               : compiled->kernel->submit(stream.handle(), given, compiled->geometry);
  };
  if (!stream.asynchronous() || (mode.of_driver && stream.launch_copies())) return give(&frame);
  PendingLaunch& pending = PendingLaunch::make(kernel, frame, stream, std::move(mode.decision));
  const mydev_code code = give(pending.frame());
  if (code != MYDEV_OK) pending.release();
  return code;
}

uint64_t operand_bytes(const mydev_frame& frame) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < frame.num_outputs + frame.num_inputs; ++i) {
    const mydev_buffer& buffer = frame.buffers[i];
    if (buffer.data == nullptr || is_scalar(buffer)) continue;
    auto of_operand = static_cast<uint64_t>(dtype_size(static_cast<mydev_dtype>(buffer.dtype)));
    for (int32_t d = 0; d < buffer.rank; ++d) {
      if (buffer.strides[d] != 0) of_operand *= static_cast<uint64_t>(buffer.sizes[d]);
    }
    bytes += of_operand;
  }
  return bytes;
}

mydev_code submit_observed(const mydev_kernel& kernel, mydev_frame& frame, Stream& stream, LaunchMode& mode) {
  ObservedCommand observed({.kind = CommandKind::kLaunch,
                            .name = kernel.name,
                            .stream = &stream,
                            .frame = &frame,
                            .bytes = operand_bytes(frame)});
  const mydev_code code = submit(kernel, frame, stream, mode);
  observed.submitted(stream, code);
  return code;
}

// Launches and returns the code; does not raise the kernel's error.
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
  frame.kernel = mode.compiled == nullptr ? &kernel : &mode.compiled->kernel->record();
  frame.decision = mode.decision.get();
  if (Capture* capture = stream.capture()) {
    capture->launch(stream, kernel, frame, mode.compiled);
    return MYDEV_OK;
  }
  return observing() ? submit_observed(kernel, frame, stream, mode) : submit(kernel, frame, stream, mode);
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

namespace {

// Raises at once for a geometry that no device can run, also when the launch is captured.
void check_geometry(const CompiledLaunch& launch) {
  const mydev_geometry& geometry = launch.geometry;
  const auto text = [](const uint32_t (&sizes)[3]) {
    return std::to_string(sizes[0]) + " x " + std::to_string(sizes[1]) + " x " + std::to_string(sizes[2]);
  };
  const bool empty = std::ranges::count(geometry.grid, 0U) + std::ranges::count(geometry.group, 0U) != 0;
  MYDEV_CHECK(!empty, MYDEV_INVALID_ARGUMENT, launch.kernel->shown().name, " is launched with ", text(geometry.grid),
              " groups of ", text(geometry.group), " threads; each dimension is at least 1");
}

}  // namespace

void enqueue_compiled(const CompiledLaunch& launch, mydev_frame& frame, Stream& stream) {
  const mydev_kernel& shown = launch.kernel->shown();
  frame.device = stream.device().index;
  frame.stream = stream.handle();
  frame.host = &detail::services;
  frame.kernel = &launch.kernel->record();
  LaunchMode mode{.of_driver = true, .compiled = &launch};
  if (const mydev_code code = detail::submit(shown, frame, stream, mode); code != MYDEV_OK) {
    raise_launch_error(shown, frame, stream.device(), code);
  }
  forget_kernel_message(frame);
}

void launch_compiled(const CompiledLaunch& launch, mydev_frame& frame, Stream& stream) {
  const mydev_kernel& shown = launch.kernel->shown();
  const KernelParameters& parameters = launch.kernel->parameters();
  MYDEV_CHECK(stream.device().index == launch.kernel->device().index, MYDEV_INVALID_ARGUMENT, shown.name,
              " was compiled for device ", device_text(launch.kernel->device().index), ", and is launched on device ",
              device_text(stream.device().index));
  MYDEV_CHECK(frame.num_outputs == parameters.written() && frame.num_inputs == parameters.operands &&
                  frame.num_attributes == parameters.numbers.size(),
              MYDEV_INVALID_ARGUMENT, shown.name, " takes ", parameters.written(), " tensors that it writes, ",
              parameters.operands, " that it reads and ", parameters.numbers.size(), " numbers; given are ",
              frame.num_outputs, ", ", frame.num_inputs, " and ", frame.num_attributes);
  check_geometry(launch);
  LaunchMode mode{.of_driver = true, .compiled = &launch};
  launch_or_decline(shown, frame, stream, std::move(mode));
}

}  // namespace mydev
