// A kernel that a library of NVIDIA's computes: a record whose plan chooses how, and what the driver's launch calls.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda_driver/library/cuda_error.h"
#include "cuda_driver/stream/cuda_stream.h"
#include "mydev/driver.h"

namespace mydev::cuda_driver {

struct LibraryKernel : mydev_kernel {
  // Enqueues the work of the frame; the context of the stream's device is current. Raises what fails.
  using Enqueue = void (*)(CudaStream& stream, const mydev_frame& frame);

  LibraryKernel(const char* kernel, const mydev_limits& taken, mydev_code (*planner)(const mydev_frame*, mydev_plan*),
                Enqueue enqueuer)
      : mydev_kernel{.struct_size = sizeof(mydev_kernel),
                     .name = kernel,
                     .traits = MYDEV_TRAIT_COMMAND_BUFFER_COMPATIBLE,
                     .runs = MYDEV_RUNS_DRIVER,
                     .limits = &taken,
                     .plan = planner},
        enqueue(enqueuer) {}

  const Enqueue enqueue;
};

// Choices for frames, by everything that distinguishes forms of frames. Bounded: the least recently used
// choice goes first, and survives in those that hold it. Thread-safe; two threads may make the same choice, and the
// first stays.
template <typename Choice>
class ChoiceCache {
 public:
  using Key = std::vector<int64_t>;

  template <typename Make>
  std::shared_ptr<Choice> find_or_make(const Key& key, const Make& make) {
    if (std::shared_ptr<Choice> found = find(key)) return found;
    std::shared_ptr<Choice> made = make();
    const std::lock_guard lock(mutex_);
    const auto [entry, is_new] = entries_.try_emplace(key, Entry{made, {}});
    if (!is_new) return entry->second.choice;
    recent_.push_front(&entry->first);
    entry->second.place = recent_.begin();
    if (entries_.size() > kCapacity) {
      entries_.erase(entries_.find(*recent_.back()));
      recent_.pop_back();
    }
    return made;
  }

 private:
  static constexpr size_t kCapacity = 1024;
  struct Entry {
    std::shared_ptr<Choice> choice;
    typename std::list<const Key*>::iterator place;
  };

  std::shared_ptr<Choice> find(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return nullptr;
    recent_.splice(recent_.begin(), recent_, found->second.place);
    return found->second.choice;
  }

  std::mutex mutex_;  // guards what follows
  std::map<Key, Entry> entries_;
  std::list<const Key*> recent_;  // the last used first
};

// The body of a plan: it returns the choice for the frame, whose scratch_bytes are the frame's, or raises.
// UNIMPLEMENTED declines the frame.
template <typename Choose>
mydev_code plan_choice(const mydev_frame& frame, mydev_plan& out, const Choose& choose) noexcept {
  using Held = decltype(choose());
  const mydev_code code = run_checked([&] {
    Held choice = choose();
    out.scratch_bytes = choice->scratch_bytes;
    out.decision = new Held(std::move(choice));  // NOLINT(bugprone-unhandled-exception-at-new): run_checked catches it
    out.release = [](void* decision) { delete static_cast<Held*>(decision); };
  });
  if (code != MYDEV_OK) frame.host->set_error(&frame, last_error());
  return code;
}

// The choice of the plan for the frame that runs.
template <typename Choice>
Choice& chosen(const mydev_frame& frame) {
  return **static_cast<std::shared_ptr<Choice>*>(frame.decision);
}

// Libraries want workspace to be aligned more than scratch is: a choice asks for as many bytes more.
inline constexpr uint64_t kWorkspaceAlignment = 256;
inline void* aligned_workspace(const mydev_frame& frame) noexcept {
  const auto at = reinterpret_cast<uintptr_t>(frame.scratch);
  return reinterpret_cast<void*>((at + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment);
}

}  // namespace mydev::cuda_driver
