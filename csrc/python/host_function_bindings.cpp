// Python functions that a stream calls: Stream.launch_host_func. They run with the GIL, on the driver's thread, so
// whoever waits for a stream gives it away (bindings do; runtime/base/blocking_call.h).
#include "runtime/command/host_function.h"

#include <memory>

#include "program/run/interned_string.h"
#include "python/bindings.h"
#include "python/interpreter.h"
#include "runtime/base/blocking_call.h"
#include "runtime/base/status.h"
#include "runtime/stream/stream_table.h"

namespace mydev {

namespace {

bool interpreter_is_gone() noexcept {
  return Py_IsInitialized() == 0 || interpreter_is_finalizing();
}

// Nothing of Python's is touched once the interpreter is gone: the call is then left out, and the function leaks.
class PythonFunction {
 public:
  explicit PythonFunction(pybind11::function function) : function_(std::move(function)) {}
  ~PythonFunction() {
    if (interpreter_is_gone()) {
      [[maybe_unused]] const pybind11::handle leaked = function_.release();
      return;
    }
    const pybind11::gil_scoped_acquire gil;
    function_ = pybind11::function();
  }
  PythonFunction(const PythonFunction&) = delete;
  PythonFunction& operator=(const PythonFunction&) = delete;

  void operator()() const {
    if (interpreter_is_gone()) return;
    const pybind11::gil_scoped_acquire gil;
    std::string message;
    try {
      function_();
      return;
    } catch (const pybind11::error_already_set& error) {
      message = pybind11::str(error.type().attr("__name__")).cast<std::string>() + ": " +
                pybind11::str(error.value()).cast<std::string>();
    }
    throw Error(MYDEV_UNKNOWN, message);
  }

 private:
  pybind11::function function_;
};

void without_gil(const std::function<void()>& function) {
  if (interpreter_is_gone() || PyGILState_Check() == 0) return function();
  const pybind11::gil_scoped_release no_gil;
  function();
}

}  // namespace

void bind_host_functions(pybind11::module_& m) {
  set_blocking_caller(without_gil);
  m.def("launch_host_function",
        wrap_pybind_function([](int device, int64_t stream_id, const std::string& name, pybind11::function function) {
          Stream& stream = stream_by_id(device, stream_id);
          auto kept = std::make_shared<const PythonFunction>(std::move(function));
          const pybind11::gil_scoped_release no_gil;
          launch_host_function(stream, program::interned_string(name), [kept = std::move(kept)] { (*kept)(); });
        }));
}

}  // namespace mydev
