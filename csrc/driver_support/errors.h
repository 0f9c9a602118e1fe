// Errors inside the host driver: thrown as a code and a message, which its entries return and keep for last_error.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

#include "mydev/driver.h"

namespace mydev::host_driver {

class HostError : public std::runtime_error {
 public:
  HostError(mydev_code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  mydev_code code() const noexcept { return code_; }

 private:
  mydev_code code_;
};

template <typename... Args>
[[noreturn]] [[gnu::cold]] [[gnu::noinline]] void raise(mydev_code code, const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  throw HostError(code, out.str());
}

// Raises the message that the arguments make, unless the condition holds.
template <typename... Args>
void require(bool condition, mydev_code code, const Args&... args) {
  if (!condition) [[unlikely]] {
    raise(code, args...);
  }
}

}  // namespace mydev::host_driver
