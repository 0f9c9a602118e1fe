// What one thread needs to run tiles: frames, whose addresses and sizes it sets for each tile, and temporaries. Kept by
// the thread from run to run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "host_kernels/fused_tiles.h"

namespace mydev::kernels {

class FusedTiles::Worker {
 public:
  void prepare(const FusedTiles& tiles, const mydev_frame& outer);
  mydev_code run(int64_t tile);
  // Whether a kernel needs scratch for so many entries of the split dimension.
  bool needs_scratch(const FusedTiles& tiles, int64_t entries);

 private:
  // An operand of a step that goes block by block.
  struct Stream {
    int64_t value_bytes = 0;
    int64_t line_bytes = 0;   // from line to line of the innermost dimension of lines
    bool moves = false;       // from block to block
    bool is_one = false;      // is given as one value, where the line begins or in `values`
    bool repeats = false;     // is one value along a line, which `values` has as often as a block has values
    bool is_uniform = false;  // and another in each line
    char* values = nullptr;   // of what does not move
    char* line = nullptr;     // where the line begins
  };

  void allocate(const FusedTiles& tiles);
  void make_streams();
  bool has_calls() const;
  mydev_code run_rounds();
  std::span<Stream> streams_of(size_t first, size_t end);
  void place(int64_t tile);
  mydev_code run_group(size_t first, size_t end);
  mydev_code run_line(size_t first, size_t end);
  void repeat(const Stream& stream) const;
  mydev_code fail(const mydev_frame& frame, mydev_code code) const;

  uint64_t prepared_for_ = 0;
  const FusedTiles* tiles_ = nullptr;
  const mydev_frame* outer_ = nullptr;
  std::vector<std::max_align_t> memory_, values_;
  std::vector<int64_t> sizes_;  // of the tile
  std::vector<mydev_buffer> buffers_;
  std::vector<mydev_frame> frames_;                 // one for each step
  std::vector<std::pair<size_t, int64_t>> moving_;  // buffers, and their bytes from round to round
  std::vector<Stream> streams_;                     // one for each buffer
  std::vector<size_t> first_buffer_;                // of each step
  std::vector<PointwiseCall> calls_;                // of each step, where rounds are these and nothing else
};

}  // namespace mydev::kernels
