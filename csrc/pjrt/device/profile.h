// What devices did while someone profiled: each command (runtime/command/command_hooks.h), by device and stream, with
// the times of the device. Given as a serialized XSpace, which is what XLA's tools and TensorBoard read.
//
// One at a time in the process. Thread-safe. What it keeps is bounded: beyond kMostRows it counts, and says so.
#pragma once

#include <cstddef>
#include <string>

namespace mydev::pjrt {

inline constexpr size_t kMostRows = size_t{1} << 20;

// Begins to keep rows, without those of before. Raises FAILED_PRECONDITION where someone profiles already.
void start_profile();
// Ends that. Work that has not ended by then has no row. Nothing where nobody profiles.
void stop_profile();
// The rows of the last profile: a plane for each device, a line in it for each stream.
std::string serialized_profile();

}  // namespace mydev::pjrt
