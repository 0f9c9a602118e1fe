// The rendezvous of the devices that run one program, in which their collective operations wait for each other.
//
// A run has a number, which each device gives when it reaches the run (begin). Within a run, operations are numbered as
// they are lowered, alike on all devices. Runs may be started on each device by a call of its own: then they are
// matched in the order in which each device starts them. Devices of one process exchange operands in its memory. Then
// the first of them that is in the group sends these to the other processes of the group, and receives theirs
// (transport/processes.h). All devices then combine the same operands in the same order, so that their results have the
// same bits. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "runtime/base/api.h"
#include "transport/processes.h"

namespace mydev::lowering {

// The devices of a program that runs in several processes.
struct SeveralProcesses {
  std::shared_ptr<transport::Processes> processes;
  std::vector<int64_t> devices;  // over all processes, in the program's order
};

// An operation that needs a rendezvous of devices.
struct RendezvousKey {
  int64_t operation;
  std::string_view name;           // for people
  std::span<const int64_t> group;  // of the program's devices
  std::span<const size_t> bytes;   // of each operand that a device brings
};

class MYDEV_API Collectives {
 public:
  // `several.processes`: nullptr if all devices are of this process.
  explicit Collectives(int64_t devices, SeveralProcesses several = {})
      : several_(std::move(several)),
        runs_(static_cast<size_t>(devices), 0),
        started_(static_cast<size_t>(devices), 0) {}

  // Returns the one object that programs with the same `key` share: `ours`, which has had no run, unless there is one.
  // The key names the devices, and the operations that need a rendezvous, alike in all processes. Programs may differ
  // otherwise, for example if a device's number is a constant in them.
  static std::shared_ptr<Collectives> shared(const std::string& key, const std::shared_ptr<Collectives>& ours);

  // The number of the next run of a device that is started by itself, or with the devices of its process. The client's
  // runs have other numbers.
  uint64_t next_run(int64_t device);
  // The device's work from now on belongs to that run.
  void begin(int64_t device, uint64_t run);
  // Cancels that run, since some device will not come to its end: devices that wait in it, now or later, raise ABORTED.
  void cancel(uint64_t run, const std::string& why);

  using Pointers = std::vector<const std::byte*>;
  // Waits until all devices of the group have reached this operation of this run, and calls `combine` with the operands
  // of each, in the order of the group. Then it waits until all devices of this process have done that: until then the
  // operands stay as they are. Raises ABORTED, and what Processes::receive does.
  void join(int64_t device, const RendezvousKey& point, Pointers operands,
            const std::function<void(std::span<const Pointers>)>& combine);

 private:
  struct Rendezvous {
    std::condition_variable changed;
    std::vector<Pointers> operands;  // of the group
    std::vector<transport::Message> received;
    bool complete = false;
    size_t arrived = 0, done = 0;  // of this process
  };
  using Key = std::tuple<uint64_t, int64_t, int64_t>;  // run, operation, the group's first device

  bool is_here(int64_t device) const;
  // Exchanges operands with the other processes of the group, for all devices of this one.
  void exchange(const RendezvousKey& point, uint64_t run, Rendezvous& rendezvous) const;
  // Raises if the run is cancelled.
  void wait(std::unique_lock<std::mutex>& lock, Rendezvous& rendezvous, uint64_t run,
            const std::function<bool()>& holds);

  const SeveralProcesses several_;
  uint64_t program_ = 0;  // its number among the processes
  std::mutex mutex_;
  std::vector<uint64_t> runs_;     // by device
  std::vector<uint64_t> started_;  // by device: how many of its runs were started by themselves
  std::map<Key, std::shared_ptr<Rendezvous>> rendezvous_;
  std::map<uint64_t, std::string> cancelled_;  // runs, and why
  std::deque<uint64_t> cancelled_in_order_;    // the oldest is forgotten first
};

}  // namespace mydev::lowering
