// The body of XLA's XlaCustomCallStatus: an optional message, in libstdc++'s layout. Whoever provides the functions
// that set it, the process's XLA or our own library (status_library/), means the same bytes.
#pragma once

#include <optional>
#include <string>

namespace mydev {

struct LegacyStatus {
  std::optional<std::string> message;  // nullopt: success
};

}  // namespace mydev
