// The memories in which the arguments and results of a program lie, by PJRT's names: "device", "pinned_host",
// "unpinned_host".
//
// JAX names them in the attribute "mhlo.memory_kind" of arguments and results. A result without that attribute lies
// where the custom call "annotate_device_placement" that gives it says.
//
// All is computed in the device's memory. A value on the host is copied to the device when it is first used. Results
// that shall lie on the host are copied there as soon as they are computed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stablehlo/ir/module.h"

namespace mydev::lowering {

struct MemoryKinds {
  std::vector<std::string> arguments, results;  // of the function that is run; "": nothing is said
};
bool is_on_host(std::string_view kind) noexcept;

// The custom call by which a program places a value.
inline constexpr std::string_view kPlacement = "annotate_device_placement";

// Raises INVALID_ARGUMENT for an attribute that is not text.
MemoryKinds memory_kinds_of(const stablehlo::Module& module);

}  // namespace mydev::lowering
