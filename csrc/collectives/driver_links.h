// Groups of devices that the driver connects itself: its extension `collectives`.
//
// DriverLinks are the groups of one set of devices of this process. A group is joined at the first rendezvous of its
// members. If a run is cancelled while some of a group's members wait in it, the group is aborted, and joined anew in
// the next run. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "collectives/cancelled_runs.h"
#include "collectives/exchange.h"
#include "mydev/driver_extensions.h"
#include "runtime/base/api.h"
#include "runtime/driver/device.h"

namespace mydev::collectives {

// One member of a group. Members of the exchange are the group's ranks. Operations of the driver's return false, with
// nothing done, if the driver leaves them to kernels and exchanges.
class MYDEV_API DriverGroup final : public Exchange {
 public:
  DriverGroup(const Device& device, const mydev_collectives_extension& table, mydev_communicator handle) noexcept
      : device_(device), table_(table), handle_(handle) {}
  ~DriverGroup() override;
  DriverGroup(const DriverGroup&) = delete;
  DriverGroup& operator=(const DriverGroup&) = delete;

  void exchange(Stream& stream, const ExchangeKey& key, int self, std::span<const Transfer> sends,
                std::span<const Transfer> receives) override;
  bool all_reduce(Stream& stream, void* result, const void* operand, mydev_dtype dtype, int64_t count,
                  const char* kernel) const;
  bool reduce_scatter(Stream& stream, void* result, const void* operand, mydev_dtype dtype, int64_t count,
                      const char* kernel) const;
  bool all_gather(Stream& stream, void* result, const void* operand, uint64_t bytes) const;
  bool all_to_all(Stream& stream, void* result, const void* operand, uint64_t bytes) const;
  bool broadcast(Stream& stream, void* result, const void* operand, uint64_t bytes, int root) const;
  void abort() noexcept { table_.abort(handle_); }

 private:
  const Device& device_;
  const mydev_collectives_extension& table_;
  mydev_communicator handle_;
};

class MYDEV_API DriverLinks {
 public:
  // Returns this rank's member of the group; nullptr if the driver connects no devices. Called before each operation.
  // The first call waits for those of all members. Raises ABORTED if the run is cancelled, and the driver's failure.
  std::shared_ptr<DriverGroup> enter(const Device& device, std::span<const int> members, int rank, uint64_t run);
  void cancel(uint64_t run, const std::string& why);

 private:
  struct Group {
    mydev_communicator_id id;
    std::vector<std::shared_ptr<DriverGroup>> joined;  // by rank
    std::vector<uint64_t> entered;                     // by rank: how often
    bool pending() const;                              // some have entered that others have not
  };

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<std::vector<int>, std::shared_ptr<Group>> groups_;
  CancelledRuns cancelled_;
};

}  // namespace mydev::collectives
