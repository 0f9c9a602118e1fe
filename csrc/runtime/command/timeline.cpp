#include "runtime/command/timeline.h"

#include <mutex>
#include <utility>

#include "runtime/stream/stream.h"

namespace mydev {

namespace {

struct TimelineRecording {
  std::mutex mutex;
  Timeline timeline;
  size_t limit = 0;
  int hook = 0;  // 0: nothing is recorded
};

// Never destroyed: commands end until the process is gone.
TimelineRecording& timeline_recording() {
  static TimelineRecording& instance = *new TimelineRecording;
  return instance;
}

void add_to_timeline(void*, const CommandRecord& record) {
  TimelineRecording& all = timeline_recording();
  const std::lock_guard lock(all.mutex);
  if (all.hook == 0) return;
  if (all.timeline.entries.size() >= all.limit) {
    ++all.timeline.omitted;
    return;
  }
  all.timeline.entries.push_back({.name = record.name,
                                  .begin_ns = record.begin_ns,
                                  .end_ns = record.end_ns,
                                  .stream = record.stream->id(),
                                  .device = record.stream->device().index,
                                  .kind = record.kind});
}

}  // namespace

void begin_timeline(size_t limit) {
  end_timeline();
  TimelineRecording& all = timeline_recording();
  const std::lock_guard lock(all.mutex);
  all.limit = limit;
  all.hook = add_command_hook({.finished = add_to_timeline});
}

Timeline end_timeline() {
  TimelineRecording& all = timeline_recording();
  const std::lock_guard lock(all.mutex);
  if (all.hook != 0) remove_command_hook(std::exchange(all.hook, 0));
  return std::exchange(all.timeline, {});
}

}  // namespace mydev
