// The options of a client that compiles: CompileOptionsProto, as far as it matters here. The rest of it is about XLA's
// own compilers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mydev::pjrt {

struct CompileOptions {
  int64_t num_replicas = 1;
  int64_t num_partitions = 1;
  // Device ids, [replica][partition]; empty: devices in order, from device_ordinal on.
  std::vector<std::vector<int64_t>> device_assignment;
  int64_t device_ordinal = -1;  // -1: the first
  bool portable = false;        // runs on whatever device it is executed on
  bool parameter_is_tupled = false;
  bool use_spmd_partitioning = false;
  bool use_shardy_partitioner = false;
  std::vector<std::string> overridden;  // the names of options
};

// Raises INVALID_ARGUMENT, "<entry>: failed to deserialize CompileOptionsProto: ...", for other bytes, and for counts
// that contradict the device assignment. A client may override options, as jax.jit does with compiler_options: XLA's
// own have no effect, others raise INVALID_ARGUMENT.
CompileOptions parse_compile_options(std::string_view serialized, const char* entry);

// A DeviceAssignmentProto.
std::string serialize_device_assignment(const std::vector<std::vector<int64_t>>& assignment);

}  // namespace mydev::pjrt
