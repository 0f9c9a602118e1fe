#include "runtime/command/command_hooks.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

namespace mydev {

namespace {

struct InstalledHook {
  int id;
  CommandHook hook;
};
// Replaced as a whole, so that commands call hooks without holding a lock.
using HookList = std::shared_ptr<const std::vector<InstalledHook>>;

struct Hooks {
  std::mutex mutex;
  HookList list = std::make_shared<std::vector<InstalledHook>>();
  int next_id = 1;
};

// Never destroyed: commands are submitted until the process is gone.
Hooks& hooks() {
  static Hooks& instance = *new Hooks;
  return instance;
}

HookList installed_hooks() {
  const std::lock_guard lock(hooks().mutex);
  return hooks().list;
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void tell_finished(const HookList& list, const CommandRecord& record) noexcept {
  for (const InstalledHook& installed : *list) {
    if (installed.hook.finished != nullptr) installed.hook.finished(installed.hook.context, record);
  }
}

}  // namespace

const char* command_kind_name(CommandKind kind) noexcept {
  static constexpr const char* kNames[] = {"launch", "copy", "fill", "host call"};
  return kNames[static_cast<size_t>(kind)];
}

int add_command_hook(const CommandHook& hook) {
  Hooks& all = hooks();
  const std::lock_guard lock(all.mutex);
  auto list = std::make_shared<std::vector<InstalledHook>>(*all.list);
  const int id = all.next_id++;
  list->push_back({id, hook});
  all.list = std::move(list);
  detail::instrumented.store(true, std::memory_order_release);
  return id;
}

void remove_command_hook(int id) {
  Hooks& all = hooks();
  const std::lock_guard lock(all.mutex);
  auto list = std::make_shared<std::vector<InstalledHook>>(*all.list);
  const size_t removed = std::erase_if(*list, [id](const InstalledHook& hook) { return hook.id == id; });
  MYDEV_CHECK(removed == 1, MYDEV_INVALID_ARGUMENT, "no command hook ", id);
  detail::instrumented.store(!list->empty(), std::memory_order_release);
  all.list = std::move(list);
}

namespace detail {

std::atomic<bool> instrumented{false};

ObservedCommand::ObservedCommand(const CommandRecord& record) : record_(record) {
  static std::atomic<uint64_t> last_id{0};
  record_.id = last_id.fetch_add(1, std::memory_order_relaxed) + 1;
  const HookList list = installed_hooks();
  for (const InstalledHook& installed : *list) {
    if (installed.hook.submitting != nullptr) installed.hook.submitting(installed.hook.context, record_);
  }
  record_.begin_ns = now_ns();
}

void ObservedCommand::submitted(Stream& stream, mydev_code code, bool ends_here) {
  record_.code = code;
  record_.end_ns = now_ns();
  const HookList list = installed_hooks();
  bool wanted = false;
  for (const InstalledHook& installed : *list) {
    if (installed.hook.submitted != nullptr) installed.hook.submitted(installed.hook.context, record_);
    wanted = wanted || installed.hook.finished != nullptr;
  }
  if (!wanted || code != MYDEV_OK) return;
  record_.frame = nullptr;
  if (ends_here || !stream.asynchronous() || stream.device().driver->stream_host_call == nullptr) {
    stream.note_reached(record_.end_ns);
    tell_finished(list, record_);
    return;
  }
  stream.call_when_reached([list, record = record_, &stream]() mutable {
    record.end_ns = now_ns();
    record.begin_ns = std::max(record.begin_ns, stream.note_reached(record.end_ns));
    tell_finished(list, record);
  });
}

}  // namespace detail
}  // namespace mydev
