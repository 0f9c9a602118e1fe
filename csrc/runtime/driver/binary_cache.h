// Compiled code on disk, for the next process that needs it: ${XDG_CACHE_HOME:-~/.cache}/torch_mydev/binaries.
//
// An entry is found by its key, all that decides the code. The file has the key, too, and it is compared as a whole.
// Files are written under a name of their own and renamed: a reader finds a whole file or none, however many processes
// write. The code runs, so the directory is its user's alone; if it cannot be, nothing is kept. Nothing is ever
// removed, but a user may remove files at any time. Thread-safe.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/driver/device.h"

namespace mydev {

// The key of code that the device's driver makes of `parts`. It has the driver's version, when its library was written
// unless that is one of the package's, and the device's architecture.
std::string binary_key(const Device& device, std::initializer_list<std::string_view> parts);

std::optional<std::string> find_binary(std::string_view key);
// Returns what `load` makes of the binary that is kept; nullptr if there is none, or if the driver cannot load it: the
// binary is damaged, or of another compiler.
template <typename Load>
auto load_binary(std::string_view key, const Load& load) -> decltype(load(std::string())) {
  const std::optional<std::string> kept = find_binary(key);
  if (!kept) return nullptr;
  const RaiserBypass bypass;
  try {
    return load(*kept);
  } catch (const Error&) {  // the failure of compiling it anew is what users see
    return nullptr;
  }
}
// Does nothing if it fails.
void keep_binary(std::string_view key, std::span<const std::byte> bytes) noexcept;

}  // namespace mydev
