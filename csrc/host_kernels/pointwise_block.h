// A pointwise kernel on a few dense values at a time, for who goes through several kernels at once (fused_tiles.h):
// nothing is planned, and the values stay in the first-level cache.
//
// Entries of csrc/host_kernels/isa/pointwise/pointwise.h, called with a frame whose `decision` is a block, fill that in
// and compute nothing; buffers need no data then. UNIMPLEMENTED: elements would be converted. Other kernels have no
// blocks.
#pragma once

#include <cstdint>

#include <span>

#include "host_kernels/row_reduction.h"
#include "mydev/custom_call.h"

namespace mydev::kernels {

inline constexpr int64_t kBlockValues = 1024;
inline constexpr int kMaxBlockInputs = 3;
inline constexpr int64_t kShortestSum = 64;

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

// What is read next, asked for little by little: all at once, it would take what holds the lines that are on their way.
class Lookahead {
 public:
  // As many bytes as these, behind them.
  void want_behind(const char* data, int64_t bytes) { next_ = data + bytes, end_ = next_ + bytes; }
  [[gnu::always_inline]] void ask(int64_t bytes) {
    for (const char* const end = end_ - next_ < bytes ? end_ : next_ + bytes; next_ < end; next_ += kLineBytes) {
      __builtin_prefetch(next_);
    }
  }

 private:
  static constexpr int64_t kLineBytes = 64;
  const char *next_ = nullptr, *end_ = nullptr;
};

// A step of a chain, whose values go from call to call in registers.
struct ChainCall {
  // What is computed with the value that comes: nothing, itself again, one number, or lanes, as the second or first
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

// What a chain goes through: lines of as many values each, up to kBlockValues.
struct ChainLines {
  const float* start;
  int64_t start_step;  // elements from line to line
  int64_t count, values;
  float* totals;  // of what the last call computes; nullptr: nobody asks for them
  int64_t total_step;
  RowReduction::Total total;  // as mydev.sum or mydev.mean computes it of rows of at least kShortestSum
  Lookahead* lookahead;
  double ahead;  // bytes of it to ask for with each that `start` has
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
  // Lines through all calls, each as the call's block computes it, whose addresses are those of the first line. Of any
  // of the blocks.
  void (*run_chain)(const ChainLines& lines, std::span<const ChainCall> calls);
  // The operation that does what the call does, and then this one with the value alone; 0: there is none. It takes the
  // call's form and operand.
  int32_t (*joined)(const ChainCall& call, int32_t operation);
  void (*drain)();  // others see what this thread has streamed before what it writes next
  const void* kernel;
  void (*apply)();  // its function for the dtype
  void (*apply_by_one)();
  int32_t inputs;
  int32_t value_bytes[1 + kMaxBlockInputs];  // of the result, then the inputs
  mydev_dtype wanted[1 + kMaxBlockInputs];   // what is computed with
  int32_t chain_operation;                   // in chains; 0: they do not have it
};

}  // namespace mydev::kernels
