#include "kernels/registry/launchable.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <span>
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
    return device.host_computes() || stages_builtins || !is_builtin_name(kernel.name);
  }
  const std::string_view platform(is_for_host(kernel) ? "" : kernel.platform);
  return platform == device_name() || platform == device.driver->name;
}

// Drivers that reach host memory run other platforms' records in the order of the stream, as they always have.
bool enqueues(const Device& device, const mydev_kernel& kernel) {
  return kernel.runs == MYDEV_RUNS_HOST_ENQUEUE ||
         (kernel.runs == MYDEV_RUNS_BY_PLATFORM && !is_for_host(kernel) && !device.host_accessible());
}

auto requirement(const KernelCandidate& candidate, const mydev_kernel& record) {
  return [&](bool condition, const auto&... what) {
    MYDEV_CHECK(condition, MYDEV_INVALID_ARGUMENT, "kernel '", record.name, "' of ", candidate.owner, ": ", what...);
  };
}

void check_limits(uint32_t flags, int32_t rank_max, const auto& require) {
  constexpr uint32_t kFlags = MYDEV_LIMIT_DENSE | MYDEV_LIMIT_NO_SCALARS;
  require((flags & ~kFlags) == 0, "unknown limits ", flags, "; see mydev_limit_flag");
  require(rank_max >= -1, "its limits have rank_max ", rank_max, "; give -1 for any");
}

void check(const KernelCandidate& candidate, const mydev_kernel& record) {
  const auto require = requirement(candidate, record);
  require(record.runs >= MYDEV_RUNS_BY_PLATFORM && record.runs <= MYDEV_RUNS_DRIVER, "unknown `runs` ", record.runs,
          "; see mydev_runs");
  require(!candidate.enqueues || record.entry != nullptr, "it runs by HOST_ENQUEUE and its entry is NULL");
  check_limits(candidate.limits.flags, candidate.limits.rank_max, require);
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

// A result or an operand that limits may name.
struct NamedOperand {
  std::string name;
  bool is_list;
  uint64_t dtypes;
};

std::vector<NamedOperand> named_operands(const mydev_kernel& full, size_t& results) {
  std::vector<NamedOperand> named;
  if (const KernelContract* contract = builtin_contract(full.name)) {
    results = contract->results.size();
    for (const auto* operands : {&contract->results, &contract->operands}) {
      for (const ContractOperand& operand : *operands) named.push_back({operand.name, operand.is_list, operand.dtypes});
    }
  } else if (full.signature != nullptr) {
    const mydev_signature& signature = *full.signature;
    results = signature.num_results;
    const auto add = [&](const mydev_operand& operand, uint64_t dtypes) {
      named.push_back({operand.name, (operand.flags & MYDEV_OPERAND_VARIADIC) != 0, dtypes});
    };
    for (const mydev_operand* result : std::span(signature.results, signature.num_results)) {
      add(*result, result->dtypes != 0 ? result->dtypes : signature.operands[result->like]->dtypes);
    }
    for (const mydev_operand* operand : std::span(signature.operands, signature.num_operands)) {
      add(*operand, operand->dtypes);
    }
  }
  return named;
}

// Adds the limits of single operands to the candidate's. Raises INVALID_ARGUMENT where they are not those of the
// kernel.
void add_operand_limits(KernelCandidate& candidate, const mydev_kernel& full) {
  const mydev_limits& limits = candidate.limits;
  if (limits.num_operands == 0) return;
  const auto require = requirement(candidate, full);
  require(limits.operands != nullptr, "its limits have ", limits.num_operands,
          " operands and the list of them is NULL");
  const std::vector<NamedOperand> named = named_operands(full, candidate.results);
  for (const NamedOperand& operand : named) {
    candidate.operand_limits.push_back({operand.name, operand.is_list, limits.dtypes, limits.rank_max, limits.flags});
  }
  for (const mydev_operand_limits* given : std::span(limits.operands, limits.num_operands)) {
    const mydev_operand_limits own =
        copy_struct(given, MYDEV_END_OF(mydev_operand_limits, flags), "the limits of an operand of a kernel record");
    const std::string name = own.name != nullptr ? own.name : "(null)";
    const auto found = std::ranges::find(named, name, &NamedOperand::name);
    require(found != named.end(), "its limits name the operand '", name, "', and ",
            named.empty() ? "it has neither a contract nor a signature" : "the kernel has none of that name");
    require((own.dtypes & ~found->dtypes) == 0, "it takes ", dtype_list(own.dtypes & ~found->dtypes), " as '", name,
            "', which may be ", dtype_list(found->dtypes), " only; leave the other dtypes out of its limits");
    check_limits(own.flags, own.rank_max, require);
    OperandLimits& merged = candidate.operand_limits[static_cast<size_t>(found - named.begin())];
    if (own.dtypes != 0) merged.dtypes = own.dtypes;
    if (own.rank_max >= 0) merged.rank_max = own.rank_max;
    merged.flags |= own.flags;
  }
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
                            /*operand_limits=*/{},
                            /*results=*/0,
                            full.scratch_bytes,
                            full.plan,
                            /*of_driver=*/true,
                            full.runs == MYDEV_RUNS_HOST_ENQUEUE,
                            /*may_decline=*/full.plan == nullptr,
                            /*staged=*/false,
                            /*portable=*/false};
  // A driver that was built for 1.0 knows no scalar operands.
  if (own.struct_size < MYDEV_END_OF(mydev_kernel, plan)) candidate.limits.flags |= MYDEV_LIMIT_NO_SCALARS;
  check(candidate, full);
  add_operand_limits(candidate, full);
  return candidate;
}

KernelCandidate candidate_of_registry(const Device& device, const mydev_kernel& kernel, const std::string& owner) {
  KernelCandidate candidate{&kernel,
                            owner,
                            limits_of(kernel),
                            /*operand_limits=*/{},
                            /*results=*/0,
                            kernel.scratch_bytes,
                            kernel.plan,
                            /*of_driver=*/kernel.runs == MYDEV_RUNS_DRIVER,
                            enqueues(device, kernel),
                            /*may_decline=*/false,
                            /*staged=*/computes_on_host(kernel) && !device.host_computes(),
                            /*portable=*/false};
  check(candidate, kernel);
  add_operand_limits(candidate, kernel);
  return candidate;
}

KernelCandidate candidate_of_compiler(const mydev_kernel& kernel) {
  return {&kernel,
          "portable kernels",
          limits_of(kernel),
          /*operand_limits=*/{},
          /*results=*/0,
          /*scratch_bytes=*/nullptr,
          kernel.plan,
          /*of_driver=*/true,
          /*enqueues=*/true,
          /*may_decline=*/false,
          /*staged=*/false,
          /*portable=*/true};
}

bool is_plain(const KernelCandidate& candidate) {
  return candidate.plan == nullptr && !candidate.enqueues && !candidate.may_decline && !candidate.staged &&
         candidate.limits.dtypes == 0 && candidate.limits.rank_max < 0 && candidate.limits.flags == 0 &&
         candidate.operand_limits.empty();
}

bool same_candidates(const std::vector<KernelCandidate>& a, const std::vector<KernelCandidate>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const KernelCandidate& x, const KernelCandidate& y) { return x.record == y.record; });
}

Launchable made_of(std::vector<KernelCandidate> candidates) {
  const mydev_kernel* first = candidates.front().record;
  const mydev_kernel* plain = candidates.size() == 1 && is_plain(candidates.front()) ? first : nullptr;
  const KernelContract* contract = builtin_contract(first->name);
  const ContractVariable none{};
  const ContractVariable& variable = contract == nullptr || contract->variables.empty() ? none : contract->variables[0];
  uint64_t dtypes = ~variable.on_request;
  for (const KernelCandidate& candidate : candidates) {
    if (!candidate.of_driver) continue;
    dtypes |= candidate.limits.dtypes != 0 ? candidate.limits.dtypes : ~uint64_t{0};
    for (const OperandLimits& operand : candidate.operand_limits) dtypes |= operand.dtypes;
  }
  return {.name = first->name,
          .plain = plain,
          .at_once = plain != nullptr && plain->scratch_bytes == nullptr ? plain : nullptr,
          .candidates = std::move(candidates),
          .dtypes = dtypes & variable.dtypes,
          .dtypes_in_graphs = variable.dtypes};
}

// "result 0", "operand 2".
std::string place(const mydev_frame& frame, uint32_t buffer) {
  return buffer < frame.num_outputs ? "result " + std::to_string(buffer)
                                    : "operand " + std::to_string(buffer - frame.num_outputs);
}

// Why limits do not allow a buffer; "" if they do. `name`: whose limits these are, or "" for those of all buffers.
std::string refusal_of(const mydev_frame& frame, uint32_t i, uint64_t dtypes, int32_t rank_max, uint32_t flags,
                       const std::string& name) {
  const mydev_buffer& buffer = frame.buffers[i];
  const auto as = [&name] { return name.empty() ? std::string() : " as '" + name + "'"; };
  if (is_scalar(buffer)) {
    if ((flags & MYDEV_LIMIT_NO_SCALARS) != 0)
      return "takes no numbers" + as() + ", and " + place(frame, i) + " is one";
  } else if (buffer.data == nullptr && buffer.rank == 0) {  // absent
    return {};
  } else if ((flags & MYDEV_LIMIT_DENSE) != 0 && !is_dense(buffer)) {
    return "takes dense operands" + as() + ", and " + place(frame, i) + " is strided";
  } else if (rank_max >= 0 && buffer.rank > rank_max) {
    return "takes up to " + std::to_string(rank_max) + " dimensions" + as() + ", and " + place(frame, i) + " has " +
           std::to_string(buffer.rank);
  }
  if (dtypes != 0 && (dtypes & MYDEV_DTYPE_BIT(buffer.dtype)) == 0) {
    return "takes " + dtype_list(dtypes) + as() + ", and " + place(frame, i) + " is " +
           std::string(dtype_name(static_cast<mydev_dtype>(buffer.dtype)));
  }
  return {};
}

// The limits of the operand that a buffer belongs to; nullptr if there are more buffers than the kernel has. All lists
// of a frame have one length.
const OperandLimits* limits_of_buffer(const KernelCandidate& candidate, const mydev_frame& frame, uint32_t buffer) {
  const std::span all(candidate.operand_limits);
  const bool is_result = buffer < frame.num_outputs;
  const auto lists = [](const auto& part) {
    return static_cast<size_t>(std::ranges::count(part, true, &OperandLimits::is_list));
  };
  const auto results = all.first(candidate.results), operands = all.subspan(candidate.results);
  const auto& counted = lists(results) != 0 ? results : operands;
  const size_t buffers = lists(results) != 0 ? frame.num_outputs : frame.num_inputs;
  const size_t single = counted.size() - lists(counted);
  const size_t length = lists(counted) == 0 || buffers < single ? 0 : (buffers - single) / lists(counted);
  size_t index = is_result ? buffer : buffer - frame.num_outputs;
  for (const OperandLimits& operand : is_result ? results : operands) {
    const size_t number = operand.is_list ? length : 1;
    if (index < number) return &operand;
    index -= number;
  }
  return nullptr;
}

}  // namespace

const Launchable* find_launchable(const Device& device, const char* name, const NamedRecords& records,
                                  bool stages_builtins) {
  std::vector<KernelCandidate> candidates;
  if (records.own != nullptr) candidates.push_back(candidate_of_driver(device, name, *records.own));
  if (records.portable != nullptr) candidates.push_back(candidate_of_compiler(*records.portable));
  const mydev_kernel* registered = records.registered;
  if (registered != nullptr && registered != records.own && can_run(device, *registered, stages_builtins)) {
    candidates.push_back(candidate_of_registry(device, *registered, records.registered_owner));
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
  if (limits.dtypes == 0 && limits.rank_max < 0 && limits.flags == 0 && candidate.operand_limits.empty()) return {};
  for (uint32_t i = 0; i < frame.num_outputs + frame.num_inputs; ++i) {
    const OperandLimits* own = candidate.operand_limits.empty() ? nullptr : limits_of_buffer(candidate, frame, i);
    std::string refusal = own == nullptr ? refusal_of(frame, i, limits.dtypes, limits.rank_max, limits.flags, "")
                                         : refusal_of(frame, i, own->dtypes, own->rank_max, own->flags, own->name);
    if (!refusal.empty()) return refusal;
  }
  return {};
}

}  // namespace mydev
