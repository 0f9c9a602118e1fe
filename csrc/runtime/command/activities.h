// Activities: what the devices did, when, and which of the caller's operators it was for. A profiler shows them.
//
// They are recorded between begin_activities() and end_activities(), for all threads, streams and devices; recording
// costs nothing otherwise. Times are the steady clock's. The driver measures when work ran (measured_times.h). If it
// does not, the stream reports the times (CommandHook::finished): from when it was free, waits for events of other
// streams included. Work that has not ended when recording ends is left out. Thread-safe; one recording at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/api.h"
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
  // True for a launch with one result and one operand of one dtype that lie alike and without gaps, and no attribute
  // set.
  bool alike = false;
};

// Forgets earlier activities, and begins to record.
MYDEV_API void begin_activities();
// Ends recording. Returns the activities that have run, in the order of submission.
MYDEV_API std::vector<Activity> end_activities();

// A cause is what the calling thread works for from now on: an operator, or a range that the user has named. Causes
// nest.
enum class Cause : uint8_t { kOperator, kAnnotation };
MYDEV_API void push_cause(Cause cause, uint64_t id);
MYDEV_API void pop_cause(Cause cause);  // does nothing where recording began after the push

}  // namespace mydev
