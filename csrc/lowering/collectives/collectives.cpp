#include "lowering/collectives/collectives.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <utility>

#include "collectives/communicator.h"
#include "collectives/driver_links.h"
#include "collectives/local_exchange.h"
#include "kernels/launch/staged_launch.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/stream/stream.h"

namespace mydev::lowering {

using collectives::ExchangeKey;
using collectives::Transfer;

namespace {

constexpr uint64_t kStartedAlone = uint64_t{1} << 63;  // in the numbers of such runs

// Buffers of bytes, which say where transfers lie.
class TransferBuffers {
 public:
  void add(const Transfer& transfer) {
    sizes_.push_back(static_cast<int64_t>(transfer.bytes));
    data_.push_back(transfer.data);
  }
  // Borrows this object.
  std::vector<mydev_buffer> buffers() const {
    static constexpr int64_t kStride = 1;
    std::vector<mydev_buffer> buffers;
    buffers.reserve(data_.size());
    for (size_t i = 0; i < data_.size(); ++i) buffers.push_back({data_[i], &sizes_[i], &kStride, 1, MYDEV_U8, 0});
    return buffers;
  }

 private:
  std::vector<int64_t> sizes_;
  std::vector<void*> data_;
};

}  // namespace

Collectives::Collectives(int64_t devices, SeveralProcesses several)
    : several_(std::move(several)),
      local_(std::make_unique<collectives::LocalExchange>()),
      links_(std::make_unique<collectives::DriverLinks>()),
      started_(static_cast<size_t>(devices), 0) {}

Collectives::~Collectives() = default;

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

void Collectives::begin(int64_t device, const Stream& stream, uint64_t run) {
  const std::lock_guard lock(mutex_);
  runs_[&stream] = {device, run};
}

Collectives::DeviceRun Collectives::run_of(const Stream& stream) {
  const std::lock_guard lock(mutex_);
  const auto found = runs_.find(&stream);
  MYDEV_CHECK(found != runs_.end(), MYDEV_FAILED_PRECONDITION,
              "a collective operation runs on a stream that was given no run of several devices");
  return found->second;
}

void Collectives::cancel(uint64_t run, const std::string& why) {
  if (several_.processes != nullptr && (run & kStartedAlone) != 0) {
    several_.processes->cancel(program_, run & ~kStartedAlone, why);
  }
  local_->cancel(run, why);
  links_->cancel(run, why);
}

void Collectives::in_group(Stream& stream, int64_t operation, std::string_view name,
                           std::span<const std::vector<int>> groups,
                           const std::function<void(const collectives::Communicator&)>& work) {
  const auto [device, run] = run_of(stream);
  for (const std::vector<int>& group : groups) {
    const auto found = std::ranges::find(group, static_cast<int>(device));
    if (found == group.end()) continue;
    const auto rank = static_cast<int>(found - group.begin());
    const bool all_are_here = std::ranges::all_of(group, [this](int member) { return is_here(member); });
    const auto driver = all_are_here ? links_->enter(stream.device(), group, rank, run) : nullptr;
    return work({*this, group, rank, {run, operation, name}, driver.get()});
  }
  raise(MYDEV_INTERNAL, "device " + std::to_string(device) + " is in none of the groups");
}

bool Collectives::is_here(int64_t device) const {
  return several_.processes == nullptr ||
         several_.processes->process_of(several_.devices[static_cast<size_t>(device)]) == several_.processes->index();
}

void Collectives::exchange(Stream& stream, const ExchangeKey& key, int self, std::span<const Transfer> sends,
                           std::span<const Transfer> receives) {
  if (several_.processes == nullptr) return local_->exchange(stream, key, self, sends, receives);
  std::vector<Transfer> local_sends, local_receives, far_sends, far_receives;
  for (const Transfer& transfer : sends) (is_here(transfer.peer) ? local_sends : far_sends).push_back(transfer);
  for (const Transfer& transfer : receives)
    (is_here(transfer.peer) ? local_receives : far_receives).push_back(transfer);
  local_->exchange(stream, key, self, local_sends, local_receives);
  if (!far_sends.empty() || !far_receives.empty()) {
    exchange_with_processes(stream, key, self, far_sends, far_receives);
  }
}

// Sending does not wait for others, and comes first on all sides.
void Collectives::exchange_with_processes(Stream& stream, const ExchangeKey& key, int self,
                                          std::span<const Transfer> sends, std::span<const Transfer> receives) const {
  auto layout = std::make_shared<TransferBuffers>();
  std::vector<int64_t> from, to;  // devices over all processes
  for (const Transfer& transfer : receives) {
    layout->add(transfer);
    from.push_back(several_.devices[static_cast<size_t>(transfer.peer)]);
  }
  for (const Transfer& transfer : sends) {
    layout->add(transfer);
    to.push_back(several_.devices[static_cast<size_t>(transfer.peer)]);
  }
  const int64_t here = several_.devices[static_cast<size_t>(self)];
  const transport::Subject subject{program_, key.run & ~kStartedAlone, key.operation, here,
                                   here,     std::string(key.name)};
  auto move = [processes = several_.processes, subject, layout, from = std::move(from),
               to = std::move(to)](std::span<const mydev_buffer> buffers) {
    const std::span<const mydev_buffer> received = buffers.first(from.size()), sent = buffers.subspan(from.size());
    transport::Subject point = subject;
    for (size_t i = 0; i < to.size(); ++i) {
      point.to = to[i];
      const std::span<const std::byte> part(static_cast<const std::byte*>(sent[i].data),
                                            static_cast<size_t>(sent[i].sizes[0]));
      processes->send(point, {&part, 1});
    }
    point.to = subject.from;
    for (size_t i = 0; i < from.size(); ++i) {
      point.from = from[i];
      const transport::Message message = processes->receive(point);
      const auto expected = static_cast<size_t>(received[i].sizes[0]);
      MYDEV_CHECK(message.size == expected, MYDEV_FAILED_PRECONDITION, "process ", processes->process_of(from[i]),
                  " brings ", message.size, " bytes to ", point.name, ", and ", expected,
                  " are expected: all processes must run the same programs");
      if (expected != 0) std::memcpy(received[i].data, message.data.get(), expected);
    }
  };
  call_on_host("exchange with other processes", layout->buffers(), receives.size(), std::move(move), stream);
}

}  // namespace mydev::lowering
