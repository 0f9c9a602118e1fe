// The state of the layer, and how a command is checked and given its place. There is one layer per process.
//
// Locks: `mutex` guards everything and is a leaf. No entry of the driver is called under it, nor source_location(),
// which may wait for Python's lock. A command has its place before the driver is given it, so that work which another
// thread gives meanwhile is compared with it. If the driver refuses the command, its place is given up.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mydev/driver_extensions.h"
#include "runtime/validation/completions.h"
#include "runtime/validation/objects.h"
#include "runtime/validation/order.h"

namespace mydev::validation {

struct State {
  mydev_driver_api driver{};            // the one behind
  mydev_compiler_extension compiler{};  // its extension, once it was asked for
  std::mutex mutex;                     // guards what follows
  Objects objects;
  Order order;
  Completions completions;
  // The services with our `complete`, by the services that they stand for. They are never removed, since drivers keep
  // them.
  std::map<const mydev_host_services*, std::unique_ptr<mydev_host_services>> services;
  std::map<mydev_module, int32_t> modules;                     // that are alive, and their devices
  std::map<const mydev_kernel*, mydev_module> module_kernels;  // records of theirs that were given out
  int64_t calls_waiting = 0;  // host calls, and calls of events, that have not been made
};

// Never destroyed: the driver is used until the process is gone.
State& state();

// The table that stands before the driver's, in which entries that the driver lacks are NULL too (checked_*.cpp).
void put_checks_before(const mydev_driver_api& driver, mydev_driver_api& table);
// Each puts its part of the checks into the table.
void put_memory_checks(mydev_driver_api& table);
void put_transfer_checks(mydev_driver_api& table);
void put_stream_checks(mydev_driver_api& table);
void put_launch_checks(mydev_driver_api& table);
void put_module_checks(mydev_driver_api& table);

// Checks a launch of a record, and gives it to the driver. `of_driver`: the driver runs the record as its own. Raises
// Findings. Called without the mutex.
mydev_code launch_checked(mydev_stream stream, const mydev_kernel& kernel, mydev_frame& frame, bool of_driver,
                          const std::function<mydev_code()>& give);

const mydev_host_services* services_for(State& self, const mydev_host_services* host);  // mutex held

// A use of memory by a command.
struct Use {
  int32_t space;
  bool writes;
  std::string role;  // "result 0"
  MemoryView view;
};

// A command on its way to the driver.
class Submission {
 public:
  // Checks that nothing else uses the memory at the same time. Raises a Finding that names both. mutex held.
  Submission(State& self, mydev_stream stream, std::string what, std::string source, std::vector<Use> uses);
  // Called after the driver has answered, without the mutex. `finished`: the work is known to be done.
  void finalize(mydev_code code, bool finished);

  const std::string& what() const noexcept { return command_->what; }
  std::string description() const;  // with the line

 private:
  void check(const Use& use, const Access& access, const StreamObject& stream) const;

  State& self_;
  mydev_stream stream_;
  std::shared_ptr<const Command> command_;
  std::vector<std::pair<int32_t, SharedAccess>> accesses_;
  VectorClock before_;  // all that is done when the command is
};

}  // namespace mydev::validation
