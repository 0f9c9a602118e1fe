// How a pointwise kernel's function reaches operands of any strides and types: pieces of rows, or tiles where inputs
// are transposed. Values pass through small buffers unless they lie dense in the compute type.
#pragma once

#include <algorithm>
#include <cstring>

#include "host_kernels/isa/pointwise/pointwise.h"
#include "host_kernels/isa/simd/element_conversion.h"
#include "host_kernels/isa/simd/strided_runs.h"
#include "host_kernels/isa/simd/transposed_tile.h"
#include "host_kernels/strided_layout.h"

namespace mydev::kernels::MYDEV_ISA {
namespace {

constexpr int64_t kBufferBytes = 2048;  // per buffer: four operands with two buffers each stay in a 32 KiB L1
constexpr int kOperands = kMaxInputs + 1;

enum class Access {
  kDirect,   // dense along a row, of the compute type: used where it lies
  kConvert,  // dense along a row, of another type
  kGather,   // strided
  kUniform,  // one value along a row
};

struct Operand {
  char* base;
  int64_t size;          // bytes of an element in memory
  int64_t compute_size;  // and in the compute type, never fewer
  Convert convert;       // to the compute type; of the output: from it; nullptr: same type
  Access access;
};

// All that the threads of one launch share.
struct Plan {
  const Params* params;
  Apply apply;
  int inputs;
  int64_t chunk;       // elements that fit a buffer
  bool buffered;       // some operand needs a buffer
  bool by_row;         // rows are long: a piece never crosses the end of one
  int transposed = 0;  // the dimension along which all strided inputs are dense; 0: they are not
  Operand operands[kOperands];
  StridedLayout layout;
};

Access choose_access(const Plan& plan, int k) {
  const Operand& operand = plan.operands[k];
  const int64_t stride = plan.layout.strides[k][0];
  const bool dense = plan.by_row ? stride == operand.size : plan.layout.dense(k, operand.size);
  if (dense) return operand.convert == nullptr ? Access::kDirect : Access::kConvert;
  return plan.by_row && stride == 0 && k > 0 ? Access::kUniform : Access::kGather;
}

// One thread's share: linear positions [begin, end).
class Worker {
 public:
  explicit Worker(const Plan& plan) : plan_(plan) {}

  void run(int64_t begin, int64_t end) {
    if (plan_.by_row && plan_.layout.rank > 1) return run_rows(begin, end);
    const int64_t most = plan_.buffered ? plan_.chunk : end - begin;
    for (int64_t position = begin; position < end; position += most) {
      char* first[kOperands];
      find(position, first);
      run_piece(first, position, std::min(most, end - position));
    }
  }

 private:
  // Row by row. The operands' first elements move from row to row by their strides, without a division.
  void run_rows(int64_t begin, int64_t end) {
    const StridedLayout& layout = plan_.layout;
    const int operands = plan_.inputs + 1;
    const int64_t row = layout.sizes[0];
    int64_t index[kMaxLoopRank], step[kOperands] = {};
    int64_t rest = begin / row;
    for (int d = 1; d < layout.rank; ++d) {
      index[d] = rest % layout.sizes[d];
      rest /= layout.sizes[d];
    }
    for (int k = 0; k < operands; ++k) step[k] = layout.strides[k][1];
    int64_t column = begin % row;
    char* first[kOperands] = {};  // of the row
    find(begin - column, first);
    for (int64_t position = begin; position < end;) {
      const int64_t n = std::min(row - column, end - position);
      if (column == 0 && !plan_.buffered) {
        plan_.apply(*plan_.params, first[0], reinterpret_cast<const void* const*>(first + 1), n);
      } else {
        run_part_of_row(first, column, position, n);
        column = 0;
      }
      position += n;
      for (int k = 0; k < kOperands; ++k) first[k] += step[k];
      for (int d = 1; ++index[d] == layout.sizes[d] && d + 1 < layout.rank; ++d) {
        index[d] = 0;
        for (int k = 0; k < operands; ++k) {
          first[k] += layout.strides[k][d + 1] - layout.sizes[d] * layout.strides[k][d];
        }
      }
    }
  }

  void run_part_of_row(char* const* first, int64_t column, int64_t position, int64_t n) {
    const int64_t most = plan_.buffered ? plan_.chunk : n;
    for (int64_t done = 0; done < n; done += most) {
      char* piece[kOperands];
      for (int k = 0; k <= plan_.inputs; ++k) piece[k] = first[k] + (column + done) * plan_.layout.strides[k][0];
      run_piece(piece, position + done, std::min(most, n - done));
    }
  }

  void find(int64_t position, char** first) const {
    for (int k = 0; k <= plan_.inputs; ++k) first[k] = plan_.operands[k].base + plan_.layout.offset(k, position);
  }

  // n elements from `position` on; operand k's begin at first[k].
  void run_piece(char* const* first, int64_t position, int64_t n) {
    const void* in[kMaxInputs];
    for (int k = 1; k <= plan_.inputs; ++k) in[k - 1] = fetch(k, first[k], position, n);
    const Operand& out = plan_.operands[0];
    switch (out.access) {
      case Access::kDirect:
        plan_.apply(*plan_.params, first[0], in, n);
        break;
      case Access::kConvert:
        plan_.apply(*plan_.params, values_[0], in, n);
        out.convert(first[0], values_[0], n);
        break;
      default:
        plan_.apply(*plan_.params, values_[0], in, n);
        const char* stored = values_[0];
        if (out.convert != nullptr) {
          out.convert(raw_, values_[0], n);
          stored = raw_;
        }
        scatter(stored, plan_.layout, 0, out.base, position, n, out.size);
        break;
    }
  }

  // n compute values of operand k, from `position` on, where its element is `first`.
  const char* fetch(int k, const char* first, int64_t position, int64_t n) {
    const Operand& operand = plan_.operands[k];
    char* values = values_[k];
    switch (operand.access) {
      case Access::kDirect:
        return first;
      case Access::kConvert:
        operand.convert(values, first, n);
        return values;
      case Access::kUniform: {
        if (uniform_[k] == first && uniform_count_[k] >= n) return values;
        uniform_[k] = first;
        uniform_count_[k] = n;
        alignas(16) char converted[16];
        const char* value = first;
        if (operand.convert != nullptr) {
          operand.convert(converted, value, 1);
          value = converted;
        }
        fill_dense(values, value, n, operand.compute_size);
        return values;
      }
      case Access::kGather:
        if (operand.convert == nullptr) {
          gather(values, plan_.layout, k, operand.base, position, n, operand.size);
        } else {
          gather(raw_, plan_.layout, k, operand.base, position, n, operand.size);
          operand.convert(values, raw_, n);
        }
        return values;
    }
    return nullptr;
  }

  const Plan& plan_;
  const char* uniform_[kOperands] = {};  // what values_[k] is filled with, if uniform
  int64_t uniform_count_[kOperands] = {};
  alignas(64) char values_[kOperands][kBufferBytes];
  alignas(64) char raw_[kBufferBytes];
};

// --- inputs that are transposed --------------------------------------------------------------------------------------
//
// Tiles of rows along one dimension and columns along dimension 0, so that whole cache lines of the inputs are used.

constexpr int64_t kTileRows = 32, kTileColumns = 128;

void transpose_columns(char* tile, const char* in, int64_t in_row, int64_t rows, int64_t columns, int64_t bytes) {
  const auto transpose = [&]<typename T>(T* to) {
    for (int64_t c = 0; c < columns; c += kTile<T>) {
      transpose_into(to + c, kTileColumns, in + c * in_row, in_row, rows, std::min(kTile<T>, columns - c));
    }
  };
  switch (bytes) {
    case 1:
      return transpose(reinterpret_cast<uint8_t*>(tile));
    case 2:
      return transpose(reinterpret_cast<uint16_t*>(tile));
    case 4:
      return transpose(reinterpret_cast<uint32_t*>(tile));
    default:
      return transpose(reinterpret_cast<uint64_t*>(tile));
  }
}

// Returns the dimension, or 0. Operands must be planned.
int transposed_dimension(const Plan& plan) {
  const Operand& out = plan.operands[0];
  if (!plan.by_row || (out.access != Access::kDirect && out.access != Access::kConvert)) return 0;
  for (int d = 1; d < plan.layout.rank; ++d) {
    bool all = plan.layout.sizes[d] >= 8, any = false;
    for (int k = 1; all && k <= plan.inputs; ++k) {
      const Operand& operand = plan.operands[k];
      if (operand.access != Access::kGather) continue;
      all = plan.layout.strides[k][d] == operand.size && operand.size <= 8;
      any = true;
    }
    if (all && any) return d;
  }
  return 0;
}

class TransposingWorker {
 public:
  explicit TransposingWorker(const Plan& plan) : plan_(plan), d_(plan.transposed) {}

  // Tiles are numbered over the columns first.
  static int64_t count_tiles(const Plan& plan) {
    const int64_t columns = plan.layout.sizes[0], rows = plan.layout.sizes[plan.transposed];
    return plan.layout.count / (columns * rows) * tiles_of(columns, kTileColumns) * tiles_of(rows, kTileRows);
  }

  void run(int64_t begin, int64_t end) {
    const StridedLayout& layout = plan_.layout;
    const int64_t columns = layout.sizes[0], rows = layout.sizes[d_];
    for (int64_t t = begin; t < end; ++t) {
      const int64_t column = t % tiles_of(columns, kTileColumns) * kTileColumns;
      int64_t rest = t / tiles_of(columns, kTileColumns);
      const int64_t row = rest % tiles_of(rows, kTileRows) * kTileRows;
      rest /= tiles_of(rows, kTileRows);
      char* first[kOperands];
      for (int k = 0; k <= plan_.inputs; ++k) {
        first[k] = plan_.operands[k].base + column * layout.strides[k][0] + row * layout.strides[k][d_];
      }
      for (int other = 1; other < layout.rank; ++other) {
        if (other == d_) continue;
        const int64_t index = rest % layout.sizes[other];
        rest /= layout.sizes[other];
        for (int k = 0; k <= plan_.inputs; ++k) first[k] += index * layout.strides[k][other];
      }
      run_tile(first, std::min(kTileRows, rows - row), std::min(kTileColumns, columns - column));
    }
  }

 private:
  static int64_t tiles_of(int64_t size, int64_t side) { return (size + side - 1) / side; }

  void run_tile(char* const* first, int64_t rows, int64_t columns) {
    for (int k = 1; k <= plan_.inputs; ++k) {
      const Operand& operand = plan_.operands[k];
      if (operand.access == Access::kGather) {
        transpose_columns(tiles_[k - 1], first[k], plan_.layout.strides[k][0], rows, columns, operand.size);
      }
    }
    for (int64_t r = 0; r < rows; ++r) {
      const void* in[kMaxInputs];
      for (int k = 1; k <= plan_.inputs; ++k) in[k - 1] = fetch(k, first[k], r, columns);
      const Operand& out = plan_.operands[0];
      char* to = first[0] + r * plan_.layout.strides[0][d_];
      plan_.apply(*plan_.params, out.convert == nullptr ? to : values_[0], in, columns);
      if (out.convert != nullptr) out.convert(to, values_[0], columns);
    }
  }

  // The compute values of operand k in row r of the tile.
  const char* fetch(int k, const char* first, int64_t r, int64_t columns) {
    const Operand& operand = plan_.operands[k];
    const int64_t row_stride = plan_.layout.strides[k][d_];
    const char* row = first + r * row_stride;
    if (operand.access == Access::kUniform) {
      if (r == 0 || row_stride != 0) fill(k, row, columns);
      return values_[k];
    }
    if (operand.access == Access::kGather) row = tiles_[k - 1] + r * kTileColumns * operand.size;
    if (operand.convert == nullptr) return row;
    operand.convert(values_[k], row, columns);
    return values_[k];
  }

  void fill(int k, const char* value, int64_t columns) {
    const Operand& operand = plan_.operands[k];
    alignas(16) char converted[16];
    if (operand.convert != nullptr) {
      operand.convert(converted, value, 1);
      value = converted;
    }
    fill_dense(values_[k], value, columns, operand.compute_size);
  }

  const Plan& plan_;
  const int d_;
  alignas(64) char values_[kOperands][kTileColumns * 16];
  alignas(64) char tiles_[kMaxInputs][kTileRows * kTileColumns * 8];
};

}  // namespace
}  // namespace mydev::kernels::MYDEV_ISA
