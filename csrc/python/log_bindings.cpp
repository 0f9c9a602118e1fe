// Messages of drivers and kernels become records of Python's logger "torch_mydev".
//
// Messages come from any thread, with or without the GIL, and the thread that holds the GIL may be waiting for the
// driver. So they are kept, and the main thread writes them when it next runs Python. Messages that are left at exit
// are written then; later ones go to stderr.
#include "runtime/base/log.h"

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "python/bindings.h"
#include "python/interpreter.h"

namespace mydev {

namespace {

struct Message {
  mydev_log_level level;
  std::string text;
};

struct KeptMessages {
  std::mutex mutex;  // held for moments only, never while Python or a driver is called
  std::vector<Message> messages;
  bool scheduled = false;  // the main thread will come
  bool closed = false;
};

// Never destroyed: drivers may log until the process is gone.
KeptMessages& kept() {
  static KeptMessages& instance = *new KeptMessages;
  return instance;
}

std::vector<Message> take_messages() {
  const std::lock_guard lock(kept().mutex);
  kept().scheduled = false;
  return std::exchange(kept().messages, {});
}

// Needs the GIL. A handler's exception is nobody's to catch.
int write_messages(void* /*unused*/) {
  const std::vector<Message> messages = take_messages();
  if (messages.empty()) return 0;
  try {
    const pybind11::object logger = pybind11::module_::import("logging").attr("getLogger")("torch_mydev");
    for (const Message& message : messages) {
      logger.attr("log")(static_cast<int>(message.level), "%s", message.text);
    }
  } catch (pybind11::error_already_set& error) {
    error.discard_as_unraisable("writing what a driver logged");
  }
  return 0;
}

bool keep_message(mydev_log_level level, const char* text) {
  if (Py_IsInitialized() == 0 || interpreter_is_finalizing()) return false;
  {
    const std::lock_guard lock(kept().mutex);
    if (kept().closed) return false;
    kept().messages.push_back({level, text});
    if (std::exchange(kept().scheduled, true)) return true;
  }
  if (Py_AddPendingCall(write_messages, nullptr) != 0) {  // too many are waiting: the next message tries again
    const std::lock_guard lock(kept().mutex);
    kept().scheduled = false;
  }
  return true;
}

}  // namespace

void bind_log(pybind11::module_& m) {
  set_log_sink(keep_message);
  m.def("close_log", [] {
    {
      const std::lock_guard lock(kept().mutex);
      kept().closed = true;
    }
    write_messages(nullptr);
  });
}

}  // namespace mydev
