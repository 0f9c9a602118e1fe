// A primitive plan: oneDNN primitives with their operands, made once and run often.
//
// A plan is a sequence of steps. Each step is one primitive whose arguments are operands of the call (by index) or
// places in the call's scratch (by offset): reordered copies, the primitive's own scratchpad. So running a plan creates
// nothing and allocates nothing. Forms of operands that never change are kept from the first run on, by the code that
// runs the plan (KeptOperands); the plan's preparation fills them in. Thread-safe: the memory handles of a plan are
// used by one thread at a time; another thread that comes meanwhile makes handles of its own.
//
// Errors: oneDNN's exceptions never leave this layer; they become mydev::Error with oneDNN's status.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "dnnl.hpp"
#include "mydev/custom_call.h"

namespace mydev::kernels {

// Runs oneDNN's product once (1 to 4 ms), which makes the static objects that hold its generated code. Static objects
// that exist before the first work of a stream are destroyed after the last, as runtime/stream/stream_table.h says.
void make_onednn_statics() noexcept;

// The one CPU engine of the process.
const dnnl::engine& onednn_engine();
// f32, and floats that are narrower.
bool is_computed_in_f32(mydev_dtype dtype) noexcept;
// False for a dtype that oneDNN lacks on this processor; of S8, as factors of S32, what it computes with loss.
bool onednn_supports(mydev_dtype dtype) noexcept;
dnnl::memory::data_type onednn_dtype(mydev_dtype dtype) noexcept;

class PrimitivePlan {
 public:
  static constexpr int32_t kScratch = -1;
  static constexpr int32_t kKept = -2;
  struct Argument {
    int32_t argument;  // DNNL_ARG_*
    int32_t operand;   // index into run()'s operands, kScratch or kKept
    uint64_t offset;   // into scratch, or into what is kept
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
  // Returns the argument for an operand that never changes and is wanted as `wanted`: the preparation makes it of
  // `given`.
  Argument keep(int32_t argument, int32_t operand, const dnnl::memory::desc& given, const dnnl::memory::desc& wanted);

  uint64_t scratch_bytes() const noexcept { return scratch_bytes_; }
  uint64_t kept_bytes() const noexcept { return kept_bytes_; }
  // Both return when all their steps are done. scratch, kept: 64-byte aligned, scratch_bytes() and kept_bytes().
  void prepare(std::span<void* const> operands, void* scratch, void* kept);
  void run(std::span<void* const> operands, void* scratch, void* kept = nullptr);

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
  struct Sequence {
    std::vector<Step> steps;
    std::mutex mutex;  // guards handles
    Handles handles;

    void run(std::span<void* const> operands, void* scratch, void* kept);
  };
  void add_step(Sequence& sequence, const dnnl::primitive& primitive, const dnnl::primitive_desc_base& descriptor,
                std::vector<Argument> arguments);
  void add_reorder(Sequence& sequence, Argument from, Argument to);
  static Handles make_handles(const std::vector<Step>& steps);

  Sequence preparation_, steps_;
  uint64_t scratch_bytes_ = 0, kept_bytes_ = 0;
};

// Memory of a launch's decision for what a plan keeps. Thread-safe.
class KeptOperands {
 public:
  explicit KeptOperands(uint64_t bytes) noexcept : bytes_(bytes) {}
  ~KeptOperands();
  KeptOperands(const KeptOperands&) = delete;
  KeptOperands& operator=(const KeptOperands&) = delete;

  // The memory, 64-byte aligned; fill(memory) has been called once before, here or by another thread. Raises
  // RESOURCE_EXHAUSTED, and what fill raises: then the next call tries again.
  void* filled(const std::function<void(void* memory)>& fill);

 private:
  uint64_t bytes_;
  std::once_flag once_;
  void* memory_ = nullptr;
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
