// The body of `mydev.fused` (program/transform/fused_form.h) on the host: its steps, tile by tile.
//
// A tile is a part of the outer dimensions, with all of the reduced dimensions. For each tile, the steps run one after
// the other, on views of memory and on temporaries that are the tile's alone and stay in the processor's cache.
// Pointwise steps that follow each other go block by block through the lines of a tile (pointwise_block.h), and
// reductions row by row (row_reduction.h); other steps call the kernels, with loops of their own. In all cases the
// results are, to the bit, those of the kernels on whole operands. Tiles are independent: the threads of the process's
// pool share them. Made once; then any thread may run it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "host_kernels/fused/step_records.h"
#include "host_kernels/pointwise_block.h"
#include "host_kernels/row_reduction.h"
#include "kernels/spec/fused_body.h"
#include "mydev/custom_call.h"
#include "runtime/frame/frame.h"

namespace mydev::kernels {

class FusedTiles {
 public:
  // Returns nothing, and why, if the frame cannot be run in tiles. UNIMPLEMENTED: a kernel is none of these, or needs
  // scratch, or iterations of several tiles are not apart. INVALID_ARGUMENT, with the attribute or the step and its
  // value: the form makes no sense. Keeps nothing of the frame.
  static std::unique_ptr<const FusedTiles> make(const mydev_frame& frame, Refusal& why);

  uint64_t scratch_bytes() const noexcept { return 0; }  // threads keep what tiles need
  // Runs a frame of the same buffers but for their addresses. Gives the code and the message of a kernel that fails.
  mydev_code run(const mydev_frame& frame) const noexcept;

 private:
  struct Operand : FusedBody::Operand {  // the offset may be in the thread's memory, and the strides of a tile
    bool streamed = false;               // is written past the caches
  };
  struct Step {
    enum Strategy : uint8_t { kKernel, kBlocks, kRows };
    const mydev_kernel* record;
    uint32_t num_outputs;
    bool is_outer;  // over the outer dimensions alone
    std::vector<Operand> operands;
    OwnedFrame attributes;  // without buffers
    Strategy strategy = kKernel;
    PointwiseBlock block;
    RowReduction reduction;
    // Behind the last step that values go through in registers, from this one on; also behind the step that sums them.
    size_t end_of_chain = 0;
    ChainCall::Form form = ChainCall::kAlone;
    bool is_passed_on = false;  // its result needs no memory: only the next step of the chain reads it
    size_t end_of_group = 0;    // behind the last step that goes block by block with it
    size_t line = 0;            // the first dimension of lines, which all of its group go along as along one dimension
  };
  struct Temporary : FusedBody::Temporary {
    bool in_block = false;  // needed within one block only
    size_t memory = 0;      // which of the memories that temporaries take turns in
  };
  // Bytes for each entry of the outer dimensions, or of a block.
  struct Memory {
    int64_t bytes;
    bool in_block;
    size_t taken_until;
  };
  class Worker;

  FusedTiles() = default;
  void take(FusedBody body);
  void merge_dimensions();
  int64_t entries() const;
  int64_t row() const;
  size_t end_of(const Step& step) const;
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

  uint64_t id_ = 0;  // which no other has had or will have
  uint64_t iterations_ = 1;
  bool apart_ = true;              // the iterations
  std::vector<int64_t> advances_;  // of the frame's buffers from iteration to iteration, in bytes; empty: none moves
  std::vector<int64_t> sizes_;
  size_t outer_rank_ = 0;  // outer dimensions, at least one; the dimensions behind are reduced
  std::vector<Step> steps_;
  std::vector<Temporary> temporaries_;
  // A tile has up to chunk_ entries of the outer dimension split_, all of the dimensions behind it (inner_ entries of
  // the outer ones), and one of each dimension before it.
  size_t split_ = 0;
  int64_t chunk_ = 1, inner_ = 1, chunks_ = 1, count_ = 1;
  uint64_t workspace_ = 0;  // of a thread
};

}  // namespace mydev::kernels
