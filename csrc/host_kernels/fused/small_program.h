// The body of `mydev.small_steps` (program/transform/small_steps.h) on the host: steps over a few elements each.
//
// The steps run one after the other, on one thread. A pointwise step is one call of its kernel's block
// (pointwise_block.h), on addresses in a table that a run fills in once. Its operands lie dense there: those that do
// not are moved to scratch before. Copies and concatenations are moves, and a reduction of dense rows is one call
// (row_reduction.h). Other steps call their kernels.
//
// On x86-64 with AVX2 all this is machine code (small_code.cpp). It is interpreted on other processors, and where the
// system refuses memory that is executed. All results are, to the bit, those of the kernels; but if both operands are
// NaN, which of the two a result repeats is not said. Made once; then any thread may run it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "host_kernels/fused/assembler.h"
#include "host_kernels/fused/step_records.h"
#include "host_kernels/pointwise_block.h"
#include "kernels/spec/form_reader.h"
#include "mydev/custom_call.h"
#include "runtime/command/decision.h"
#include "runtime/frame/frame.h"

namespace mydev::kernels {

class SmallProgram {
 public:
  // Returns nothing, and why, if the frame cannot be run so. UNIMPLEMENTED: a kernel is none of the host's, or
  // declines. INVALID_ARGUMENT, with the attribute or the step and its value: the form makes no sense. Keeps nothing of
  // the frame.
  static std::unique_ptr<const SmallProgram> make(const mydev_frame& frame, Refusal& why);

  uint64_t scratch_bytes() const noexcept { return scratch_bytes_; }
  // Runs a frame of the same buffers but for their addresses. Gives the code and the message of a kernel that fails.
  mydev_code run(const mydev_frame& frame) const noexcept;

 private:
  class Reader;
  class Registers;
  class Instructions;
  class Coder;
  // One run: where everything lies now. The vectors are the thread's.
  struct Run {
    const mydev_frame& outer;
    std::vector<char*>& addresses;  // of the bindings
    std::vector<void*>& table;      // the pointers
    std::vector<mydev_buffer>& buffers;
  };

  // Memory that operands lie in: first the frame's buffers, then the bindings of the form, then those of this class.
  struct Binding {
    enum Kind : uint8_t { kBuffer, kScratch, kConstant, kMoving };
    Kind kind;
    int64_t bytes;   // that views may reach, from 0 or `begin` on; not known of moving bindings
    int64_t offset;  // in the scratch, among the constants; of a moving binding: in `base`
    size_t base;     // of a moving binding
    int64_t begin = 0;
  };
  // An entry of the table of addresses.
  struct Pointer {
    size_t binding;
    int64_t offset;  // bytes
  };
  // Copies `count` values in runs of `run`, which lie dense. Offsets are in bytes from the two addresses, one for each
  // run.
  struct Move {
    size_t to, from;  // pointers
    int64_t value_bytes, count, run;
    std::vector<int32_t> to_offsets, from_offsets;
  };
  // Says how instructions compute a call.
  struct Operation {
    mydev_dtype dtype;  // of what it computes with
    int inputs;
    bool by_one;
    double alpha;    // 1 if there is none
    void (*pack)();  // the block's
  };
  // Converts `count` dense values.
  struct Convert {
    void (*apply)(void* to, const void* from, int64_t n);
    size_t to, from;  // pointers
    int64_t count;
    mydev_dtype from_dtype, to_dtype;  // INVALID in conversions of several steps
  };
  // Reduces dense rows, each into one value; the results lie dense.
  struct Rows {
    void (*run)(char* out, int64_t out_bytes, const char* in, int64_t in_bytes, int64_t rows, int64_t length);
    size_t to, from;  // pointers
    int64_t value_bytes, rows, length;
    const char* kernel;
    mydev_dtype dtype;
  };
  struct Kernel {
    OwnedFrame frame;              // without addresses
    std::vector<size_t> pointers;  // of its buffers; kNoPointer: a number or absent
    Decision decision;
  };
  struct Advance {
    size_t binding;                // a moving one
    int64_t bytes;                 // from iteration to iteration
    std::vector<size_t> pointers;  // that lie in it
  };
  // An entry of the list of what is done. Items of a loop or condition stand behind it.
  struct Item {
    enum Kind : uint8_t { kCalls, kMove, kConvert, kRows, kKernel, kRepeat, kWhile, kIf };
    Kind kind;
    size_t first = 0;      // of calls_; the move, the kernel; the pointer to the byte; the first of advances_
    size_t count = 0;      // of calls, of advances
    size_t otherwise = 0;  // item
    size_t end = 0;        // behind the items of the loop or condition
    int64_t iterations = 0;
  };
  static constexpr size_t kNoPointer = SIZE_MAX;

  SmallProgram() = default;
  // The constant memory at that offset.
  char* constant(int64_t offset) const {
    return const_cast<char*>(reinterpret_cast<const char*>(constants_.data())) + offset;  // NOLINT
  }
  void generate_code();
  mydev_code run_items(size_t begin, size_t end, Run& run) const;
  mydev_code run_kernel(const Kernel& kernel, Run& run) const;
  mydev_code run_calls(size_t first, size_t count, Run& run) const;
  void begin_repeat(const Item& item, Run& run) const;
  mydev_code repeat(size_t index, Run& run) const;
  void move(const Move& move, void* const* table) const;

  std::vector<Binding> bindings_;
  std::vector<Pointer> pointers_;
  std::vector<Item> items_;
  std::vector<PointwiseTableCall> calls_;
  std::vector<Operation> operations_;  // of the calls
  const PointwiseTableCall* (*run_calls_)(std::span<const PointwiseTableCall>, void* const*) = nullptr;
  std::vector<Move> moves_;
  std::vector<Convert> converts_;
  std::vector<Rows> rows_;
  std::vector<Kernel> kernels_;
  std::vector<Advance> advances_;
  std::vector<OwnedFrame> attributes_;  // of calls
  std::vector<std::max_align_t> constants_;
  uint64_t scratch_bytes_ = 0;
  uint64_t kernel_scratch_ = 0;  // where in the scratch that of kernels begins
  ExecutableMemory code_;        // runs all items; none: they are interpreted
};

}  // namespace mydev::kernels
