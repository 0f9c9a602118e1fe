// A pointwise kernel on a few dense values at a time, for callers that go through several kernels at once
// (fused_tiles.h): nothing is planned, and the values stay in the first-level cache.
//
// Kernels of csrc/host_kernels/isa/pointwise/pointwise.h have blocks: find_block() gives them by name.
#pragma once

#include <cstdint>

#include <span>

#include "host_kernels/isa_declaration.h"
#include "host_kernels/row_reduction.h"
#include "mydev/custom_call.h"

namespace mydev::kernels {

inline constexpr int64_t kBlockValues = 1024;
inline constexpr int kMaxBlockInputs = 3;
inline constexpr int64_t kShortestSum = 64;

struct PointwiseBlock;

// A step of a loop. If it `moves`, its operands advance by `advance` bytes in each iteration; operand 0 is the result.
struct PointwiseCall {
  const PointwiseBlock* block;
  const mydev_frame* frame;
  void* operands[1 + kMaxBlockInputs];
  int64_t advance[1 + kMaxBlockInputs];
  bool moves;
  bool by_one;  // as the argument of run()
};

// A step of a chain, whose values go from call to call in registers.
struct ChainCall {
  // The other operand beside the value that comes: none, the value itself, one number, or lanes as the second or first
  // operand.
  enum Form : int32_t { kAlone, kItself, kOne, kSecond, kFirst };
  int32_t operation;  // of the block
  Form form;
  const float* operand;
  float* out;                // nullptr: only the next call needs what it computes
  int64_t operand_step = 0;  // elements from line to line
  int64_t out_step = 0;
  bool streamed = false;  // past the caches, where `out` allows it; others see it after drain()
};

// The lines that a chain goes through, of `values` values each, up to kBlockValues.
struct ChainLines {
  const float* start;
  int64_t start_step;  // elements from line to line
  int64_t count, values;
  float* totals;  // of the last call's results; nullptr: none are wanted
  int64_t total_step;
  RowReduction::Total total;  // as mydev.sum or mydev.mean computes it of rows of at least kShortestSum
};

// A call on `count` values, whose addresses stand in a table: from entry `first` on the result's, then the inputs'.
struct PointwiseTableCall {
  void (*apply)();     // the block's, or its apply_by_one
  const void* kernel;  // the block's
  const mydev_frame* frame;
  size_t first;
  int64_t count;
};

// How `mydev.copy` converts dense values, in steps whose results have `sizes` bytes a value.
struct ValueConversion {
  void (*steps[3])(void* to, const void* from, int64_t n);
  int64_t sizes[3];
  int count;  // of steps; not above 0: there are none
};

struct PointwiseBlock {
  // Computes n values; out may be one of the inputs. by_one: the second input is one value; only if apply_by_one is
  // set. The frame gives the attributes. False: they failed, and the frame has a message.
  bool (*run)(const PointwiseBlock& block, const mydev_frame& frame, void* out, const void* const* in, int64_t n,
              bool by_one);
  // Runs all calls on n values, one after the other, `iterations` times. Returns the call whose attributes failed, and
  // its frame has a message; nullptr: none failed. Any of the blocks will do: they are of one instruction set.
  const PointwiseCall* (*run_iterations)(std::span<PointwiseCall> calls, int64_t n, uint64_t iterations);
  // Runs all calls, one after the other. Returns the call whose attributes failed, as run_iterations. Any of the blocks
  // will do.
  const PointwiseTableCall* (*run_table)(std::span<const PointwiseTableCall> calls, void* const* table);
  // Fills in n times the number that the operand is, as the kernel computes with it; operand 0 is the result.
  void (*fill)(const PointwiseBlock& block, int operand, const mydev_scalar& number, void* values, int64_t n);
  // Passes lines through all calls, each as the call's block computes it. Addresses are those of the first line. Any of
  // the blocks will do.
  void (*run_chain)(const ChainLines& lines, std::span<const ChainCall> calls);
  // Returns the operation that does what the call does, and then `operation` on the value alone; 0: there is none. It
  // takes the call's form and operand.
  int32_t (*joined)(const ChainCall& call, int32_t operation);
  void (*drain)();  // others see what this thread has streamed before what it writes next
  const void* kernel;
  void (*apply)();  // its function for the dtype
  void (*apply_by_one)();
  int32_t inputs;
  int32_t value_bytes[1 + kMaxBlockInputs];  // of the result, then the inputs
  mydev_dtype wanted[1 + kMaxBlockInputs];   // dtypes to compute with
  int32_t chain_operation;                   // in chains; 0: they do not have it
  void (*pack)();                            // of one vector register of values, which it returns; nullptr: none
};

// Fills in the block of the kernel of that name for the frame, whose buffers need no data. False: the kernel has no
// blocks, or elements would be converted.
MYDEV_DECLARE_VARIANTS(bool find_block(const char* kernel, const mydev_frame& frame, PointwiseBlock& block);)

MYDEV_DECLARE_VARIANTS(ValueConversion find_value_conversion(mydev_dtype from, mydev_dtype to);)

}  // namespace mydev::kernels
