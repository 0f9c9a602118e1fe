// Kernels over lists of dense tensors in one launch: the lists' elements as pieces that threads share.
#pragma once

#include <algorithm>

#include "host_kernels/isa/simd/element_chunk.h"
#include "runtime/base/parallel.h"

namespace mydev::kernels::MYDEV_ISA {
namespace {

inline constexpr int64_t kListPiece = 8192;  // elements; a multiple of kChunk

inline int64_t element_count(const mydev_buffer& buffer) {
  int64_t count = 1;
  for (int32_t d = 0; d < buffer.rank; ++d) count *= buffer.sizes[d];
  return count;
}

inline int64_t piece_count(const mydev_buffer& buffer) {
  return (element_count(buffer) + kListPiece - 1) / kListPiece;
}

// Calls body(tensor, piece, begin, count) for each piece of each tensor of `list`; `piece` counts over the whole list.
template <typename Body>
void for_each_piece(const mydev_buffer* list, int64_t length, const Body& body) {
  int64_t pieces = 0, elements = 0;
  for (int64_t t = 0; t < length; ++t) {
    pieces += piece_count(list[t]);
    elements += element_count(list[t]);
  }
  const int64_t grain = elements < kListPiece ? pieces : 1;
  parallel_for(pieces, grain, [&](int64_t first, int64_t last) {
    int64_t tensor = 0, start = 0;  // of the tensor that holds the piece
    for (int64_t piece = first; piece < last; ++piece) {
      while (piece - start >= piece_count(list[tensor])) start += piece_count(list[tensor++]);
      const int64_t begin = (piece - start) * kListPiece;
      body(tensor, piece, begin, std::min(kListPiece, element_count(list[tensor]) - begin));
    }
  });
}

}  // namespace
}  // namespace mydev::kernels::MYDEV_ISA
