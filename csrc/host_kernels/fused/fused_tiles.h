// The body of `mydev.fused` (program/fused_form.h) on the host: its steps, tile by tile.
//
// A tile is a part of the kept dimensions, with all of those that are reduced. For each, the steps run one after the
// other, on views of what lies in memory and on temporaries that are the tile's alone and stay in the processor's
// cache. Pointwise steps that follow each other go block by block through the lines of a tile (pointwise_block.h), and
// reductions row by row (row_reduction.h); others are the kernels, with the loops that they have by themselves. Either
// way the results are, to the bit, those of the kernels on the whole. Tiles are independent: the threads of the
// process's pool share them. Made once; then any thread may run it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "host_kernels/pointwise_block.h"
#include "host_kernels/row_reduction.h"
#include "mydev/custom_call.h"
#include "runtime/frame/frame.h"

namespace mydev::kernels {

class FusedTiles {
 public:
  struct Refusal {
    mydev_code code = MYDEV_OK;
    std::string text;
  };
  // Nothing, and why, for what is none that can be run in tiles. UNIMPLEMENTED: a kernel is none of these, or needs
  // scratch, or rounds of several tiles are not apart. INVALID_ARGUMENT, with the attribute or the step and its value:
  // the form makes no sense. Keeps nothing of the frame.
  static std::unique_ptr<const FusedTiles> make(const mydev_frame& frame, Refusal& why);

  // A frame of the same buffers but for their addresses. Gives the code and the message of a kernel that fails.
  mydev_code run(const mydev_frame& frame) const noexcept;

 private:
  struct Operand {
    enum Kind : uint8_t { kMemory, kTemporary, kNumber, kAbsent };
    Kind kind;
    size_t index;                  // of the frame's buffer, or of the temporary
    int64_t offset;                // bytes from the buffer's data, or in the thread's memory
    std::vector<int64_t> strides;  // of all dimensions, 0 where it is of the kept ones alone; or of a tile
    mydev_dtype dtype;
    mydev_scalar number;
    bool ahead = false;     // what lies behind it in memory is asked for when it is read
    bool streamed = false;  // is written past the caches
  };
  struct Step {
    enum Way : uint8_t { kKernel, kBlocks, kRows };
    const mydev_kernel* record;
    uint32_t num_outputs;
    bool of_kept;  // over the kept dimensions alone
    std::vector<Operand> operands;
    OwnedFrame attributes;  // without buffers
    Way way = kKernel;
    PointwiseBlock block;
    RowReduction reduction;
    // Behind the last of those that values go through in registers, from this one on; and behind what sums them.
    size_t end_of_chain = 0;
    ChainCall::Form form = ChainCall::kAlone;
    bool is_passed_on = false;  // what it computes needs no memory: the next of the chain alone needs it
    size_t end_of_group = 0;    // behind the last of those that go block by block with it
    size_t line = 0;            // the first dimension of lines, which all of its group go along as along one dimension
  };
  // From the step that writes it first to the last that reads it.
  struct Temporary {
    int64_t place;  // in the form
    int64_t bytes;  // of an element
    bool of_kept;
    bool in_block = false;  // needed within one block only
    size_t first, last;
    size_t memory = 0;  // which of the memories that temporaries take turns in
  };
  // Bytes for each entry of the kept dimensions, or of a block.
  struct Memory {
    int64_t bytes;
    bool in_block;
    size_t taken_until;
  };
  class Worker;

  FusedTiles() = default;
  Refusal read(const mydev_frame& frame);  // fused_form_reader.cpp
  void read_head(const mydev_frame& frame);
  void add_step(const mydev_attribute& form, const mydev_frame& frame);
  void read_operand(const mydev_attribute& form, size_t i, const mydev_frame& frame);
  void check_in_buffer(const Operand& operand, const mydev_buffer& buffer) const;
  void check_contract(const Step& step) const;
  void merge_dimensions();
  int64_t entries() const;
  int64_t row() const;
  size_t end_of(const Step& step) const;
  bool describes(Step& step, void* decision) const;
  bool has_block(Step& step) const;
  bool has_rows(Step& step) const;
  void find_groups();
  void find_chains();
  bool is_sum_of(size_t step, const Step& before) const;
  void find_lines();
  std::vector<Memory> share_memory();
  int64_t bytes_of_buffers() const;
  void choose_tile();
  void place_temporaries(const std::vector<Memory>& memories);
  void find_traffic();
  bool needs_scratch() const;

  uint64_t id_ = 0;  // that no other had or will have
  uint64_t rounds_ = 1;
  bool apart_ = true;              // the rounds
  std::vector<int64_t> advances_;  // of the frame's buffers from round to round, in bytes; empty: none moves
  std::vector<int64_t> sizes_;
  size_t kept_ = 0;  // dimensions, at least one; those behind are reduced
  std::vector<Step> steps_;
  std::vector<Temporary> temporaries_;
  // A tile is up to chunk_ entries of the kept dimension split_, with all of those behind it, of which inner_ are kept,
  // and one of those before it.
  size_t split_ = 0;
  int64_t chunk_ = 1, inner_ = 1, chunks_ = 1, count_ = 1;
  uint64_t workspace_ = 0;  // of a thread
};

}  // namespace mydev::kernels
