// A pointwise kernel on a few dense values at a time, for who goes through several kernels at once (fused_tiles.h):
// nothing is planned, and the values stay in the first-level cache.
//
// Entries of csrc/host_kernels/isa/pointwise.h, called with a frame whose `decision` is a block, fill that in and
// compute nothing; buffers need no data then. UNIMPLEMENTED: elements would be converted. Other kernels have no blocks.
#pragma once

#include <cstdint>

#include <span>

#include "mydev/custom_call.h"

namespace mydev::kernels {

inline constexpr int64_t kBlockValues = 1024;
inline constexpr int kMaxBlockInputs = 3;

struct PointwiseBlock;

// A step of a loop: if it `moves`, its operands lie elsewhere in the next round by `advance` bytes; 0 is the result.
struct PointwiseCall {
  const PointwiseBlock* block;
  const mydev_frame* frame;
  void* operands[1 + kMaxBlockInputs];
  int64_t advance[1 + kMaxBlockInputs];
  bool moves;
  bool by_one;  // as run() is told
};

struct PointwiseBlock {
  // n values; out may be one of the inputs. by_one: the second input is one value; where apply_by_one is there. The
  // frame is looked at for attributes. False: they failed, and the frame has a message.
  bool (*run)(const PointwiseBlock& block, const mydev_frame& frame, void* out, const void* const* in, int64_t n,
              bool by_one);
  // All calls on n values, one after the other, so many times. Gives the call whose attributes failed, and its frame
  // has a message; nullptr: none. Of any of the blocks: they are of one instruction set.
  const PointwiseCall* (*run_rounds)(std::span<PointwiseCall> calls, int64_t n, uint64_t rounds);
  // n times the number that the operand is, as the kernel computes with it; 0 is the result.
  void (*fill)(const PointwiseBlock& block, int operand, const mydev_scalar& number, void* values, int64_t n);
  // Copies values to memory past the caches, which it would only push others out of. Others see them after drain().
  void (*stream)(void* to, const void* from, int64_t bytes);
  void (*drain)();
  const void* kernel;
  void (*apply)();  // its function for the dtype
  void (*apply_by_one)();
  int32_t inputs;
  int32_t value_bytes[1 + kMaxBlockInputs];  // of the result, then the inputs
  mydev_dtype wanted[1 + kMaxBlockInputs];   // what is computed with
};

}  // namespace mydev::kernels
