// Reads StableHLO's portable artifacts: VHLO in MLIR bytecode, as JAX, PyTorch/XLA and other clients of PJRT send it.
//
// It reads bytecode of version 6 and VHLO of StableHLO 0.15 to 1.13, alone or mixed with operators of Shardy. A program
// may be anything. A malformed one raises INVALID_ARGUMENT with its offset. A newer or unsupported part raises
// UNIMPLEMENTED with its name. Neither takes more memory than in proportion to the program's size. A module that was
// read is well formed (values are defined before they are used, functions called what they are called); verify() checks
// that it makes sense.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/base/api.h"
#include "stablehlo/ir/module.h"

namespace mydev::stablehlo {

// The newest version of StableHLO that is read. Clients are asked for it.
struct Version {
  int major_version, minor_version, patch_version;
};
inline constexpr Version kNewestVersion{1, 13, 0};

// True if bytes begin as MLIR bytecode does.
MYDEV_API bool is_bytecode(std::span<const std::byte> bytes) noexcept;
// The module keeps a copy of the bytes.
MYDEV_API Module read_bytecode(std::span<const std::byte> bytes);

}  // namespace mydev::stablehlo
