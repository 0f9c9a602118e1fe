// The time line: when each command ran, on which stream. For reports of a whole program.
//
// It keeps few bytes a command, up to a limit of commands; those beyond are counted. Times are as CommandHook::finished
// gives them. One time line at a time, of all threads, streams and devices. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/api.h"
#include "runtime/command/command_hooks.h"

namespace mydev {

struct TimelineEntry {
  const char* name;          // CommandRecord::name
  int64_t begin_ns, end_ns;  // steady clock
  int64_t stream;            // its id
  int32_t device;
  CommandKind kind;
};

struct Timeline {
  std::vector<TimelineEntry> entries;  // in the order in which they ended
  uint64_t omitted = 0;                // beyond the limit
};

// Begins a new one, in place of any other.
MYDEV_API void begin_timeline(size_t limit);
// Ends it. Commands that have not run by then are left out.
MYDEV_API Timeline end_timeline();

}  // namespace mydev
