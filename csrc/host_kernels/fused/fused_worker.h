// The state of one thread that runs tiles: frames, whose addresses and sizes it sets for each tile, and temporaries.
// The thread keeps it from run to run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "host_kernels/fused/fused_tiles.h"

namespace mydev::kernels {

class FusedTiles::Worker {
 public:
  void prepare(const FusedTiles& tiles, const mydev_frame& outer);
  mydev_code run(int64_t tile);
  // After this call others see what the tiles have written.
  void finish() const;
  // True if a kernel needs scratch for `entries` entries of the split dimension.
  bool needs_scratch(const FusedTiles& tiles, int64_t entries);

 private:
  // An operand of a step that goes block by block through lines.
  struct Stream {
    int64_t value_bytes = 0;
    int64_t line_bytes = 0;   // from line to line of the innermost dimension before that of lines
    int64_t tile_bytes = 0;   // from tile to tile along the split dimension
    bool moves = false;       // from block to block
    bool is_one = false;      // is given as one value, where the line begins or in `values`
    bool repeats = false;     // is one value along a line; `values` repeats it as often as a block has values
    bool is_uniform = false;  // that value differs from line to line
    bool streamed = false;    // as of the operand
    char* values = nullptr;   // of a stream that does not move
    char* line = nullptr;     // where the line begins
  };

  // The calls of a chain, and the addresses in them that change from block to block, line to line or tile to tile.
  struct Chain {
    struct Address {
      size_t call;
      bool is_result;
      size_t stream;
    };
    // Calls `visit` with each of them and its stream.
    template <typename Visit>
    void visit_addresses(const Visit& visit) {
      visit(start, lines.start);
      if (totals) visit(*totals, lines.totals);
      for (const Address& address : addresses) {
        if (address.is_result) {
          visit(address.stream, calls[address.call].out);
        } else {
          visit(address.stream, calls[address.call].operand);
        }
      }
    }

    std::vector<ChainCall> calls;
    std::vector<Address> addresses;  // but for those of `lines`
    ChainLines lines{};
    size_t start = 0;  // streams of `lines`
    std::optional<size_t> totals;
    bool by_lines = false;  // the chain is its whole group, and lines move all of it alike
    bool is_whole = false;  // one call goes through all of a tile's lines
  };

  // A reduction of the rows of a tile.
  struct Rows {
    char* out;
    const char* in;
    int64_t rows;
    bool is_whole = false;  // one call reduces all of a tile's rows
  };

  // A buffer that lies elsewhere in another tile.
  struct Placed {
    size_t buffer;
    const Operand* operand;
    int64_t tile_bytes;  // from a tile to the next along the split dimension
  };

  void allocate(const FusedTiles& tiles);
  void make_streams();
  void repeat_numbers(size_t repeated);
  void make_groups();
  Chain make_chain(size_t first);

  int64_t elements(size_t first, size_t end) const;
  bool has_calls() const;
  mydev_code run_iterations();
  void place(int64_t tile);
  mydev_code run_step(size_t& step);
  mydev_code run_kernel(size_t step);
  bool goes_further() const;
  void run_further();
  void run_rows(size_t step);
  void reduce(size_t step);
  mydev_code run_group(size_t first, size_t end);
  mydev_code run_line(size_t first, size_t end, int64_t length);
  void seek(size_t group, int64_t line);
  void run_chain(size_t first, int64_t begin, int64_t n, int64_t lines);
  static char* values_at(const Stream& stream, int64_t begin);
  static void repeat(const Stream& stream, int64_t length);

  uint64_t prepared_for_ = 0;
  const FusedTiles* tiles_ = nullptr;
  const mydev_frame* outer_ = nullptr;
  int64_t placed_ = -1;  // the tile that the buffers lie in, if no iteration has moved them
  // The next tile, if it can run the calls of the last one with addresses further on, as all tiles before end_ can;
  // else -1.
  int64_t next_ = -1, end_ = -1;
  std::vector<std::max_align_t> memory_, values_;
  std::vector<int64_t> sizes_;  // of the tile
  std::vector<mydev_buffer> buffers_;
  std::vector<mydev_frame> frames_;  // one for each step
  std::vector<Placed> placed_buffers_;
  std::vector<std::pair<size_t, int64_t>> moving_;  // buffers, and their bytes from iteration to iteration
  std::vector<Stream> streams_;                     // one for each buffer
  std::vector<size_t> first_buffer_;                // of each step
  std::vector<std::vector<size_t>> followed_;       // streams that lines move, by the first steps of their groups
  std::vector<Chain> chains_;                       // by their first steps
  std::vector<Rows> rows_;                          // by their steps
  void (*drain_)() = nullptr;                       // of what is streamed
  std::vector<PointwiseCall> calls_;                // of each step, if iterations are these calls and nothing else
};

}  // namespace mydev::kernels
