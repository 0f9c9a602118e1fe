// Running a frame on a device: its operands are uploaded, the kernel launched, all memory downloaded again. The host
// need not reach the device's memory.
#pragma once

#include <string>
#include <vector>

#include "conform/kernels/contract_frame.h"
#include "kernels/registry/launchable.h"
#include "mydev/custom_call.h"
#include "runtime/stream/stream.h"

namespace mydev::conform {

struct LaunchedFrame {
  enum class End { kDone, kDeclined, kFailed };
  End end = End::kDone;
  std::string why;                                 // of what was declined or failed
  std::vector<std::vector<unsigned char>> images;  // of the operands, afterwards; of aliases and numbers none
};

// `kernel`: as resolve_kernel gives it. Raises failures of the device itself: no memory, a copy that fails.
LaunchedFrame launch_frame(const Launchable& kernel, ContractFrame& frame, Stream& stream);

// Describes the first difference from the expected results, or in the memory around them: which element, what it is,
// what it should be. "" if all is well.
struct Expected;
std::string mismatch(const ContractFrame& frame, const LaunchedFrame& launched, const Expected& expected);

}  // namespace mydev::conform
