// Tiles of attention: the scores of a block of keys by a panel of queries, the queries along the vectors, so that
// maxima and sums over keys are vectors, and every product is one with a panel (panel_product.h).
#pragma once

#include <algorithm>
#include <limits>

#include "host_kernels/attention_loops.h"
#include "host_kernels/isa/products/panel_product.h"
#include "host_kernels/isa/random/philox_words.h"
#include "host_kernels/isa/simd/dense_values.h"
#include "host_kernels/isa/simd/element_chunk.h"

namespace mydev::kernels::MYDEV_ISA {
namespace {

template <typename C>
inline constexpr int64_t kPanel = 2 * kLanes<C>;  // queries
inline constexpr int64_t kKeyBlock = 64;
inline constexpr int64_t kCacheLine = 64;

// Hands out parts of a task's memory, each from a cache line on.
class Memory {
 public:
  explicit Memory(void* data) : data_(static_cast<char*>(data)) {}
  template <typename C>
  C* take(int64_t count) {
    C* part = reinterpret_cast<C*>(data_);
    data_ += rounded<C>(count);
    return part;
  }
  template <typename C>
  static int64_t rounded(int64_t count) {
    return (count * static_cast<int64_t>(sizeof(C)) + kCacheLine - 1) / kCacheLine * kCacheLine;
  }

 private:
  char* data_;
};

template <typename C>
int64_t whole_vectors(int64_t count) {
  return (count + kLanes<C> - 1) / kLanes<C> * kLanes<C>;
}

// The rows of an operand [batch, heads, rows, width], as values of C.
template <typename C>
class Rows {
 public:
  explicit Rows(const mydev_buffer& buffer) : buffer_(buffer), reader_(buffer.dtype), writer_(buffer.dtype) {}

  char* at(int64_t batch, int64_t head, int64_t row) const {
    const int64_t* strides = buffer_.strides;
    return static_cast<char*>(buffer_.data) +
           (batch * strides[0] + head * strides[1] + row * strides[2]) * reader_.element_bytes();
  }
  // Elements [first, first + count) of a row.
  void read(const char* row, int64_t first, int64_t count, C* to) const {
    const int64_t stride = buffer_.rank > 3 ? buffer_.strides[3] : 1;
    for (int64_t i = 0; i < count; i += kChunk) {
      const int64_t n = std::min(kChunk, count - i);
      const C* values = reader_.read(row + (first + i) * stride * reader_.element_bytes(), stride, n, to + i);
      if (values != to + i) std::copy_n(values, n, to + i);
    }
  }
  void write(const C* from, char* row, int64_t count) const {
    writer_.write(from, row, buffer_.rank > 3 ? buffer_.strides[3] : 1, count);
  }
  // The rows of a head where they lie, if they are values of C; else copied to `space`, dense.
  MatrixView<C> matrix(int64_t batch, int64_t head, int64_t first, int64_t rows, C* space) const {
    if (is_direct())
      return {reinterpret_cast<const C*>(at(batch, head, first)), buffer_.strides[2], buffer_.strides[3]};
    const int64_t width = buffer_.sizes[3];
    for (int64_t i = 0; i < rows; ++i) read(at(batch, head, first + i), 0, width, space + i * width);
    return {space, width, 1};
  }
  bool is_direct() const { return buffer_.dtype == kDtypeOf<C>; }

 private:
  const mydev_buffer& buffer_;
  ChunkReader<C> reader_;
  ChunkWriter<C> writer_;
};

// Rows [first, first + count) of a head as the columns of panel[width][kPanel]; the columns beyond are 0. `space` holds
// a row.
template <typename C>
void pack_panel(const Rows<C>& rows, int64_t batch, int64_t head, int64_t first, int64_t count, int64_t width,
                double scale, C* panel, C* space) {
  const C factor = static_cast<C>(scale);
  if (count < kPanel<C>) std::fill_n(panel, width * kPanel<C>, C{0});
  for (int64_t q = 0; q < count; ++q) {
    rows.read(rows.at(batch, head, first + q), 0, width, space);
    for (int64_t d = 0; d < width; ++d) panel[d * kPanel<C> + q] = space[d] * factor;
  }
}

// The columns of a panel as rows of an operand.
template <typename C>
void unpack_panel(const C* panel, const Rows<C>& rows, int64_t batch, int64_t head, int64_t first, int64_t count,
                  int64_t width, double scale, C* space) {
  const C factor = static_cast<C>(scale);
  for (int64_t q = 0; q < count; ++q) {
    for (int64_t d = 0; d < width; ++d) space[d] = panel[d * kPanel<C> + q] * factor;
    rows.write(space, rows.at(batch, head, first + q), width);
  }
}

// The place of a tile: keys [key, key + keys), queries [query, query + queries) of a head of the query.
struct TilePlace {
  int64_t batch, head, query, queries, key, keys;
};

// Adds the mask to scores[keys][kPanel], and hides what lies behind the diagonal.
template <typename C>
class Masking {
 public:
  explicit Masking(const AttentionProblem& problem)
      : problem_(problem), rows_(*problem.mask), present_(problem.mask->data != nullptr) {}

  void apply(const TilePlace& place, C* scores) const {
    if (present_) add_mask(place, scores);
    if (!problem_.is_causal) return;
    for (int64_t k = 0; k < place.keys; ++k) {
      const int64_t hidden = std::min(place.key + k - place.query, kPanel<C>);  // queries before the key
      for (int64_t q = 0; q < hidden; ++q) scores[k * kPanel<C> + q] = -std::numeric_limits<C>::infinity();
    }
  }
  // The scores of the one query there is, side by side, and of keys that it sees.
  void apply_to_one(int64_t batch, int64_t head, int64_t key, int64_t keys, C* scores) const {
    if (!present_) return;
    alignas(64) C row[kKeyBlock];
    read_row(rows_.at(batch, head, 0), key, keys, row);
    for (int64_t k = 0; k < keys; ++k) scores[k] += row[k];
  }
  // Keys that the queries before `end` see.
  int64_t visible(int64_t end) const { return problem_.is_causal ? std::min(problem_.keys, end) : problem_.keys; }

 private:
  void read_row(const char* at, int64_t key, int64_t keys, C* row) const {
    rows_.read(at, key, keys, row);
    if (problem_.mask->dtype != MYDEV_PRED) return;
    for (int64_t k = 0; k < keys; ++k) row[k] = row[k] != 0 ? C{0} : -std::numeric_limits<C>::infinity();
  }

  void add_mask(const TilePlace& place, C* scores) const {
    alignas(64) C row[kKeyBlock];
    const bool is_one_row = problem_.mask->strides[2] == 0;
    for (int64_t q = 0; q < (is_one_row ? 1 : place.queries); ++q) {
      read_row(rows_.at(place.batch, place.head, place.query + q), place.key, place.keys, row);
      for (int64_t k = 0; k < place.keys; ++k) {
        C* to = scores + k * kPanel<C>;
        if (is_one_row) {
          for (int64_t j = 0; j < kPanel<C>; ++j) to[j] += row[k];
        } else {
          to[q] += row[k];
        }
      }
    }
  }

  const AttentionProblem& problem_;
  Rows<C> rows_;
  bool present_;
};

// Which weights dropout keeps: the row of each query has words of its own, from the block that the row begins with.
template <typename C>
class Dropping {
 public:
  explicit Dropping(const AttentionProblem& problem)
      : problem_(problem),
        below_(philox_threshold(1 - problem.dropout)),
        factor_(problem.dropout < 1 ? static_cast<C>(1 / (1 - problem.dropout)) : C{0}) {}
  bool drops() const { return problem_.dropout > 0; }

  // kept[keys][kPanel]: 1 / (1 - dropout) or 0. A block of keys begins with a block of words.
  void draw(const TilePlace& place, C* kept) const {
    alignas(64) uint32_t words[kKeyBlock];
    static_assert(kKeyBlock == 4 * kPhiloxBatch);
    for (int64_t q = 0; q < place.queries; ++q) {
      const int64_t row = (place.batch * problem_.heads + place.head) * problem_.queries + place.query + q;
      const uint64_t first = static_cast<uint64_t>(row) * problem_.blocks_per_row();
      philox_words(problem_.seed, problem_.offset + first + static_cast<uint64_t>(place.key / 4), kPhiloxBatch, words);
      for (int64_t k = 0; k < place.keys; ++k) kept[k * kPanel<C> + q] = words[k] < below_ ? factor_ : C{0};
    }
  }

 private:
  const AttentionProblem& problem_;
  uint64_t below_;
  C factor_;
};

}  // namespace
}  // namespace mydev::kernels::MYDEV_ISA
