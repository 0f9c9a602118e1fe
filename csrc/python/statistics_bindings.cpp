// Python's view of the statistics of commands.
#include "runtime/command/statistics.h"

#include <pybind11/pybind11.h>

#include "kernels/registry/portable_launches.h"
#include "python/bindings.h"

namespace mydev {

void bind_statistics(pybind11::module_& m) {
  m.def("_begin_command_statistics", &begin_command_statistics);
  m.def("_end_command_statistics", &end_command_statistics);
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
