// torch_mydev._C: opening and ending dispatch traces. torch_mydev/observe/trace.py is the user's side.
#include <memory>
#include <string>

#include "aten/trace/dispatch_trace.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace mydev {
namespace {

// Calls write(line) from any thread. Errors of the callable are reported as unraisable: an op must not fail because its
// trace cannot be written.
TraceWriter python_writer(const py::object& write) {
  if (write.is_none()) return stderr_trace_writer();
  const std::shared_ptr<PyObject> callable(py::object(write).release().ptr(), [](PyObject* object) {
    if (Py_IsInitialized() == 0)
      return;  // a trace below something else's thread-local state lives until the process ends
    const py::gil_scoped_acquire gil;
    Py_DECREF(object);
  });
  return [callable](const std::string& line) {
    const py::gil_scoped_acquire gil;
    try {
      py::handle(callable.get())(line);
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable(__func__);
    }
  };
}

}  // namespace

void bind_trace(py::module_& module) {
  py::class_<DispatchTrace, std::shared_ptr<DispatchTrace>>(module, "DispatchTrace", "An open dispatch trace.")
      .def(
          "join", [](const std::shared_ptr<DispatchTrace>& trace) { join_dispatch_trace(trace); },
          "Traces the calling thread too.")
      .def(
          "end", [](const std::shared_ptr<DispatchTrace>& trace) { end_dispatch_trace(trace); },
          "Ends the trace; call on the thread that began it.");
  module.def(
      "begin_dispatch_trace",
      [](const py::object& write, bool all_devices) { return begin_dispatch_trace(python_writer(write), all_devices); },
      py::arg("write"), py::arg("all_devices"),
      "Traces the calling thread: write(line) per line; None writes to the process's stderr.");
}

}  // namespace mydev
