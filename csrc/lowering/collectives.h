// Where the devices that run one program meet: what collective operations wait for each other with.
//
// A run has a number, which each device says when it comes to it (begin). Within it, operations are numbered as they
// are lowered, alike on all devices. Devices whose parts of a run are started one by one, each by a call of its own,
// meet in the order in which each starts them. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace mydev::lowering {

class Collectives {
 public:
  explicit Collectives(int64_t devices)
      : runs_(static_cast<size_t>(devices), 0), started_(static_cast<size_t>(devices), 0) {}

  // The one of all programs that the devices of `key` run in which they meet for the same, as `key` says too. Programs
  // may differ otherwise, as where a device's number is a constant in them.
  static std::shared_ptr<Collectives> shared(const std::string& key, int64_t devices);

  // The number of the next run of a device that is started by itself; no number that the client's runs have.
  uint64_t next_run(int64_t device);
  // What the device does from now on is of that run.
  void begin(int64_t device, uint64_t run);
  // Some device will not come to the end of that run: who waits in it, or comes to wait, raises ABORTED.
  void abandon(uint64_t run, const std::string& why);

  using Pointers = std::vector<const std::byte*>;
  // Waits until all of the group have come to this operation of this run, calls `combine` with the operands of each, in
  // the order of the group, and waits until all have done that: until then the operands stay as they are.
  void meet(int64_t device, int64_t operation, std::span<const int64_t> group, Pointers operands,
            const std::function<void(std::span<const Pointers>)>& combine);

 private:
  struct Meeting {
    std::condition_variable changed;
    std::vector<Pointers> operands;  // of the group
    size_t arrived = 0, done = 0;
  };
  using Key = std::tuple<uint64_t, int64_t, int64_t>;  // run, operation, the group's first device

  // Raises if the run is abandoned.
  void wait(std::unique_lock<std::mutex>& lock, Meeting& meeting, uint64_t run, const std::function<bool()>& holds);

  std::mutex mutex_;
  std::vector<uint64_t> runs_;     // by device
  std::vector<uint64_t> started_;  // by device: how many of its runs were started by themselves
  std::map<Key, std::shared_ptr<Meeting>> meetings_;
  std::map<uint64_t, std::string> abandoned_;  // runs, and why
};

}  // namespace mydev::lowering
