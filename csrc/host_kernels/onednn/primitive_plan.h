// A primitive plan: oneDNN primitives with their operands, made once and run often.
//
// A plan is a sequence of steps. Each step is one primitive whose arguments are operands of the call (by index) or
// places in the call's scratch (by offset): reordered copies, the primitive's own scratchpad. So running a plan creates
// nothing and allocates nothing. Thread-safe: the memory handles of a plan are used by one thread at a time; another
// thread that comes meanwhile makes handles of its own.
//
// Errors: oneDNN's exceptions never leave this layer; they become mydev::Error with oneDNN's status.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "dnnl.hpp"
#include "mydev/custom_call.h"

namespace mydev::kernels {

// The one CPU engine of the process.
const dnnl::engine& onednn_engine();
// False for what oneDNN lacks on this processor.
bool onednn_supports(mydev_dtype dtype) noexcept;
dnnl::memory::data_type onednn_dtype(mydev_dtype dtype) noexcept;

class PrimitivePlan {
 public:
  static constexpr int32_t kScratch = -1;
  struct Argument {
    int32_t argument;  // DNNL_ARG_*
    int32_t operand;   // index into run()'s operands, or kScratch
    uint64_t offset;   // into scratch, if operand is kScratch
    dnnl::memory::desc descriptor;
  };

  // Reserves a place in scratch; returns its offset.
  uint64_t reserve(uint64_t bytes) noexcept;
  // Appends a step. `descriptor` is the primitive's own, made with a user-managed scratchpad, for which a place is
  // reserved.
  void add_step(const dnnl::primitive& primitive, const dnnl::primitive_desc_base& descriptor,
                std::vector<Argument> arguments);
  // Appends a reorder.
  void add_reorder(Argument from, Argument to);

  uint64_t scratch_bytes() const noexcept { return scratch_bytes_; }
  // Runs all steps and returns when they are done. scratch: 64-byte aligned, scratch_bytes().
  void run(std::span<void* const> operands, void* scratch);

 private:
  struct Step {
    dnnl::primitive primitive;
    std::vector<Argument> arguments;
  };
  // Memory handles for all steps' arguments, in order.
  struct Handles {
    std::vector<dnnl::memory> memories;
    std::vector<dnnl_exec_arg_t> arguments;
  };
  Handles make_handles() const;

  std::vector<Step> steps_;
  uint64_t scratch_bytes_ = 0;
  std::mutex mutex_;  // guards handles_
  Handles handles_;
};

[[noreturn]] void raise_onednn_error(const char* what, const dnnl::error& error);

// Runs `body`, turning a dnnl::error into a mydev::Error that names `what`.
template <typename Body>
auto with_onednn_errors(const char* what, Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const dnnl::error& error) {
    raise_onednn_error(what, error);
  }
}

}  // namespace mydev::kernels
