#include "distributed/backend_hooks.h"

#include <c10/util/Exception.h>

#include "distributed/collective_error.h"

namespace mydev {

template <typename... Args>
std::shared_ptr<const typename HookList<Args...>::Hooks> HookList<Args...>::current() const {
  const std::lock_guard lock(mutex_);
  return hooks_;
}

template <typename... Args>
void HookList<Args...>::set(int64_t id, Hook hook) {
  const std::lock_guard lock(mutex_);
  auto changed = std::make_shared<Hooks>(*hooks_);
  changed->insert_or_assign(id, std::move(hook));
  hooks_ = std::move(changed);
}

template <typename... Args>
void HookList<Args...>::erase(int64_t id) {
  const std::lock_guard lock(mutex_);
  auto changed = std::make_shared<Hooks>(*hooks_);
  changed->erase(id);
  hooks_ = std::move(changed);
}

template <typename... Args>
bool HookList<Args...>::empty() const {
  return current()->empty();
}

template <typename... Args>
void HookList<Args...>::call(Args... args) const noexcept {
  for (const auto& [id, hook] : *current()) {
    try {
      hook(args...);
    } catch (...) {
      TORCH_WARN("a hook of a process group failed: ", message_of(std::current_exception()));
    }
  }
}

template class HookList<uint64_t>;
template class HookList<>;

uint64_t CollectiveEnd::next_key() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

void CollectiveEnd::succeeded() noexcept {
  if (!told_.exchange(true, std::memory_order_relaxed)) hooks_->on_success.call(key_);
}

}  // namespace mydev
