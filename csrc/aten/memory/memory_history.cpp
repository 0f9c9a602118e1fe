#include "aten/memory/memory_history.h"

#include <torch/csrc/profiler/combined_traceback.h>

#include <chrono>
#include <deque>
#include <mutex>

#include "runtime/driver/device.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/memory/memory_events.h"

namespace mydev {

namespace {

using Stacks = HistorySettings::Stacks;

struct State {
  std::mutex mutex;
  std::optional<HistorySettings> settings;
  std::vector<std::deque<HistoryEvent>> events;
  std::map<std::pair<int, uintptr_t>, MemoryContext> contexts;
  std::vector<OutOfMemoryObserver> observers;
};

// Never destroyed: memory is freed until the process is gone. A stack that ends hands its Python objects to torch,
// which releases them when it has the GIL; so the GIL is not needed here.
State& state() {
  static State& instance = *new State;
  return instance;
}

// The context of the allocation that the thread is in.
thread_local MemoryContext allocating;
thread_local std::string thread_metadata;

MemoryContext gather_context(Stacks at_least) {
  bool cpp_frames = false;
  {
    State& all = state();
    const std::lock_guard lock(all.mutex);
    if (!all.settings || all.settings->stacks < at_least) return nullptr;
    cpp_frames = all.settings->cpp_frames;
  }
  return torch::CapturedTraceback::gather(/*python=*/true, /*script=*/true, cpp_frames);
}

int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// With the lock, while something is recorded.
void add_event(State& all, int device, HistoryEvent event) {
  if (!all.settings->events || all.settings->skipped.contains(event.action) || all.settings->max_events == 0) return;
  if (all.events.size() <= static_cast<size_t>(device)) all.events.resize(static_cast<size_t>(device) + 1);
  std::deque<HistoryEvent>& events = all.events[static_cast<size_t>(device)];
  while (events.size() >= all.settings->max_events) events.pop_front();
  events.push_back(std::move(event));
}

void keep(const char* action, const MemoryEvent& event, uintptr_t address, MemoryContext context) {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  if (!all.settings) return;
  const std::pair key(event.device, address);
  if (event.kind == MemoryEventKind::kAllocated && context != nullptr) {
    all.contexts.insert_or_assign(key, context);
  } else if (event.kind == MemoryEventKind::kFreeRequested) {
    all.contexts.erase(key);
  }
  if (event.kind == MemoryEventKind::kAllocated && all.settings->stacks < Stacks::kAllocations) context = nullptr;
  add_event(all, event.device,
            {action, address, event.size, event.stream, now_us(), std::move(context), thread_metadata});
}

void on_out_of_memory(const MemoryEvent& event) {
  uint64_t free_bytes = 0, total_bytes = 0;
  memory_info(event.device, free_bytes, total_bytes);
  keep("oom", event, free_bytes, std::exchange(allocating, nullptr));
  std::vector<OutOfMemoryObserver> observers;
  {
    const std::lock_guard lock(state().mutex);
    observers = state().observers;
  }
  for (const OutOfMemoryObserver& observer : observers) observer(event.device, event.size, total_bytes, free_bytes);
}

void observe(const MemoryEvent& event) {
  const auto address = reinterpret_cast<uintptr_t>(event.address);
  switch (event.kind) {
    case MemoryEventKind::kAllocating:
      allocating = gather_context(Stacks::kLive);
      return;
    case MemoryEventKind::kAllocated:
      if (address != 0) return keep("alloc", event, address, std::exchange(allocating, nullptr));
      allocating = nullptr;
      return;
    case MemoryEventKind::kOutOfMemory:
      return on_out_of_memory(event);
    case MemoryEventKind::kFreeRequested:
      return keep("free_requested", event, address, gather_context(Stacks::kAll));
    case MemoryEventKind::kFreeCompleted:
      return keep("free_completed", event, address, nullptr);
    case MemoryEventKind::kSegmentAllocated:
      return keep("segment_alloc", event, address, allocating);
    case MemoryEventKind::kSegmentFreed:
      return keep("segment_free", event, address, nullptr);
  }
}

}  // namespace

void record_memory_history(const std::optional<HistorySettings>& settings, bool clear) {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  all.settings = settings;
  if (clear || !settings) {
    all.contexts.clear();
    all.events.clear();
  }
  set_memory_observer(settings || !all.observers.empty() ? observe : nullptr);
}

MemoryHistory memory_history() {
  MemoryHistory history;
  State& all = state();
  const std::lock_guard lock(all.mutex);
  for (const auto& events : all.events) history.events.emplace_back(events.begin(), events.end());
  history.contexts = all.contexts;
  return history;
}

void set_memory_metadata(std::string metadata) {
  thread_metadata = std::move(metadata);
}

const std::string& memory_metadata() {
  return thread_metadata;
}

void annotate_memory(int device, uintptr_t address, size_t size, std::string annotation) {
  MemoryContext context = gather_context(Stacks::kAllocations);
  State& all = state();
  const std::lock_guard lock(all.mutex);
  if (!all.settings) return;
  add_event(all, device, {"annotate", address, size, 0, now_us(), std::move(context), std::move(annotation)});
}

void attach_out_of_memory_observer(OutOfMemoryObserver observer) {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  all.observers.push_back(std::move(observer));
  set_memory_observer(observe);
}

}  // namespace mydev
