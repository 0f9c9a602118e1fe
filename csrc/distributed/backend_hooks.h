// Hooks that others register with a process group's backend: they are called when a collective succeeds.
//
// c10d registers them from torch 2.15 on; its flight recorder is one. The thread that finds the end calls them, without
// locks and before it tells those who wait. A hook may still be called once after it was taken away. An exception of a
// hook becomes a warning. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/base/api.h"

namespace mydev {

class CompletionHooks {
 public:
  using Hook = std::function<void(uint64_t)>;  // of the key of the collective, once for each

  void set(int64_t id, Hook hook);
  void erase(int64_t id);
  bool empty() const;
  void call(uint64_t key) const noexcept;

 private:
  using Hooks = std::map<int64_t, Hook>;
  std::shared_ptr<const Hooks> current() const;

  mutable std::mutex mutex_;  // guards the pointer; what it points to does not change
  std::shared_ptr<const Hooks> hooks_ = std::make_shared<Hooks>();
};

// The end of one collective. The engine may hold it for longer than the collective's Work exists.
class CollectiveEnd {
 public:
  explicit CollectiveEnd(std::shared_ptr<const CompletionHooks> hooks) : hooks_(std::move(hooks)) {}

  uint64_t key() const { return key_; }  // of no other collective of the process
  bool is_wanted() const { return !hooks_->empty(); }
  void succeeded() noexcept;  // the first call counts

 private:
  static uint64_t next_key();

  const std::shared_ptr<const CompletionHooks> hooks_;
  const uint64_t key_ = next_key();
  std::atomic<bool> reported_ = false;
};

}  // namespace mydev
