#include "pjrt/executable/compile_options.h"

#include <algorithm>
#include <array>
#include <utility>

#include "pjrt/base/error.h"
#include "pjrt/base/wire.h"

namespace mydev::pjrt {

namespace {

// Numbers of fields, as the messages declare them: DeviceAssignmentProto and what is in it,
// ExecutableBuildOptionsProto, CompileOptionsProto and what is in it.
constexpr uint32_t kReplicaCount = 1, kComputationCount = 2, kComputationDevices = 3, kReplicaDeviceIds = 1;
constexpr uint32_t kDeviceOrdinal = 1, kNumReplicas = 4, kNumPartitions = 5, kUseSpmdPartitioning = 6,
                   kDeviceAssignment = 9, kUseShardyPartitioner = 19;
constexpr uint32_t kParameterIsTupled = 2, kBuildOptions = 3, kPortable = 4, kOverrides = 7, kOverrideKey = 1;

std::vector<std::vector<int64_t>> read_device_assignment(WireReader message) {
  int64_t replicas = 0, computations = 0;
  std::vector<std::vector<int64_t>> by_computation;
  while (message.next()) {
    if (message.field() == kReplicaCount) replicas = message.number();
    if (message.field() == kComputationCount) computations = message.number();
    if (message.field() != kComputationDevices) continue;
    std::vector<int64_t>& ids = by_computation.emplace_back();
    WireReader devices = message.message();
    while (devices.next()) {
      if (devices.field() == kReplicaDeviceIds) devices.append_numbers(ids);
    }
  }
  const bool consistent = static_cast<int64_t>(by_computation.size()) == computations &&
                          std::ranges::all_of(by_computation, [replicas](const std::vector<int64_t>& ids) {
                            return static_cast<int64_t>(ids.size()) == replicas;
                          });
  MYDEV_CHECK(consistent, MYDEV_INVALID_ARGUMENT, "the device assignment does not have ", replicas, " replicas of ",
              computations, " partitions, as it says");
  std::vector<std::vector<int64_t>> by_replica(static_cast<size_t>(replicas));
  for (const std::vector<int64_t>& ids : by_computation) {
    for (size_t r = 0; r < ids.size(); ++r) by_replica[r].push_back(ids[r]);
  }
  return by_replica;
}

void read_build_options(WireReader message, CompileOptions& options) {
  while (message.next()) {
    if (message.field() == kDeviceOrdinal) options.device_ordinal = message.number();
    if (message.field() == kNumReplicas) options.num_replicas = std::max<int64_t>(message.number(), 1);
    if (message.field() == kNumPartitions) options.num_partitions = std::max<int64_t>(message.number(), 1);
    if (message.field() == kUseSpmdPartitioning) options.use_spmd_partitioning = message.boolean();
    if (message.field() == kDeviceAssignment) options.device_assignment = read_device_assignment(message.message());
    if (message.field() == kUseShardyPartitioner) options.use_shardy_partitioner = message.boolean();
  }
}

// True for XLA's options: fields of its DebugOptions, and the others that it takes.
bool is_option_of_xla(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 4> kOthers = {"exec_time_optimization_effort", "memory_fitting_effort",
                                                       "memory_fitting_level", "optimization_level"};
  return name.starts_with("xla_") || std::ranges::count(kOthers, name) != 0;
}

void read_override(WireReader message, CompileOptions& options) {
  while (message.next()) {
    if (message.field() == kOverrideKey) options.overridden.emplace_back(message.bytes());
  }
}

CompileOptions read_options(WireReader message) {
  CompileOptions options;
  while (message.next()) {
    if (message.field() == kParameterIsTupled) options.parameter_is_tupled = message.boolean();
    if (message.field() == kBuildOptions) read_build_options(message.message(), options);
    if (message.field() == kPortable) options.portable = message.boolean();
    if (message.field() == kOverrides) read_override(message.message(), options);
  }
  const auto& assignment = options.device_assignment;
  MYDEV_CHECK(assignment.empty() || (static_cast<int64_t>(assignment.size()) == options.num_replicas &&
                                     static_cast<int64_t>(assignment[0].size()) == options.num_partitions),
              MYDEV_INVALID_ARGUMENT, "the device assignment is not one of ", options.num_replicas, " replicas of ",
              options.num_partitions, " partitions");
  return options;
}

}  // namespace

CompileOptions parse_compile_options(std::string_view serialized, const char* entry) {
  CompileOptions options;
  const Failure problem = failure_of([&] { options = read_options(WireReader(serialized)); });
  MYDEV_CHECK(!problem.failed(), MYDEV_INVALID_ARGUMENT, entry,
              ": failed to deserialize CompileOptionsProto: ", problem.message);
  for (const std::string& name : options.overridden) {
    MYDEV_CHECK(is_option_of_xla(name), MYDEV_INVALID_ARGUMENT, "No such compile option: '", name, "'");
  }
  return options;
}

std::string serialize_device_assignment(const std::vector<std::vector<int64_t>>& assignment) {
  const size_t partitions = assignment.empty() ? 0 : assignment[0].size();
  WireWriter message;
  message.number(kReplicaCount, assignment.size());
  message.number(kComputationCount, partitions);
  for (size_t p = 0; p < partitions; ++p) {
    std::vector<int64_t> ids;
    ids.reserve(assignment.size());
    for (const std::vector<int64_t>& replica : assignment) ids.push_back(replica[p]);
    WireWriter devices;
    devices.packed(kReplicaDeviceIds, ids);
    message.bytes(kComputationDevices, std::move(devices).take());
  }
  return std::move(message).take();
}

}  // namespace mydev::pjrt
