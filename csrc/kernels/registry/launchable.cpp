#include "kernels/registry/launchable.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "kernels/spec/contract.h"
#include "kernels/spec/dense.h"
#include "kernels/spec/struct_copy.h"
#include "runtime/base/device_name.h"
#include "runtime/base/status.h"
#include "runtime/frame/dtype.h"
#include "runtime/frame/frame.h"

namespace mydev {

namespace {

constexpr mydev_limits kNoLimits = {sizeof(mydev_limits), 0, -1, 0};

bool is_for_host(const mydev_kernel& kernel) {
  return kernel.platform == nullptr || std::string_view(kernel.platform) == "Host";
}

bool computes_on_host(const mydev_kernel& kernel) {
  return kernel.runs == MYDEV_RUNS_HOST_COMPUTE || (kernel.runs == MYDEV_RUNS_BY_PLATFORM && is_for_host(kernel));
}

// True if the device can run a record of the registry at all.
bool can_run(const Device& device, const mydev_kernel& kernel, bool stages_builtins) {
  if (computes_on_host(kernel)) {
    return device.host_accessible() || stages_builtins || !is_builtin_name(kernel.name);
  }
  const std::string_view platform(is_for_host(kernel) ? "" : kernel.platform);
  return platform == MYDEV_DEVICE_NAME || platform == device.driver->name;
}

// Drivers that reach host memory run other platforms' records in the order of the stream, as they always have.
bool enqueues(const Device& device, const mydev_kernel& kernel) {
  return kernel.runs == MYDEV_RUNS_HOST_ENQUEUE ||
         (kernel.runs == MYDEV_RUNS_BY_PLATFORM && !is_for_host(kernel) && !device.host_accessible());
}

void check(const KernelCandidate& candidate, const mydev_kernel& record) {
  const auto require = [&](bool condition, const auto&... what) {
    MYDEV_CHECK(condition, MYDEV_INVALID_ARGUMENT, "kernel '", record.name, "' of ", candidate.owner, ": ", what...);
  };
  require(record.runs >= MYDEV_RUNS_BY_PLATFORM && record.runs <= MYDEV_RUNS_DRIVER, "unknown `runs` ", record.runs,
          "; see mydev_runs");
  require(!candidate.enqueues || record.entry != nullptr, "it runs by HOST_ENQUEUE and its entry is NULL");
  constexpr uint32_t kFlags = MYDEV_LIMIT_DENSE | MYDEV_LIMIT_NO_SCALARS;
  require((candidate.limits.flags & ~kFlags) == 0, "unknown limits ", candidate.limits.flags, "; see mydev_limit_flag");
  require(candidate.limits.rank_max >= -1, "its limits have rank_max ", candidate.limits.rank_max, "; give -1 for any");
}

// `full` is the record with all fields. Limits that leave nothing out are none.
mydev_limits limits_of(const mydev_kernel& full) {
  mydev_limits limits = full.limits == nullptr ? kNoLimits
                                               : copy_struct(full.limits, MYDEV_END_OF(mydev_limits, flags),
                                                             "the limits of a kernel record");
  if (const KernelContract* contract = builtin_contract(full.name)) {
    const uint64_t all = contract->all_dtypes();
    if (limits.dtypes == 0) limits.dtypes = contract->usual_dtypes();
    if ((all & ~limits.dtypes) == 0) limits.dtypes = 0;
  }
  return limits;
}

KernelCandidate candidate_of_driver(const Device& device, const char* name, const mydev_kernel& own) {
  const std::string owner = std::string("driver '") + device.driver->name + "'";
  const std::string what = "kernel record '" + std::string(name) + "' of " + owner;
  const mydev_kernel full = copy_struct(&own, MYDEV_END_OF(mydev_kernel, driver_data), what.c_str());
  MYDEV_CHECK(full.name != nullptr && std::string_view(full.name) == name, MYDEV_INVALID_ARGUMENT, what,
              " calls itself '", full.name != nullptr ? full.name : "(null)", "'");
  KernelCandidate candidate{&own,
                            owner,
                            limits_of(full),
                            full.scratch_bytes,
                            full.plan,
                            /*of_driver=*/true,
                            full.runs == MYDEV_RUNS_HOST_ENQUEUE,
                            /*may_decline=*/full.plan == nullptr,
                            /*staged=*/false};
  // A driver that was built for 1.0 knows no scalar operands.
  if (own.struct_size < MYDEV_END_OF(mydev_kernel, plan)) candidate.limits.flags |= MYDEV_LIMIT_NO_SCALARS;
  check(candidate, full);
  return candidate;
}

KernelCandidate candidate_of_registry(const Device& device, const mydev_kernel& kernel, const std::string& owner) {
  KernelCandidate candidate{&kernel,
                            owner,
                            limits_of(kernel),
                            kernel.scratch_bytes,
                            kernel.plan,
                            /*of_driver=*/kernel.runs == MYDEV_RUNS_DRIVER,
                            enqueues(device, kernel),
                            /*may_decline=*/false,
                            /*staged=*/computes_on_host(kernel) && !device.host_accessible()};
  check(candidate, kernel);
  return candidate;
}

bool is_plain(const KernelCandidate& candidate) {
  return candidate.plan == nullptr && !candidate.enqueues && !candidate.may_decline && !candidate.staged &&
         candidate.limits.dtypes == 0 && candidate.limits.rank_max < 0 && candidate.limits.flags == 0;
}

bool same_candidates(const std::vector<KernelCandidate>& a, const std::vector<KernelCandidate>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const KernelCandidate& x, const KernelCandidate& y) { return x.record == y.record; });
}

Launchable made_of(std::vector<KernelCandidate> candidates) {
  const mydev_kernel* first = candidates.front().record;
  const mydev_kernel* plain = candidates.size() == 1 && is_plain(candidates.front()) ? first : nullptr;
  uint64_t dtypes_of_driver = 0;
  for (const KernelCandidate& candidate : candidates) {
    if (!candidate.of_driver) continue;
    dtypes_of_driver |= candidate.limits.dtypes != 0 ? candidate.limits.dtypes : ~uint64_t{0};
  }
  return {.name = first->name,
          .plain = plain,
          .at_once = plain != nullptr && plain->scratch_bytes == nullptr ? plain : nullptr,
          .candidates = std::move(candidates),
          .dtypes_of_driver = dtypes_of_driver};
}

// "result 0", "operand 2".
std::string place(const mydev_frame& frame, uint32_t buffer) {
  return buffer < frame.num_outputs ? "result " + std::to_string(buffer)
                                    : "operand " + std::to_string(buffer - frame.num_outputs);
}

}  // namespace

const Launchable* find_launchable(const Device& device, const char* name, const mydev_kernel* own,
                                  const mydev_kernel* registered, const std::string& registered_owner,
                                  bool stages_builtins) {
  std::vector<KernelCandidate> candidates;
  if (own != nullptr) candidates.push_back(candidate_of_driver(device, name, *own));
  if (registered != nullptr && registered != own && can_run(device, *registered, stages_builtins)) {
    candidates.push_back(candidate_of_registry(device, *registered, registered_owner));
  }
  if (candidates.empty()) return nullptr;
  static auto& mutex = *new std::mutex;
  static auto& kept = *new std::multimap<std::pair<int, std::string>, const Launchable>;
  const std::lock_guard lock(mutex);
  const auto [begin, end] = kept.equal_range({device.index, name});
  for (auto at = begin; at != end; ++at) {
    if (same_candidates(at->second.candidates, candidates)) return &at->second;
  }
  return &kept.emplace(std::pair{device.index, std::string(name)}, made_of(std::move(candidates)))->second;
}

std::string declared_refusal(const KernelCandidate& candidate, const mydev_frame& frame) {
  const mydev_limits& limits = candidate.limits;
  if (limits.dtypes == 0 && limits.rank_max < 0 && limits.flags == 0) return {};
  for (uint32_t i = 0; i < frame.num_outputs + frame.num_inputs; ++i) {
    const mydev_buffer& buffer = frame.buffers[i];
    if (is_scalar(buffer)) {
      if ((limits.flags & MYDEV_LIMIT_NO_SCALARS) != 0) {
        return "takes no numbers, and " + place(frame, i) + " is one";
      }
    } else if (buffer.data == nullptr && buffer.rank == 0) {  // absent
      continue;
    } else if ((limits.flags & MYDEV_LIMIT_DENSE) != 0 && !is_dense(buffer)) {
      return "takes dense operands, and " + place(frame, i) + " is strided";
    } else if (limits.rank_max >= 0 && buffer.rank > limits.rank_max) {
      return "takes up to " + std::to_string(limits.rank_max) + " dimensions, and " + place(frame, i) + " has " +
             std::to_string(buffer.rank);
    }
    if (limits.dtypes != 0 && (limits.dtypes & MYDEV_DTYPE_BIT(buffer.dtype)) == 0) {
      return "takes " + dtype_list(limits.dtypes) + ", and " + place(frame, i) + " is " +
             std::string(dtype_name(static_cast<mydev_dtype>(buffer.dtype)));
    }
  }
  return {};
}

}  // namespace mydev
