// Statistics of commands: how often each kernel, copy, fill and host call ran, for how long, over how many bytes.
//
// Counted while somebody counts, from all threads and streams of all devices; nothing is kept otherwise. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/command/command_hooks.h"

namespace mydev {

struct CommandRow {
  CommandKind kind;
  std::string name;
  int device;
  uint64_t calls, bytes;
  int64_t nanoseconds;  // on an asynchronous stream, of the device; a host call's include the commands inside it
};

// Begins and ends counting; nests. What a stream still has to do when counting ends is counted if it is done by then.
void begin_command_statistics();
void end_command_statistics();
// Since the process began; most time first.
std::vector<CommandRow> command_rows();

}  // namespace mydev
