// Commands, and the hooks that see each of them: traces, statistics, the profiler.
//
// Everything that a device does for us is a command on a stream: a launch, a copy, a fill, or work of the host on the
// device's memory (a CPU kernel by alias, generated code of a graph, a callback). Each kind is submitted in one place,
// which makes the record when hooks are installed: launch.h, transfer.h, host_work.h. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/api.h"
#include "runtime/base/status.h"
#include "runtime/stream/stream.h"

namespace mydev {

enum class CommandKind : uint8_t { kLaunch, kCopy, kFill, kHostCall };
MYDEV_API const char* command_kind_name(CommandKind kind) noexcept;  // "launch", "copy", "fill", "host call"

struct CommandRecord {
  uint64_t id = 0;  // from 1 on, in the order of submission; of commands that hooks saw
  CommandKind kind = CommandKind::kLaunch;
  const char* name = "";               // a kernel, an operator, "copy to device", ...; lives as long as the process
  const Stream* stream = nullptr;      // lives as long as the process, unless its owner releases it
  const mydev_frame* frame = nullptr;  // of a launch; while submitted() runs
  const void* dst = nullptr;           // of copies and fills
  const void* src = nullptr;           // of copies
  uint64_t bytes = 0;                  // moved; of launches: of the operands
  int64_t begin_ns = 0, end_ns = 0;    // steady clock
  mydev_code code = MYDEV_OK;          // of the submission
};

// Functions that are called for each command; each may be null. None may install or remove hooks.
struct CommandHook {
  // Called before the driver is given the command, on the submitting thread.
  void (*submitting)(void* context, const CommandRecord& record) = nullptr;
  // Called once the driver has accepted or refused the command, on the submitting thread; end_ns is that of the
  // submission.
  void (*submitted)(void* context, const CommandRecord& record) = nullptr;
  // Called once the command has run, on any thread; it must not throw or use the device. On an asynchronous stream
  // whose driver has stream_host_call the times are the device's: from when the stream was free for the command until
  // its end. Not called for commands that were refused.
  void (*finished)(void* context, const CommandRecord& record) = nullptr;
  void* context = nullptr;
};
MYDEV_API int add_command_hook(const CommandHook& hook);  // an id for remove_command_hook
// Waits for no command: on asynchronous streams, synchronize first, or the hook may still be called later.
MYDEV_API void remove_command_hook(int id);

namespace detail {

MYDEV_API extern std::atomic<bool> instrumented;  // there is a hook

// Reports a command that is being submitted to the hooks. The constructor begins the command's time.
class MYDEV_API ObservedCommand {
 public:
  explicit ObservedCommand(const CommandRecord& record);
  // Calls the hooks. `ends_here`: the command has run when it was submitted, whatever the stream.
  void submitted(Stream& stream, mydev_code code, bool ends_here = false);

 private:
  CommandRecord record_;
};

inline bool observing() noexcept {
  return instrumented.load(std::memory_order_relaxed);
}

}  // namespace detail
}  // namespace mydev
