// Names the Python line that is responsible for a launch: the innermost frame outside torch and this package.
//
// Called for asynchronous commands, fallbacks and traces, with or without the GIL held, from any thread. A thread that
// Python does not know, and a finalizing interpreter, give "". A line that was asked for before is found without the
// GIL (frame_walk.h).
#include "runtime/base/source_location.h"

#include <array>
#include <atomic>
#include <unordered_set>

#include "python/bindings.h"
#include "python/frame_walk.h"
#include "python/interpreter.h"

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

// The interned string of a text; it exists as long as the process. Needs the GIL.
const char* interned(std::string text) {
  static auto& texts = *new std::unordered_set<std::string>;
  return texts.insert(std::move(text)).first->c_str();
}

// "train.py:12 in step"; nullptr for a frame that is not the user's. Needs the GIL.
const char* describe_line(PyCodeObject* code, int offset) {
  const std::string_view file = text_of(code->co_filename);
  if (is_internal(file)) return nullptr;
  std::string location(file);
  location.append(":").append(std::to_string(PyCode_Addr2Line(code, offset)));
  return interned(location.append(" in ").append(text_of(code->co_name)));
}

// The known lines of instructions, by address. Entries stay for good, since their code objects are never freed. Read
// without a lock, written with the GIL.
class KnownLines {
 public:
  // False if nothing is known.
  bool find(const void* instruction, const char*& line) const noexcept {
    for (size_t probe = 0, at = slot_of(instruction); probe < kProbes; ++probe, at = (at + 1) % kSlots) {
      const void* key = slots_[at].instruction.load(std::memory_order_acquire);
      if (key == nullptr) return false;
      if (key != instruction) continue;
      line = slots_[at].line;
      return true;
    }
    return false;
  }
  // Does nothing if all slots that the line may have are taken.
  void add(const FramePosition& position, const char* line) {
    for (size_t probe = 0, at = slot_of(position.instruction); probe < kProbes; ++probe, at = (at + 1) % kSlots) {
      const void* key = slots_[at].instruction.load(std::memory_order_relaxed);
      if (key == position.instruction) return;
      if (key != nullptr) continue;
      Py_INCREF(position.code);
      slots_[at].line = line;
      slots_[at].instruction.store(position.instruction, std::memory_order_release);
      return;
    }
  }

 private:
  static constexpr size_t kSlots = 1 << 14, kProbes = 8;
  static size_t slot_of(const void* instruction) noexcept {
    return (reinterpret_cast<uintptr_t>(instruction) * 0x9E3779B97F4A7C15U) >> 50U;
  }
  struct Slot {
    std::atomic<const void*> instruction{nullptr};
    const char* line = nullptr;
  };
  std::array<Slot, kSlots> slots_;
};

KnownLines& known_lines() {
  static KnownLines& lines = *new KnownLines;
  return lines;
}

// The line of a frame; nullptr if it is not the user's.
const char* line_of(const FramePosition& position) {
  const char* line = nullptr;
  if (known_lines().find(position.instruction, line)) return line;
  const PyGILState_STATE state = PyGILState_Ensure();
  line = describe_line(position.code, position.offset);
  known_lines().add(position, line);
  PyGILState_Release(state);
  return line;
}

// For versions of Python whose frames cannot be walked.
const char* locate_with_interpreter() {
  const PyGILState_STATE state = PyGILState_Ensure();
  const char* line = nullptr;
  {
    auto frame = pybind11::reinterpret_steal<pybind11::object>(
        reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
    while (frame && line == nullptr) {
      auto* const raw = reinterpret_cast<PyFrameObject*>(frame.ptr());
      auto code = pybind11::reinterpret_steal<pybind11::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(raw)));
      line = describe_line(reinterpret_cast<PyCodeObject*>(code.ptr()), PyFrame_GetLasti(raw));
      frame = pybind11::reinterpret_steal<pybind11::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(raw)));
    }
  }
  PyGILState_Release(state);
  return line != nullptr ? line : "";
}

const char* locate_source() {
  if (Py_IsInitialized() == 0 || interpreter_is_finalizing()) return "";
  PyThreadState* thread = PyGILState_GetThisThreadState();
  if (thread == nullptr) return "";
  if (!can_walk_frames()) return locate_with_interpreter();
  for (FramePosition frame = innermost_frame(thread); frame.code != nullptr; frame = calling_frame(frame)) {
    if (const char* line = line_of(frame)) return line;
  }
  return "";
}

}  // namespace

void bind_source_location(pybind11::module_& m) {
  set_source_locator(locate_source);
  m.def("set_internal_directories",
        [](std::vector<std::string> directories) { internal_directories() = std::move(directories); });
  m.def("source_location", [] { return source_location(); });
}

}  // namespace mydev
