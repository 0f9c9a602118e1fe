// Findings of the layer. A finding is an error of the call that showed it, else a line in the log; it is counted either
// way. Thread-safe.
#pragma once

#include <new>
#include <sstream>
#include <stdexcept>
#include <string>

#include "mydev/custom_call.h"
#include "runtime/base/api.h"
#include "runtime/validation/validation.h"

namespace mydev::validation {

// Thrown by checks, and caught before the C boundary.
class MYDEV_API Finding : public std::runtime_error {
 public:
  Finding(mydev_code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  mydev_code code() const noexcept { return code_; }

 private:
  mydev_code code_;
};

template <typename... Args>
std::string text(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

template <typename... Args>
void require(bool condition, mydev_code code, const Args&... what) {
  if (!condition) throw Finding(code, text(what...));
}

// Logs a finding when no call is at hand that could fail.
void report(const std::string& message) noexcept;
// Counts a finding whose message goes another way.
void count_finding() noexcept;
// Makes "validate: ..." the calling thread's last error; returns the code.
mydev_code fail(mydev_code code, const char* entry, const char* message) noexcept;
// The thread's last error if this layer gave it; else nullptr.
const char* own_error() noexcept;
void forget_own_error() noexcept;

// Returns `code`. A code that the header does not have is a finding.
mydev_code known_code(const char* entry, mydev_code code) noexcept;

// Runs a wrapper's body; a finding in it fails the call.
template <typename Body>
mydev_code checked(const char* entry, const Body& body) noexcept {
  forget_own_error();
  try {
    return known_code(entry, body());
  } catch (const Finding& finding) {
    count_finding();
    return fail(finding.code(), entry, finding.what());
  } catch (const std::bad_alloc&) {
    return fail(MYDEV_RESOURCE_EXHAUSTED, entry, "out of host memory");
  } catch (const std::exception& error) {
    return fail(MYDEV_INTERNAL, entry, error.what());
  }
}

}  // namespace mydev::validation
