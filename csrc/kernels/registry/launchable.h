// A launchable holds the records that may run a kernel's name on one device, in the order in which they are asked: the
// driver's own, the portable one, which the device's compiler makes, then that of the registry. launch_kernel
// (kernels/launch) asks them. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mydev/custom_call.h"
#include "runtime/base/api.h"
#include "runtime/driver/device.h"

namespace mydev {

// Names under which only the library of the built-in kernels is looked into.
inline bool is_builtin_name(std::string_view name) noexcept {
  return name.starts_with("mydev.");
}

// The limits of one result or operand: its own, and those of the whole record where it has none.
struct OperandLimits {
  std::string name;
  bool is_list;
  uint64_t dtypes;  // 0: any
  int32_t rank_max;
  uint32_t flags;
};

// A record and the properties that it declares; fields that its writer did not know have their defaults.
struct KernelCandidate {
  const mydev_kernel* record;  // what is launched: the driver knows its own by the pointer
  std::string owner;           // "driver 'x'", "built-in", "library 1.0 (/path)", for messages
  mydev_limits limits;         // without dtypes, the contract's usual ones; none if they leave nothing out
  // An entry for each result, then for each operand, if any has limits of its own; else empty.
  std::vector<OperandLimits> operand_limits;
  size_t results;  // of operand_limits
  uint64_t (*scratch_bytes)(const mydev_frame* frame);
  mydev_code (*plan)(const mydev_frame* frame, mydev_plan* out);
  bool of_driver;    // the driver runs it: its own, or one that says so
  bool enqueues;     // the runtime calls its entry
  bool may_decline;  // it cannot be asked before, so that UNIMPLEMENTED at the launch means no
  bool staged;       // it computes on the host, on copies of operands that the host does not reach
  bool portable;     // its entry gives the driver kernels that the device's compiler made
};

// Never freed, and the same for the same records: operators hold pointers to it.
struct Launchable {
  const char* name;
  const mydev_kernel* plain;    // the one record if it takes every frame of its name without a question; else nullptr
  const mydev_kernel* at_once;  // `plain` if it needs no scratch either; else nullptr
  std::vector<KernelCandidate> candidates;
  // MYDEV_DTYPE_BIT of each dtype for which operators ask the records, as the first variable of a built-in kernel's
  // contract. In eager mode, where PyTorch's kernels are behind them: what every record takes that says nothing of
  // dtypes, and what records that the driver runs take. In graphs: all that the contract has.
  uint64_t dtypes, dtypes_in_graphs;
};

// The records under a name; any may be nullptr.
struct NamedRecords {
  const mydev_kernel* own = nullptr;         // the driver's
  const mydev_kernel* portable = nullptr;    // the portable kernels'
  const mydev_kernel* registered = nullptr;  // the registry's
  std::string registered_owner;
};

// Returns what runs `name` on the device; nullptr if there is no record that it can run. If the driver's record
// contradicts itself, raises INVALID_ARGUMENT, naming the driver. `stages_builtins`: a built-in record of the host may
// run on copies.
MYDEV_API const Launchable* find_launchable(const Device& device, const char* name, const NamedRecords& records,
                                            bool stages_builtins = false);

// Why the candidate does not take the frame, by the limits that it declares: "takes f32, operand 1 is s64". Empty if
// its limits allow the frame.
MYDEV_API std::string declared_refusal(const KernelCandidate& candidate, const mydev_frame& frame);

}  // namespace mydev
