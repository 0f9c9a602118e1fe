#include "program/run/graph_instances.h"

#include <algorithm>
#include <string>

#include "program/run/interned_string.h"
#include "runtime/base/source_location.h"
#include "runtime/base/status.h"
#include "runtime/command/command_hooks.h"
#include "runtime/driver/driver_life_cycle.h"
#include "runtime/stream/recording_stream.h"

namespace mydev::program {

namespace {

// Returns nullptr if the driver has no graphs that a stream can be recorded into.
const mydev_graph_extension* graphs_of(const Device& device) {
  const auto* graphs = extension_of<mydev_graph_extension>(*device.driver, MYDEV_GRAPH_EXTENSION);
  return graphs != nullptr && graphs->capture_begin != nullptr ? graphs : nullptr;
}

}  // namespace

std::unique_ptr<GraphInstances> GraphInstances::make(const Program& program, const Device& device) {
  const mydev_graph_extension* graphs = graphs_of(device);
  if (graphs == nullptr || program.steps().empty()) return nullptr;
  return std::unique_ptr<GraphInstances>(new GraphInstances(program, *graphs));
}

GraphInstances::GraphInstances(const Program& program, const mydev_graph_extension& graphs)
    : program_(program),
      graphs_(graphs),
      name_(interned_string("the graph of program '" + program.name() + "' (" + std::to_string(program.steps().size()) +
                            (program.steps().size() == 1 ? " step)" : " steps)"))) {}

GraphInstances::~GraphInstances() {
  if (!driver_loaded()) return;
  for (const Instance& instance : instances_) graphs_.exec_destroy(instance.exec);
}

bool GraphInstances::run(Stream& stream, const std::vector<void*>& memory, const std::function<void(Stream&)>& submit) {
  const bool tells_failures = !stream.asynchronous() || stream.device().driver->stream_status != nullptr;
  if (refused_ || !tells_failures || stream.capture() != nullptr || mydev::detail::observing()) return false;
  const auto found = std::ranges::find(instances_, memory, &Instance::memory);
  if (found != instances_.end()) {
    std::rotate(found, found + 1, instances_.end());
  } else {
    if (last_memory_ != memory) {
      last_memory_ = memory;
      return false;
    }
    mydev_graph_exec exec = record(stream.device().index, submit);
    refused_ = exec == nullptr;
    if (refused_) return false;
    keep(memory, exec);
  }
  stream.check_open();
  if (stream.asynchronous()) stream.note_transfer({name_, nullptr, nullptr, 0, source_location()});
  const mydev_code code = graphs_.launch(instances_.back().exec, stream.handle());
  if (code != MYDEV_OK) [[unlikely]] {
    mydev::detail::raise_driver_error(stream.device(), code, name_);
  }
  return true;
}

// Returns nullptr if the driver refuses.
mydev_graph_exec GraphInstances::record(int device, const std::function<void(Stream&)>& submit) {
  const auto lock = lock_recording();
  Stream& stream = recording_stream(device);
  if (graphs_.capture_begin(stream.handle()) != MYDEV_OK) return nullptr;
  bool recorded = true;
  try {
    const RaiserBypass bypass;
    submit(stream);
  } catch (const Error&) {  // the driver's: what the steps mean has been asked before
    recorded = false;
  }
  mydev_graph graph = nullptr;
  if (graphs_.capture_end(stream.handle(), &graph) != MYDEV_OK || graph == nullptr) return nullptr;
  mydev_graph_exec exec = nullptr;
  if (recorded && graphs_.instantiate(graph, &exec) != MYDEV_OK) exec = nullptr;
  graphs_.destroy(graph);
  return exec;
}

void GraphInstances::keep(const std::vector<void*>& memory, mydev_graph_exec exec) {
  if (instances_.size() == kMost) {
    graphs_.exec_destroy(instances_.front().exec);
    instances_.erase(instances_.begin());
  }
  instances_.push_back({memory, exec});
}

}  // namespace mydev::program
