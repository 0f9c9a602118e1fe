#include "driver_support/errors.h"

namespace mydev::driver_support {

namespace {

// This thread's last failure. The runtime calls drivers at exit, when the main thread's message is gone already.
constinit thread_local bool thread_ended = false;
struct ErrorMessage {
  std::string text;
  ErrorMessage() = default;
  ~ErrorMessage() { thread_ended = true; }
  ErrorMessage(const ErrorMessage&) = delete;
  ErrorMessage& operator=(const ErrorMessage&) = delete;
};
thread_local ErrorMessage error_message;

}  // namespace

mydev_code fail(mydev_code code, const char* message) {
  if (!thread_ended) {
    error_message.text = message;
  }
  return code;
}

const char* last_error() {
  return thread_ended ? "" : error_message.text.c_str();
}

}  // namespace mydev::driver_support
