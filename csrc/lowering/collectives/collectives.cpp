#include "lowering/collectives/collectives.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/base/hash.h"
#include "runtime/base/status.h"

namespace mydev::lowering {

namespace {
constexpr size_t kMostCancelled = 64;                  // that are remembered: runs follow each other
constexpr uint64_t kStartedAlone = uint64_t{1} << 63;  // in the numbers of such runs
}  // namespace

std::shared_ptr<Collectives> Collectives::shared(const std::string& key, const std::shared_ptr<Collectives>& ours) {
  static std::mutex& mutex = *new std::mutex();
  static auto& known = *new std::map<std::string, std::weak_ptr<Collectives>>();
  const std::lock_guard lock(mutex);
  std::erase_if(known, [](const auto& entry) { return entry.second.expired(); });
  const auto [entry, is_first] = known.try_emplace(key, ours);
  if (is_first) ours->program_ = fnv1a(key);
  return entry->second.lock();
}

uint64_t Collectives::next_run(int64_t device) {
  if (several_.processes != nullptr) {
    return kStartedAlone | several_.processes->next_run(program_, several_.devices[static_cast<size_t>(device)]);
  }
  const std::lock_guard lock(mutex_);
  return kStartedAlone | ++started_[static_cast<size_t>(device)];
}

void Collectives::begin(int64_t device, uint64_t run) {
  const std::lock_guard lock(mutex_);
  runs_[static_cast<size_t>(device)] = run;
}

void Collectives::cancel(uint64_t run, const std::string& why) {
  if (several_.processes != nullptr && (run & kStartedAlone) != 0) {
    several_.processes->cancel(program_, run & ~kStartedAlone, why);
  }
  const std::lock_guard lock(mutex_);
  if (cancelled_.emplace(run, why).second) cancelled_in_order_.push_back(run);
  if (cancelled_in_order_.size() > kMostCancelled) {
    cancelled_.erase(cancelled_in_order_.front());
    cancelled_in_order_.pop_front();
  }
  for (const auto& [key, rendezvous] : rendezvous_) {
    if (std::get<0>(key) == run) rendezvous->changed.notify_all();
  }
}

void Collectives::wait(std::unique_lock<std::mutex>& lock, Rendezvous& rendezvous, uint64_t run,
                       const std::function<bool()>& holds) {
  rendezvous.changed.wait(lock, [&] { return holds() || cancelled_.contains(run); });
  if (holds()) return;
  raise(MYDEV_ABORTED, "the other devices of this run were waited for in vain: " + cancelled_.at(run));
}

bool Collectives::is_here(int64_t device) const {
  return several_.processes == nullptr ||
         several_.processes->process_of(several_.devices[static_cast<size_t>(device)]) == several_.processes->index();
}

void Collectives::exchange(const RendezvousKey& point, uint64_t run, Rendezvous& rendezvous) const {
  transport::Processes& processes = *several_.processes;
  std::map<int, std::vector<size_t>> places;  // in the group, by process
  for (size_t i = 0; i < point.group.size(); ++i) {
    places[processes.process_of(several_.devices[static_cast<size_t>(point.group[i])])].push_back(i);
  }
  const auto first_device = [&](int process) {
    return several_.devices[static_cast<size_t>(point.group[places.at(process).front()])];
  };
  const int here = processes.index();
  std::vector<std::span<const std::byte>> brought;
  size_t bytes_each = 0;
  for (const size_t size : point.bytes) bytes_each += size;
  for (const size_t place : places.at(here)) {
    for (size_t k = 0; k < point.bytes.size(); ++k) brought.emplace_back(rendezvous.operands[place][k], point.bytes[k]);
  }
  transport::Subject subject{program_, run & ~kStartedAlone,   point.operation, first_device(here),
                             0,        std::string(point.name)};
  for (const auto& [process, there] : places) {
    if (process == here) continue;
    subject.to = first_device(process);
    processes.send(subject, brought);
  }
  subject.to = first_device(here);
  for (const auto& [process, there] : places) {
    if (process == here) continue;
    subject.from = first_device(process);
    transport::Message message = processes.receive(subject);
    MYDEV_CHECK(message.size == bytes_each * there.size(), MYDEV_FAILED_PRECONDITION, "process ", process, " brings ",
                message.size, " bytes to ", point.name, ", and ", bytes_each * there.size(),
                " are expected: all processes must run the same programs");
    const std::byte* data = message.data.get();
    for (const size_t place : there) {
      for (const size_t size : point.bytes) {
        rendezvous.operands[place].push_back(data);
        data += size;
      }
    }
    rendezvous.received.push_back(std::move(message));
  }
}

void Collectives::join(int64_t device, const RendezvousKey& point, Pointers operands,
                       const std::function<void(std::span<const Pointers>)>& combine) {
  const std::span<const int64_t> group = point.group;
  std::vector<int64_t> here;
  std::ranges::copy_if(group, std::back_inserter(here), [this](int64_t member) { return is_here(member); });
  std::unique_lock lock(mutex_);
  const uint64_t run = runs_[static_cast<size_t>(device)];
  const Key key{run, point.operation, group.front()};
  std::shared_ptr<Rendezvous>& entry = rendezvous_[key];
  if (entry == nullptr) entry = std::make_shared<Rendezvous>();
  const std::shared_ptr<Rendezvous> rendezvous = entry;
  rendezvous->operands.resize(group.size());
  rendezvous->operands[static_cast<size_t>(std::ranges::find(group, device) - group.begin())] = std::move(operands);
  if (++rendezvous->arrived == here.size()) {
    rendezvous->complete = here.size() == group.size();
    rendezvous->changed.notify_all();
  }
  wait(lock, *rendezvous, run, [&] { return rendezvous->arrived == here.size(); });
  if (here.size() < group.size() && device == here.front()) {
    lock.unlock();
    exchange(point, run, *rendezvous);
    lock.lock();
    rendezvous->complete = true;
    rendezvous->changed.notify_all();
  }
  wait(lock, *rendezvous, run, [&] { return rendezvous->complete; });
  lock.unlock();
  combine(rendezvous->operands);
  lock.lock();
  if (++rendezvous->done == here.size()) {
    rendezvous_.erase(key);
    rendezvous->changed.notify_all();
  }
  wait(lock, *rendezvous, run, [&] { return rendezvous->done == here.size(); });
}

}  // namespace mydev::lowering
