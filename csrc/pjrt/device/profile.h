// A profile of the devices' work: each command (runtime/command/command_hooks.h), by device and stream, with the times
// of the device. It is given as a serialized XSpace, which XLA's tools and TensorBoard read.
//
// There is one profile at a time in the process. Thread-safe. It keeps at most kMostRows rows; it counts further ones,
// and says so.
#pragma once

#include <cstddef>
#include <string>

namespace mydev::pjrt {

inline constexpr size_t kMostRows = size_t{1} << 20;

// Begins to keep rows, and drops earlier ones. Raises FAILED_PRECONDITION if someone profiles already.
void start_profile();
// Ends the profile. Work that has not ended by then has no row. Does nothing if nobody profiles.
void stop_profile();
// Returns the rows of the last profile: a plane for each device, a line in it for each stream.
std::string serialized_profile();

}  // namespace mydev::pjrt
