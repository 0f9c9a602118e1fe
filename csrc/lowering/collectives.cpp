#include "lowering/collectives.h"

#include <algorithm>

#include "runtime/base/status.h"

namespace mydev::lowering {

namespace {
constexpr size_t kMostAbandoned = 64;                  // that are remembered: runs follow each other
constexpr uint64_t kStartedAlone = uint64_t{1} << 63;  // in the numbers of such runs
}  // namespace

std::shared_ptr<Collectives> Collectives::shared(const std::string& key, int64_t devices) {
  static std::mutex& mutex = *new std::mutex();
  static auto& known = *new std::map<std::string, std::weak_ptr<Collectives>>();
  const std::lock_guard lock(mutex);
  std::erase_if(known, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<Collectives> found = known[key].lock();
  if (found == nullptr) known[key] = found = std::make_shared<Collectives>(devices);
  return found;
}

uint64_t Collectives::next_run(int64_t device) {
  const std::lock_guard lock(mutex_);
  return kStartedAlone | ++started_[static_cast<size_t>(device)];
}

void Collectives::begin(int64_t device, uint64_t run) {
  const std::lock_guard lock(mutex_);
  runs_[static_cast<size_t>(device)] = run;
}

void Collectives::abandon(uint64_t run, const std::string& why) {
  const std::lock_guard lock(mutex_);
  abandoned_.emplace(run, why);
  if (abandoned_.size() > kMostAbandoned) abandoned_.erase(abandoned_.begin());
  for (const auto& [key, meeting] : meetings_) {
    if (std::get<0>(key) == run) meeting->changed.notify_all();
  }
}

void Collectives::wait(std::unique_lock<std::mutex>& lock, Meeting& meeting, uint64_t run,
                       const std::function<bool()>& holds) {
  meeting.changed.wait(lock, [&] { return holds() || abandoned_.contains(run); });
  if (holds()) return;
  raise(MYDEV_ABORTED, "the other devices of this run were waited for in vain: " + abandoned_.at(run));
}

void Collectives::meet(int64_t device, int64_t operation, std::span<const int64_t> group, Pointers operands,
                       const std::function<void(std::span<const Pointers>)>& combine) {
  std::unique_lock lock(mutex_);
  const uint64_t run = runs_[static_cast<size_t>(device)];
  const Key key{run, operation, group.front()};
  std::shared_ptr<Meeting>& entry = meetings_[key];
  if (entry == nullptr) entry = std::make_shared<Meeting>();
  const std::shared_ptr<Meeting> meeting = entry;
  meeting->operands.resize(group.size());
  meeting->operands[static_cast<size_t>(std::ranges::find(group, device) - group.begin())] = std::move(operands);
  if (++meeting->arrived == group.size()) meeting->changed.notify_all();
  wait(lock, *meeting, run, [&] { return meeting->arrived == group.size(); });
  lock.unlock();
  combine(meeting->operands);
  lock.lock();
  if (++meeting->done == group.size()) {
    meetings_.erase(key);
    meeting->changed.notify_all();
  }
  wait(lock, *meeting, run, [&] { return meeting->done == group.size(); });
}

}  // namespace mydev::lowering
