// Dispatch trace: PyTorch's TORCH_SHOW_DISPATCH_TRACE on release builds of torch, which compile their own out.
//
// A trace sees every dispatcher call of the threads that it is open on, through boxed kernels on two functionality keys
// that nothing else uses. It writes the lines that a debug build of PyTorch would, nested:
//    [call] op=[aten::add.Tensor], key=[AutogradPrivateUse1]
//     [redispatch] op=[aten::add.Tensor], key=[PrivateUse1]
//      [launch] kernel=[mydev.add]
// A trace reports calls that work on this backend's devices, and all that happens inside them.
//
// Policy. The kernels are registered by the first trace and take part only on threads where one is open, so closed
// traces cost nothing. Traces nest: the innermost of a thread gets its lines. An open trace follows its thread's work
// to the threads of the autograd engine. Everything is thread-safe; a line reaches its writer whole.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/api.h"

namespace mydev {

// Takes one line, without its newline. Called from any thread; must not throw. Work that it does is not traced.
using TraceWriter = std::function<void(const std::string& line)>;

class DispatchTrace final : public c10::DebugInfoBase {
 public:
  // all_devices: report every call, not only those that work on our devices. `outer`, kept alive by `below`, is the
  // trace that was open on the thread before.
  DispatchTrace(TraceWriter writer, bool all_devices, DispatchTrace* outer,
                std::shared_ptr<c10::ThreadLocalDebugInfo> below)
      : writer_(std::move(writer)), all_devices_(all_devices), outer_(outer), below_(std::move(below)) {}

  DispatchTrace* outer() const noexcept { return outer_; }
  bool all_devices() const noexcept { return all_devices_; }
  bool open() const noexcept { return open_.load(std::memory_order_relaxed); }
  void close() noexcept { open_.store(false, std::memory_order_relaxed); }
  void write(const std::string& line) const { writer_(line); }

 private:
  TraceWriter writer_;
  bool all_devices_;
  DispatchTrace* outer_;
  std::shared_ptr<c10::ThreadLocalDebugInfo> below_;
  std::atomic<bool> open_{true};  // relaxed: a line more or less at the end is no error
};

// Writes to the process's stderr.
MYDEV_API TraceWriter stderr_trace_writer();

// Traces the calling thread until end_dispatch_trace, which must be called on the same thread.
MYDEV_API std::shared_ptr<DispatchTrace> begin_dispatch_trace(TraceWriter writer, bool all_devices);
MYDEV_API void end_dispatch_trace(const std::shared_ptr<DispatchTrace>& trace);
// Traces the calling thread too, until the trace is ended.
MYDEV_API void join_dispatch_trace(const std::shared_ptr<DispatchTrace>& trace);

namespace detail {
struct TracedCall;
extern thread_local const TracedCall* traced_call;
}  // namespace detail

// Our own code passes calls on to the CPU below what the trace can see: while one of these lives, the trace shows a
// line "[redispatch] op=[...], key=[CPU]" and nests what follows under it.
class TraceRedispatch {
 public:
  TraceRedispatch(const std::string& op, c10::DispatchKey key) {
    if (__builtin_expect(detail::traced_call != nullptr, 0)) begin(op, key);
  }
  ~TraceRedispatch() {
    if (__builtin_expect(depth_ != 0, 0)) end();
  }
  TraceRedispatch(const TraceRedispatch&) = delete;
  TraceRedispatch& operator=(const TraceRedispatch&) = delete;

 private:
  void begin(const std::string& op, c10::DispatchKey key);
  void end() noexcept;
  int depth_ = 0;
};

}  // namespace mydev
