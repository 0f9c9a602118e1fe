// Names the Python line that is responsible for a launch: the innermost frame outside torch and this package.
//
// Called for asynchronous launches, fallbacks and traces, with or without the GIL held, from any thread. A thread that
// Python does not know, and a finalizing interpreter, give "".
#include "runtime/launch/source_location.h"
#include "python/bindings.h"
#include "python/interpreter.h"
#include "runtime/launch/launch.h"

namespace mydev {

namespace {

// Directories whose frames are passed over; set once, at import, before any launch.
std::vector<std::string>& internal_directories() {
  static auto& directories = *new std::vector<std::string>;
  return directories;
}

bool is_internal(std::string_view file) {
  if (file.starts_with("<frozen ")) {
    return true;
  }
  const auto& directories = internal_directories();
  return std::any_of(directories.begin(), directories.end(),
                     [&](const std::string& directory) { return file.starts_with(directory); });
}

std::string_view text_of(PyObject* unicode) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(unicode, &size);
  if (data == nullptr) {
    PyErr_Clear();
    return "?";
  }
  return {data, static_cast<size_t>(size)};
}

// "train.py:12 in step", or "". Needs the GIL.
std::string locate_frame() {
  auto frame = pybind11::reinterpret_steal<pybind11::object>(
      reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
  while (frame) {
    auto* const raw = reinterpret_cast<PyFrameObject*>(frame.ptr());
    auto code = pybind11::reinterpret_steal<pybind11::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(raw)));
    auto* const raw_code = reinterpret_cast<PyCodeObject*>(code.ptr());
    const std::string_view file = text_of(raw_code->co_filename);
    if (!is_internal(file)) {
      std::string location(file);
      location.append(":").append(std::to_string(PyFrame_GetLineNumber(raw)));
      return location.append(" in ").append(text_of(raw_code->co_name));
    }
    frame = pybind11::reinterpret_steal<pybind11::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(raw)));
  }
  return "";
}

std::string locate_source() {
  if (Py_IsInitialized() == 0 || interpreter_is_finalizing() || PyGILState_GetThisThreadState() == nullptr) {
    return "";
  }
  const PyGILState_STATE state = PyGILState_Ensure();
  std::string location = locate_frame();
  PyGILState_Release(state);
  return location;
}

}  // namespace

void bind_source_location(pybind11::module_& m) {
  set_source_locator(locate_source);
  m.def("set_internal_directories",
        [](std::vector<std::string> directories) { internal_directories() = std::move(directories); });
  m.def("source_location", [] { return source_location(); });
}

}  // namespace mydev
