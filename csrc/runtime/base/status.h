// Errors of the torch-free layers.
//
// A failure is a code (one of the 16 canonical ones) and a message that names the operation, the value and the remedy.
// C++ code throws it as mydev::Error; nothing is thrown across the C boundary of driver.h and custom_call.h. A layer
// above may install a raiser, which turns an Error into its own exception type (csrc/aten does, so that Python sees
// ValueError, torch.OutOfMemoryError, ...). Thread-safe.
#pragma once

#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "mydev/custom_call.h"
#include "runtime/base/api.h"

namespace mydev {

class MYDEV_API Error : public std::runtime_error {
 public:
  Error(mydev_code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  mydev_code code() const noexcept { return code_; }

 private:
  mydev_code code_;
};

// "INVALID_ARGUMENT", ... ; "UNKNOWN" for a number that is no code.
MYDEV_API const char* code_name(mydev_code code) noexcept;

// The owner of an error. The same code of a user's kernel, or of a driver, may be another exception to the layer above.
enum class ErrorOwner : uint8_t { kRuntime, kCustomCall, kDriver };

// Throws, through the raiser if one is installed. Never returns. Bytes of the message that are not UTF-8 are
// replaced. A number that is no code becomes MYDEV_UNKNOWN.
[[noreturn]] MYDEV_API void raise(mydev_code code, const std::string& message, ErrorOwner owner = ErrorOwner::kRuntime);

// The raiser must throw. Set once, before any other thread runs.
using Raiser = void (*)(mydev_code code, const std::string& message, ErrorOwner owner);
MYDEV_API void set_raiser(Raiser raiser) noexcept;

// While one lives, this thread raises Errors, whatever raiser is installed. It is for code that turns an Error into a
// code and a message.
class MYDEV_API RaiserBypass {
 public:
  RaiserBypass() noexcept;
  ~RaiserBypass();
  RaiserBypass(const RaiserBypass&) = delete;
  RaiserBypass& operator=(const RaiserBypass&) = delete;

 private:
  bool outer_;
};

namespace detail {
template <typename... Args>
[[noreturn]] [[gnu::cold]] [[gnu::noinline]] void raise_formatted(mydev_code code, const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  raise(code, out.str());
}
}  // namespace detail

}  // namespace mydev

// User-facing check: MYDEV_CHECK(index < count, MYDEV_INVALID_ARGUMENT, "no device ", index, "; there are ", count).
#define MYDEV_CHECK(condition, code, ...)                  \
  do {                                                     \
    if (__builtin_expect(!(condition), 0)) {               \
      ::mydev::detail::raise_formatted(code, __VA_ARGS__); \
    }                                                      \
  } while (false)

// Invariant of our own code; a failure is a bug in this project.
#define MYDEV_ASSERT(condition)                                                                                       \
  MYDEV_CHECK(condition, MYDEV_INTERNAL, "internal error: '" #condition "' does not hold at " __FILE__ ":", __LINE__, \
              "; please report it")
