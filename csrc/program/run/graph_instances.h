// A program as graphs of its driver (mydev/driver_extensions.h, `graph`): the commands of a run, recorded once for the
// memory that it runs on, then launched as one.
//
// A graph is recorded at the second run in a row on the same memory, since a single run is not worth it. It is recorded
// on a stream of its own (recording_stream.h). The graphs of up to kMost sets of memory are kept; the one that was
// launched longest ago goes. A driver that refuses to record is not asked again: the steps are then submitted, with the
// same meaning. They are also submitted while somebody watches single commands (command_hooks.h), while the stream
// captures, and on asynchronous streams of drivers that have no stream_status to report failures with. One thread at a
// time; the caller orders the runs.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "mydev/driver_extensions.h"
#include "program/ir/program.h"
#include "runtime/base/api.h"
#include "runtime/stream/stream.h"

namespace mydev::program {

class MYDEV_API GraphInstances {
 public:
  static constexpr size_t kMost = 4;

  // For a program whose commands are repeatable (command.h). Returns nullptr if the device's driver records nothing, or
  // the program has no steps.
  static std::unique_ptr<GraphInstances> make(const Program& program, const Device& device);
  ~GraphInstances();
  GraphInstances(const GraphInstances&) = delete;
  GraphInstances& operator=(const GraphInstances&) = delete;

  // Launches the graph for that memory. Returns false if the steps are to be submitted instead. `submit` submits them
  // to a stream, and is called to record them. Raises the error of the launch. Later failures are reported with the
  // program's name.
  bool run(Stream& stream, const std::vector<void*>& memory, const std::function<void(Stream&)>& submit);

 private:
  struct Instance {
    std::vector<void*> memory;
    mydev_graph_exec exec;
  };

  GraphInstances(const Program& program, const mydev_graph_extension& graphs);
  mydev_graph_exec record(int device, const std::function<void(Stream&)>& submit);
  void keep(const std::vector<void*>& memory, mydev_graph_exec exec);

  const Program& program_;
  const mydev_graph_extension& graphs_;
  const char* name_;  // as the stream remembers it
  bool refused_ = false;
  std::vector<void*> last_memory_;
  std::vector<Instance> instances_;  // the one launched last comes last
};

}  // namespace mydev::program
