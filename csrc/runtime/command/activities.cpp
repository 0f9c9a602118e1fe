#include "runtime/command/activities.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>

#include "runtime/command/measured_times.h"
#include "runtime/frame/frame.h"
#include "runtime/stream/stream.h"

namespace mydev {

namespace {

struct Recording {
  std::mutex mutex;
  std::vector<Activity> activities;
  std::unordered_map<uint64_t, size_t> running;  // index of an activity that has not ended, by id
  int hook = 0;                                  // 0: nothing is recorded
  MeasuredTimes measured;
};

// Never destroyed: commands end until the process is gone.
Recording& recording() {
  static Recording& instance = *new Recording;
  return instance;
}

// Counts recordings: entries that threads keep of an earlier one are void.
std::atomic<uint64_t> current{0};

struct ThreadCauses {
  uint64_t recording = 0;
  std::array<std::vector<uint64_t>, 2> stacks;
  uint64_t last_submitted = 0;  // the highest id
  int32_t thread = static_cast<int32_t>(::syscall(SYS_gettid));
};

ThreadCauses& causes() {
  thread_local ThreadCauses instance;
  if (const uint64_t now = current.load(std::memory_order_acquire); instance.recording != now) {
    instance.recording = now;
    for (std::vector<uint64_t>& stack : instance.stacks) stack.clear();
    instance.last_submitted = 0;
  }
  return instance;
}

uint64_t innermost(const ThreadCauses& all, Cause cause) {
  const std::vector<uint64_t>& stack = all.stacks[static_cast<size_t>(cause)];
  return stack.empty() ? 0 : stack.back();
}

// Computes Activity::alike.
bool operands_are_alike(const mydev_frame& frame) {
  if (frame.num_outputs != 1 || frame.num_inputs != 1) return false;
  const mydev_buffer &to = frame.buffers[0], &from = frame.buffers[1];
  if (to.dtype != from.dtype || to.rank != from.rank || is_scalar(from)) return false;
  int64_t count = 1, last = 0;
  for (int32_t i = 0; i < to.rank; ++i) {
    if (to.sizes[i] != from.sizes[i] || to.strides[i] < 0) return false;
    if (to.sizes[i] != 1 && to.strides[i] != from.strides[i]) return false;
    count *= to.sizes[i];
    last += (to.sizes[i] - 1) * to.strides[i];
  }
  return last == count - 1 && std::ranges::all_of(std::span(frame.attributes, frame.num_attributes), [](const auto& a) {
           return a.kind == MYDEV_ATTRIBUTE_BOOL && a.value.i == 0;
         });
}

void on_submitting(void*, const CommandRecord& record) {
  recording().measured.about_to_submit(*record.stream, record.id);
}

void on_submitted(void*, const CommandRecord& record) {
  recording().measured.about_to_submit(*record.stream, 0);
  if (record.code != MYDEV_OK) return;
  ThreadCauses& thread = causes();
  Activity activity{.id = record.id,
                    .kind = record.kind,
                    .name = record.name,
                    .device = record.stream->device().index,
                    .stream = record.stream->id(),
                    .bytes = record.bytes,
                    .submit_begin_ns = record.begin_ns,
                    .submit_end_ns = record.end_ns,
                    .thread = thread.thread,
                    .operator_id = innermost(thread, Cause::kOperator),
                    .annotation_id = innermost(thread, Cause::kAnnotation),
                    .encloses = thread.last_submitted > record.id};
  if (record.frame != nullptr) {
    activity.operands = describe_frame(*record.frame->kernel, *record.frame);
    activity.alike = operands_are_alike(*record.frame);
  }
  thread.last_submitted = std::max(thread.last_submitted, record.id);
  Recording& all = recording();
  const std::lock_guard lock(all.mutex);
  if (all.hook == 0) return;
  all.running.emplace(record.id, all.activities.size());
  all.activities.push_back(std::move(activity));
}

void on_finished(void*, const CommandRecord& record) {
  Recording& all = recording();
  const std::lock_guard lock(all.mutex);
  const auto found = all.running.find(record.id);
  if (found == all.running.end()) return;  // of an earlier recording
  Activity& activity = all.activities[found->second];
  activity.begin_ns = record.begin_ns;
  activity.end_ns = record.end_ns;
  activity.has_run = true;
  all.running.erase(found);
}

}  // namespace

void begin_activities() {
  end_activities();
  Recording& all = recording();
  const std::lock_guard lock(all.mutex);
  current.fetch_add(1, std::memory_order_acq_rel);
  all.hook = add_command_hook({.submitting = on_submitting, .submitted = on_submitted, .finished = on_finished});
}

std::vector<Activity> end_activities() {
  Recording& all = recording();
  const std::lock_guard lock(all.mutex);
  if (all.hook != 0) remove_command_hook(std::exchange(all.hook, 0));
  all.running.clear();
  std::vector<Activity> ended = std::exchange(all.activities, {});
  const auto measured = all.measured.take();
  for (Activity& activity : ended) {
    const auto span = measured.find(activity.id);
    if (span == measured.end()) continue;
    activity.begin_ns = span->second.begin_ns;
    activity.end_ns = span->second.end_ns;
    activity.has_run = true;
  }
  std::erase_if(ended, [](const Activity& activity) { return !activity.has_run; });
  std::ranges::sort(ended, {}, &Activity::id);
  return ended;
}

void push_cause(Cause cause, uint64_t id) {
  causes().stacks[static_cast<size_t>(cause)].push_back(id);
}

void pop_cause(Cause cause) {
  std::vector<uint64_t>& stack = causes().stacks[static_cast<size_t>(cause)];
  if (!stack.empty()) stack.pop_back();
}

}  // namespace mydev
