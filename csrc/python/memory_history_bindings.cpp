// The history of memory, in the form of torch.cuda.memory._snapshot().
#include <pybind11/stl.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <string>
#include <vector>

#include "aten/memory/memory_history.h"
#include "python/bindings.h"
#include "runtime/driver/device.h"
#include "runtime/memory/allocator_settings.h"

namespace torch {
// Declared by torch/csrc/profiler/python/combined_traceback.h, which includes a header that the wheel does not have.
std::vector<pybind11::object> py_symbolize(std::vector<CapturedTraceback*>& to_symbolize);
}  // namespace torch

namespace mydev {
namespace {

// Turns the stacks of many events into lists of frames at once: most frames are common to many.
class Frames {
 public:
  void want(const MemoryContext& context) {
    if (auto* stack = dynamic_cast<torch::CapturedTraceback*>(context.get())) stacks_.push_back(stack);
  }
  void symbolize() { lists_ = torch::py_symbolize(stacks_); }
  // In the order in which they were wanted.
  pybind11::object next(const MemoryContext& context) {
    if (dynamic_cast<torch::CapturedTraceback*>(context.get()) == nullptr) return pybind11::list();
    return lists_[next_++];
  }

 private:
  std::vector<torch::CapturedTraceback*> stacks_;
  std::vector<pybind11::object> lists_;
  size_t next_ = 0;
};

pybind11::dict describe(const HistoryEvent& event, Frames& frames) {
  pybind11::dict entry;
  const std::string action = event.action;
  entry["action"] = action;
  entry[action == "oom" ? "device_free" : "addr"] = event.address;
  entry["size"] = event.size;
  entry["stream"] = event.stream;
  entry["time_us"] = event.time_us;
  entry["frames"] = frames.next(event.context);
  entry["user_metadata"] = event.metadata;
  return entry;
}

// The events of each device, and the frames of live allocations by device and address.
pybind11::tuple describe_history() {
  MemoryHistory history;
  {
    const pybind11::gil_scoped_release no_gil;
    history = memory_history();
  }
  history.events.resize(static_cast<size_t>(device_count()));
  Frames frames;
  for (const auto& events : history.events) {
    for (const HistoryEvent& event : events) frames.want(event.context);
  }
  for (const auto& [block, context] : history.contexts) frames.want(context);
  frames.symbolize();
  pybind11::list devices;
  for (const auto& events : history.events) {
    pybind11::list entries;
    for (const HistoryEvent& event : events) entries.append(describe(event, frames));
    devices.append(std::move(entries));
  }
  pybind11::dict live;
  for (const auto& [block, context] : history.contexts) {
    live[pybind11::make_tuple(block.first, block.second)] = frames.next(context);
  }
  return pybind11::make_tuple(devices, live);
}

void record(bool enabled, bool events, int stacks, bool cpp_frames, size_t max_events, std::set<std::string> skipped,
            bool clear) {
  std::optional<HistorySettings> settings;
  if (enabled) {
    settings = HistorySettings{.events = events,
                               .stacks = static_cast<HistorySettings::Stacks>(stacks),
                               .cpp_frames = cpp_frames,
                               .max_events = max_events,
                               .skipped = std::move(skipped)};
  }
  record_memory_history(settings, clear);
}

// Exceptions of the observer are reported as unraisable: the allocation's own error is the one that is raised.
void attach(pybind11::function observer) {
  attach_out_of_memory_observer(
      [observer = observer.release().ptr()](int device, size_t asked, size_t total, size_t free) {
        const pybind11::gil_scoped_acquire gil;
        try {
          pybind11::reinterpret_borrow<pybind11::function>(observer)(device, asked, total, free);
        } catch (pybind11::error_already_set& error) {
          error.discard_as_unraisable("an observer of torch.mydev's memory");
        }
      });
}

void annotate(const at::Tensor& tensor, std::string annotation) {
  const c10::Storage& storage = tensor.storage();
  annotate_memory(tensor.get_device(), reinterpret_cast<uintptr_t>(storage.data()), storage.nbytes(),
                  std::move(annotation));
}

pybind11::dict settings_in_force() {
  const AllocatorSettings& settings = allocator_settings();
  pybind11::dict described;
  described["max_split_size"] = settings.max_split_size;
  described["garbage_collection_threshold"] = settings.garbage_collection_threshold;
  described["expandable_segments"] = false;
  return described;
}

}  // namespace

void bind_memory_history(pybind11::module_& m) {
  m.def("record_memory_history", wrap_pybind_function_no_gil(record));
  m.def("memory_history", wrap_pybind_function(describe_history));
  m.def("attach_out_of_memory_observer", wrap_pybind_function(attach));
  m.def("set_memory_metadata", wrap_pybind_function(set_memory_metadata));
  m.def("memory_metadata", wrap_pybind_function(memory_metadata));
  m.def("annotate_memory", wrap_pybind_function(annotate));
  m.def("allocator_settings", wrap_pybind_function(settings_in_force));
}

}  // namespace mydev
