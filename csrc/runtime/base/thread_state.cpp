#include "runtime/base/thread_state.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

namespace mydev::detail {

namespace {

ThreadState unregistered;

struct ThreadRegistry {
  std::mutex mutex;
  std::vector<ThreadState*> threads;
  std::atomic<uint64_t> other_launches{0};  // by ended threads and by threads without a record
};

// Never destroyed: threads may end after the destructors of the process's statics have run.
ThreadRegistry& registry() {
  static ThreadRegistry& instance = *new ThreadRegistry;
  return instance;
}

constinit thread_local bool thread_ended = false;

struct Registration {
  std::unique_ptr<ThreadState> state = std::make_unique<ThreadState>();

  Registration() {
    state->registered = true;
    const std::lock_guard lock(registry().mutex);
    registry().threads.push_back(state.get());
    thread_state = state.get();
  }
  ~Registration() {
    thread_ended = true;
    thread_state = &unregistered;
    ThreadRegistry& all = registry();
    const std::lock_guard lock(all.mutex);
    std::erase(all.threads, state.get());
    all.other_launches.fetch_add(state->launches.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
};

}  // namespace

constinit thread_local ThreadState* thread_state = &unregistered;
constinit thread_local int current_device_index = 0;

ThreadState* register_thread() {
  if (thread_ended) {
    return nullptr;
  }
  thread_local Registration registration;
  return registration.state.get();
}

void count_unregistered_launch() noexcept {
  registry().other_launches.fetch_add(1, std::memory_order_relaxed);
}

uint64_t total_launches() noexcept {
  ThreadRegistry& all = registry();
  const std::lock_guard lock(all.mutex);
  uint64_t total = all.other_launches.load(std::memory_order_relaxed);
  for (const ThreadState* state : all.threads) {
    total += state->launches.load(std::memory_order_relaxed);
  }
  return total;
}

void forget_current_streams() noexcept {
  if (thread_state->registered) {
    thread_state->current_streams.fill(nullptr);
  }
}

}  // namespace mydev::detail
