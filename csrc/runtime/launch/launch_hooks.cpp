#include "runtime/launch/launch_hooks.h"

#include <mutex>
#include <utility>

#include "runtime/base/status.h"

namespace mydev {

namespace {

struct Hooks {
  std::mutex mutex;
  detail::LaunchHooks list = std::make_shared<std::vector<detail::InstalledHook>>();
  int next_id = 1;
};

// Never destroyed: work is launched until the process is gone.
Hooks& hooks() {
  static Hooks& instance = *new Hooks;
  return instance;
}

}  // namespace

namespace detail {

std::atomic<bool> instrumented{false};

LaunchHooks installed_launch_hooks() {
  const std::lock_guard lock(hooks().mutex);
  return hooks().list;
}

}  // namespace detail

int add_launch_hook(LaunchHook hook, void* context) {
  Hooks& all = hooks();
  const std::lock_guard lock(all.mutex);
  auto list = std::make_shared<std::vector<detail::InstalledHook>>(*all.list);
  const int id = all.next_id++;
  list->push_back({id, hook, context});
  all.list = std::move(list);
  detail::instrumented.store(true, std::memory_order_release);
  return id;
}

void remove_launch_hook(int id) {
  Hooks& all = hooks();
  const std::lock_guard lock(all.mutex);
  auto list = std::make_shared<std::vector<detail::InstalledHook>>(*all.list);
  const size_t removed = std::erase_if(*list, [id](const detail::InstalledHook& hook) { return hook.id == id; });
  MYDEV_CHECK(removed == 1, MYDEV_INVALID_ARGUMENT, "no launch hook ", id);
  detail::instrumented.store(!list->empty(), std::memory_order_release);
  all.list = std::move(list);
}

}  // namespace mydev
