// Statistics of commands: how often each kernel, copy, fill and host call ran, for how long, over how many bytes.
//
// Counted while somebody counts, from all threads and streams of all devices; nothing is kept otherwise. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/api.h"
#include "runtime/command/command_hooks.h"

namespace mydev {

struct CommandRow {
  CommandKind kind;
  std::string name;
  int device;
  uint64_t calls, bytes;
  int64_t nanoseconds;  // on an asynchronous stream, of the device; a host call's include the commands inside it
};

// Begin and end counting; calls nest. Work that is not done when counting ends is not counted.
MYDEV_API void begin_command_statistics();
MYDEV_API void end_command_statistics();
// Returns the rows since the process began, with the most time first.
MYDEV_API std::vector<CommandRow> command_rows();

}  // namespace mydev
