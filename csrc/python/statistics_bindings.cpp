// Python's view of the statistics of commands, and of their time line.
#include "runtime/command/statistics.h"

#include <pybind11/pybind11.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/registry/portable_launches.h"
#include "python/bindings.h"
#include "runtime/command/timeline.h"

namespace mydev {

namespace {

// Numbers values in the order in which they come.
template <typename Value>
class Numbering {
 public:
  int64_t of(const Value& value) {
    const auto [found, is_new] = numbers_.emplace(value, static_cast<int64_t>(values_.size()));
    if (is_new) values_.push_back(value);
    return found->second;
  }
  const std::vector<Value>& values() const { return values_; }

 private:
  std::map<Value, int64_t> numbers_;
  std::vector<Value> values_;
};

// (streams, names, entries, omitted): entries are four int64 each, of begin, end, stream and name; the latter two are
// places in the lists, of (device, stream) and (kind, name).
pybind11::tuple describe_timeline() {
  const Timeline timeline = end_timeline();
  Numbering<std::pair<int, int64_t>> streams;
  Numbering<std::pair<CommandKind, std::string>> names;
  std::vector<int64_t> numbers;
  numbers.reserve(timeline.entries.size() * 4);
  for (const TimelineEntry& entry : timeline.entries) {
    const int64_t stream = streams.of({entry.device, entry.stream});
    numbers.insert(numbers.end(), {entry.begin_ns, entry.end_ns, stream, names.of({entry.kind, entry.name})});
  }
  pybind11::list stream_list, name_list;
  for (const auto& [device, stream] : streams.values()) stream_list.append(pybind11::make_tuple(device, stream));
  for (const auto& [kind, name] : names.values()) {
    name_list.append(pybind11::make_tuple(command_kind_name(kind), name));
  }
  const auto* bytes = reinterpret_cast<const char*>(numbers.data());
  return pybind11::make_tuple(stream_list, name_list, pybind11::bytes(bytes, numbers.size() * sizeof(int64_t)),
                              timeline.omitted);
}

}  // namespace

void bind_statistics(pybind11::module_& m) {
  m.def("_begin_command_statistics", &begin_command_statistics);
  m.def("_end_command_statistics", &end_command_statistics);
  m.def("_begin_timeline", &begin_timeline);
  m.def("_end_timeline", &describe_timeline);
  m.def("_command_rows", [] {
    pybind11::list rows;
    for (const CommandRow& row : command_rows()) {
      rows.append(pybind11::make_tuple(command_kind_name(row.kind), row.name, row.device, row.calls, row.bytes,
                                       row.nanoseconds));
    }
    return rows;
  });
  m.def("_portable_launches", [] {
    pybind11::dict counts;
    for (const PortableLaunches& row : all_portable_launches()) {
      counts[pybind11::make_tuple(row.name, row.device)] = row.count;
    }
    return counts;
  });
}

}  // namespace mydev
