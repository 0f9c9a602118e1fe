#include "distributed/backend_hooks.h"

#include <c10/util/Exception.h>

#include "distributed/collective_error.h"

namespace mydev {

std::shared_ptr<const CompletionHooks::Hooks> CompletionHooks::current() const {
  const std::lock_guard lock(mutex_);
  return hooks_;
}

void CompletionHooks::set(int64_t id, Hook hook) {
  const std::lock_guard lock(mutex_);
  auto changed = std::make_shared<Hooks>(*hooks_);
  changed->insert_or_assign(id, std::move(hook));
  hooks_ = std::move(changed);
}

void CompletionHooks::erase(int64_t id) {
  const std::lock_guard lock(mutex_);
  auto changed = std::make_shared<Hooks>(*hooks_);
  changed->erase(id);
  hooks_ = std::move(changed);
}

bool CompletionHooks::empty() const {
  return current()->empty();
}

void CompletionHooks::call(uint64_t key) const noexcept {
  for (const auto& [id, hook] : *current()) {
    try {
      hook(key);
    } catch (...) {
      TORCH_WARN("a hook of a process group failed: ", message_of(std::current_exception()));
    }
  }
}

uint64_t CollectiveEnd::next_key() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

void CollectiveEnd::succeeded() noexcept {
  if (!reported_.exchange(true, std::memory_order_relaxed)) hooks_->call(key_);
}

}  // namespace mydev
