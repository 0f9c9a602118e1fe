#include "collectives/driver_links.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/command/transfer.h"
#include "runtime/driver/driver_life_cycle.h"
#include "runtime/frame/frame.h"
#include "runtime/stream/stream.h"

namespace mydev::collectives {

namespace {

struct ReductionRow {
  std::string_view kernel;
  mydev_reduction reduction;
};
constexpr std::array kReductions = {
    ReductionRow{"mydev.add", MYDEV_REDUCTION_ADD},         ReductionRow{"mydev.mul", MYDEV_REDUCTION_MUL},
    ReductionRow{"mydev.maximum", MYDEV_REDUCTION_MAXIMUM}, ReductionRow{"mydev.minimum", MYDEV_REDUCTION_MINIMUM},
    ReductionRow{"mydev.bitwise_and", MYDEV_REDUCTION_AND}, ReductionRow{"mydev.bitwise_or", MYDEV_REDUCTION_OR},
    ReductionRow{"mydev.bitwise_xor", MYDEV_REDUCTION_XOR}};

}  // namespace

DriverGroup::~DriverGroup() {
  table_.destroy(handle_);
}

void DriverGroup::exchange(Stream& stream, const ExchangeKey& /*key*/, int /*self*/, std::span<const Transfer> sends,
                           std::span<const Transfer> receives) {
  if (sends.empty() && receives.empty()) return;
  check_driver(device_, table_.group_start(), "beginning a group of transfers between devices");
  const auto give_all = [&] {
    for (const Transfer& transfer : sends) {
      const bool taken = give_collective(stream, "send to a device", nullptr, transfer.data, transfer.bytes, [&] {
        return table_.send(handle_, stream.handle(), transfer.data, transfer.bytes, transfer.peer);
      });
      MYDEV_CHECK(taken, MYDEV_UNIMPLEMENTED,
                  "the driver does not send to other devices, as its extension 'collectives' promises");
    }
    for (const Transfer& transfer : receives) {
      const bool taken = give_collective(stream, "receive from a device", transfer.data, nullptr, transfer.bytes, [&] {
        return table_.receive(handle_, stream.handle(), transfer.data, transfer.bytes, transfer.peer);
      });
      MYDEV_CHECK(taken, MYDEV_UNIMPLEMENTED,
                  "the driver does not receive from other devices, as its extension 'collectives' promises");
    }
  };
  try {
    give_all();
  } catch (...) {
    table_.group_end();
    throw;
  }
  check_driver(device_, table_.group_end(), "a group of transfers between devices");
}

bool DriverGroup::all_reduce(Stream& stream, void* result, const void* operand, mydev_dtype dtype, int64_t count,
                             const char* kernel) const {
  const auto* row = std::ranges::find(kReductions, kernel, &ReductionRow::kernel);
  if (row == kReductions.end()) return false;
  const auto bytes = static_cast<uint64_t>(count * dtype_size(dtype));
  return give_collective(stream, "all_reduce", result, operand, bytes, [&] {
    return table_.all_reduce(handle_, stream.handle(), result, operand, static_cast<uint64_t>(count), dtype,
                             row->reduction);
  });
}

bool DriverGroup::reduce_scatter(Stream& stream, void* result, const void* operand, mydev_dtype dtype, int64_t count,
                                 const char* kernel) const {
  const auto* row = std::ranges::find(kReductions, kernel, &ReductionRow::kernel);
  if (row == kReductions.end()) return false;
  const auto bytes = static_cast<uint64_t>(count * dtype_size(dtype));
  return give_collective(stream, "reduce_scatter", result, operand, bytes, [&] {
    return table_.reduce_scatter(handle_, stream.handle(), result, operand, static_cast<uint64_t>(count), dtype,
                                 row->reduction);
  });
}

bool DriverGroup::all_gather(Stream& stream, void* result, const void* operand, uint64_t bytes) const {
  return give_collective(stream, "all_gather", result, operand, bytes,
                         [&] { return table_.all_gather(handle_, stream.handle(), result, operand, bytes); });
}

bool DriverGroup::all_to_all(Stream& stream, void* result, const void* operand, uint64_t bytes) const {
  if (table_.all_to_all == nullptr) return false;
  return give_collective(stream, "all_to_all", result, operand, bytes,
                         [&] { return table_.all_to_all(handle_, stream.handle(), result, operand, bytes); });
}

bool DriverGroup::broadcast(Stream& stream, void* result, const void* operand, uint64_t bytes, int root) const {
  return give_collective(stream, "broadcast", result, operand, bytes,
                         [&] { return table_.broadcast(handle_, stream.handle(), result, operand, bytes, root); });
}

bool DriverLinks::Group::pending() const {
  return std::ranges::any_of(entered, [this](uint64_t times) { return times != entered.front(); });
}

std::shared_ptr<DriverGroup> DriverLinks::enter(const Device& device, std::span<const int> members, int rank,
                                                uint64_t run) {
  const auto* table = extension_of<mydev_collectives_extension>(*device.driver, MYDEV_COLLECTIVES_EXTENSION);
  if (table == nullptr || members.size() == 1) return nullptr;
  const auto at = static_cast<size_t>(rank);
  std::unique_lock lock(mutex_);
  cancelled_.check(run);
  std::shared_ptr<Group>& known = groups_[{members.begin(), members.end()}];
  if (known == nullptr) {
    auto made = std::make_shared<Group>();
    made->joined.resize(members.size());
    made->entered.resize(members.size());
    check_driver(device, table->unique_id(&made->id), "making an id for a group of devices");
    known = std::move(made);
  }
  const std::shared_ptr<Group> group = known;
  ++group->entered[at];
  if (group->joined[at] != nullptr) return group->joined[at];
  // `create` waits for all members, and nobody could call it off: it is called when all are here.
  changed_.notify_all();
  changed_.wait(lock, [&] {
    return cancelled_.contains(run) || std::ranges::all_of(group->entered, [](uint64_t times) { return times != 0; });
  });
  cancelled_.check(run);
  lock.unlock();
  mydev_communicator handle = nullptr;
  check_driver(device, table->create(device.index, &group->id, static_cast<int32_t>(members.size()), rank, &handle),
               "joining a group of devices");
  auto joined = std::make_shared<DriverGroup>(device, *table, handle);
  lock.lock();
  group->joined[at] = joined;
  return joined;
}

void DriverLinks::cancel(uint64_t run, const std::string& why) {
  const std::lock_guard lock(mutex_);
  cancelled_.add(run, why);
  changed_.notify_all();
  std::erase_if(groups_, [](const auto& entry) {
    if (!entry.second->pending()) return false;
    for (const std::shared_ptr<DriverGroup>& member : entry.second->joined) {
      if (member != nullptr) member->abort();
    }
    return true;
  });
}

}  // namespace mydev::collectives
