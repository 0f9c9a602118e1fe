// Activities: what the devices did, when, and which of the caller's operators it was for. What a profiler shows.
//
// Recorded between begin_activities() and end_activities(), of all threads, streams and devices; costs nothing
// otherwise. Times are the steady clock's. When work ran is what the driver has measured (measured_times.h), else what
// the stream tells (CommandHook::finished): from when it was free, waits for events of other streams included. Work
// that has not ended when recording does is left out. Thread-safe; one recording at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/command/command_hooks.h"

namespace mydev {

struct Activity {
  uint64_t id = 0;  // CommandRecord::id
  CommandKind kind = CommandKind::kLaunch;
  const char* name = "";  // CommandRecord::name
  int device = 0;
  int64_t stream = 0;
  uint64_t bytes = 0;
  std::string operands;                            // of launches: describe_frame
  int64_t submit_begin_ns = 0, submit_end_ns = 0;  // on `thread`
  int64_t begin_ns = 0, end_ns = 0;                // on the device
  int32_t thread = 0;                              // of the operating system
  uint64_t operator_id = 0, annotation_id = 0;     // innermost of the thread when it was submitted; 0: none
  bool encloses = false;                           // other commands were submitted from inside it
  bool has_run = false;
  // Of launches: one result and one operand, of a dtype, that lie alike and without gaps; no attribute is set.
  bool alike = false;
};

// Forgets what was recorded, and records.
void begin_activities();
// Ends recording and gives what has run, in the order of submission.
std::vector<Activity> end_activities();

// Whom the calling thread works for from now on: an operator, or a range that the user has named. They nest.
enum class Cause : uint8_t { kOperator, kAnnotation };
void push_cause(Cause cause, uint64_t id);
void pop_cause(Cause cause);  // does nothing where recording began after the push

}  // namespace mydev
