// A call site in jax.ffi's terms: the caller, not a signature, says what the results are.
//
// Made once, then run often and from any thread. One launch per run.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "aten/custom_call/custom_attributes.h"
#include "aten/custom_call/custom_call.h"
#include "runtime/base/api.h"

namespace mydev {

struct FfiResult {
  c10::ScalarType dtype;
  std::vector<int64_t> sizes;
  std::vector<int64_t> layout;  // dimensions in memory, major to minor; empty: row-major
};

struct FfiCallOptions {
  std::string target;
  std::vector<FfiResult> results;
  bool tuple = false;   // the result is a tuple, whatever their number
  int api_version = 4;  // XLA's
  std::optional<std::string> opaque;
  std::vector<std::vector<int64_t>> input_layouts;     // empty: all row-major
  std::vector<std::pair<uint32_t, uint32_t>> aliases;  // operand, result
};

using ResultTensors = c10::SmallVector<at::Tensor, 4>;

class MYDEV_API FfiCallSite {
 public:
  // Raises INVALID_ARGUMENT for options that contradict each other.
  explicit FfiCallSite(FfiCallOptions options);

  const FfiCallOptions& options() const noexcept { return options_; }
  // Launches on the operands' device (without any: the current one). Attributes of a kernel without a signature are
  // sorted by name; of one with a signature, put in its order, with its defaults.
  ResultTensors run(c10::ArrayRef<at::Tensor> operands, CustomAttributes& attributes);

 private:
  // The kernel as this call site runs it.
  struct Fitted {
    const CustomKernel::Resolved* resolved;
    CustomKernel::Resolved runs;  // as resolved, or, for a tuple of one, with a record that says so
  };
  const Fitted& fit(const CustomKernel::Resolved& resolved, int on);
  void check_kind(const mydev_kernel& record) const;
  void check_shapes(const mydev_kernel& record, const mydev_frame& frame) const;
  at::Tensor arrange_operand(size_t i, const at::Tensor& operand, const mydev_kernel& record);

  const FfiCallOptions options_;
  CustomKernel kernel_;
  std::mutex mutex_;
  std::atomic<const Fitted*> fitted_{nullptr};  // never freed: calls may be reading
};

}  // namespace mydev
