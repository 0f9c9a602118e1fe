// The devices that run one program, and their rendezvous in its collective operations.
//
// A run has a number, which each device gives when it is given the run (begin). Within a run, operations are numbered
// as they are lowered, alike on all devices. Runs may be started on each device by a call of its own: then they are
// matched in the order in which each device starts them. Devices of one process exchange data by LocalExchange, those
// of several processes by messages of the host (transport/processes.h). Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/exchange.h"
#include "runtime/base/api.h"
#include "transport/processes.h"

namespace mydev::collectives {
class Communicator;
class DriverLinks;
class LocalExchange;
}  // namespace mydev::collectives

namespace mydev::lowering {

// The devices of a program that runs in several processes.
struct SeveralProcesses {
  std::shared_ptr<transport::Processes> processes;
  std::vector<int64_t> devices;  // over all processes, in the program's order
};

class MYDEV_API Collectives final : public collectives::Exchange {
 public:
  // `several.processes`: nullptr if all devices are of this process.
  explicit Collectives(int64_t devices, SeveralProcesses several = {});
  ~Collectives() override;

  // Returns the one object that programs with the same `key` share: `ours`, which has had no run, unless there is one.
  // The key names the devices, and the operations that are a rendezvous, alike in all processes. Programs may differ
  // otherwise, for example if a device's number is a constant in them.
  static std::shared_ptr<Collectives> shared(const std::string& key, const std::shared_ptr<Collectives>& ours);

  // The number of the next run of a device that is started by itself, or with the devices of its process. The client's
  // runs have other numbers.
  uint64_t next_run(int64_t device);
  // The work that the stream is given from now on is that of the device in that run.
  void begin(int64_t device, const Stream& stream, uint64_t run);
  // Cancels that run, since some device will not come to its end: devices that wait in it, now or later, raise ABORTED.
  void cancel(uint64_t run, const std::string& why);

  // The device of the program whose work the stream is given, and its run.
  struct DeviceRun {
    int64_t device = 0;
    uint64_t run = 0;
  };
  DeviceRun run_of(const Stream& stream);

  // Calls `work` with the group, of devices of the program, that has the device of the stream's run.
  void in_group(Stream& stream, int64_t operation, std::string_view name, std::span<const std::vector<int>> groups,
                const std::function<void(const collectives::Communicator&)>& work);
  // Members are devices of the program. Raises what LocalExchange and Processes::receive do; what concerns other
  // processes may stick to the stream.
  void exchange(Stream& stream, const collectives::ExchangeKey& key, int self,
                std::span<const collectives::Transfer> sends, std::span<const collectives::Transfer> receives) override;

 private:
  bool is_here(int64_t device) const;
  void exchange_with_processes(Stream& stream, const collectives::ExchangeKey& key, int self,
                               std::span<const collectives::Transfer> sends,
                               std::span<const collectives::Transfer> receives) const;

  const SeveralProcesses several_;
  uint64_t program_ = 0;  // its number among the processes
  const std::unique_ptr<collectives::LocalExchange> local_;
  const std::unique_ptr<collectives::DriverLinks> links_;
  std::mutex mutex_;  // guards what follows
  std::map<const Stream*, DeviceRun> runs_;
  std::vector<uint64_t> started_;  // by device: how many of its runs were started by themselves
};

}  // namespace mydev::lowering
