// Kernel group position: indices of several dimensions as positions in a dense tensor, and the positions of elements
// that are not zero.
#include <algorithm>
#include <atomic>
#include <cstdio>

#include "host_kernels/isa/simd/element_chunk.h"
#include "host_kernels/strided_layout.h"
#include "runtime/base/parallel.h"
#include "runtime/frame/dtype.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

mydev_code refuse_index(const mydev_frame* frame, int64_t index, int64_t size) {
  char message[128];
  std::snprintf(message, sizeof(message), "index %lld is out of bounds for dimension %lld with size %lld",
                static_cast<long long>(index), static_cast<long long>(frame->attributes[1].value.i),
                static_cast<long long>(size));
  frame->host->set_error(frame, message);
  return MYDEV_OUT_OF_RANGE;
}

mydev_code flat_index(const mydev_frame* frame) {
  StridedLayout layout;
  const int32_t dtype = frame->buffers[2].dtype;
  if (!have_dtype(frame, 0, 2, MYDEV_S64) || (dtype != MYDEV_S64 && dtype != MYDEV_S32)) return MYDEV_UNIMPLEMENTED;
  if (!make_layout(frame->buffers, 3, layout)) return MYDEV_UNIMPLEMENTED;
  const int64_t size = frame->attributes[0].value.i, bytes = dtype_row(dtype).size;
  const bool has_outer = frame->buffers[1].data != nullptr;
  std::atomic<int64_t> bad{0};
  std::atomic<bool> found{false};
  parallel_for(layout.count, kGrainHeavy, [&](int64_t begin, int64_t end) {
    alignas(64) int64_t outer[kChunk], index[kChunk], positions[kChunk];
    alignas(64) int32_t narrow[kChunk];
    for (int64_t at = begin; at < end; at += kChunk) {
      const int64_t n = std::min(kChunk, end - at);
      void* const wanted = dtype == MYDEV_S64 ? static_cast<void*>(index) : narrow;
      gather(wanted, layout, 2, frame->buffers[2].data, at, n, bytes);
      if (dtype == MYDEV_S32) std::copy(narrow, narrow + n, index);
      if (has_outer) gather(outer, layout, 1, frame->buffers[1].data, at, n, sizeof(int64_t));
      for (int64_t i = 0; i < n; ++i) {
        if (index[i] < -size || index[i] >= size) {
          bad.store(index[i], std::memory_order_relaxed);  // both read after all threads are joined
          found.store(true, std::memory_order_relaxed);
          return;
        }
        const int64_t within = index[i] < 0 ? index[i] + size : index[i];
        positions[i] = has_outer ? outer[i] * size + within : within;
      }
      scatter(positions, layout, 0, frame->buffers[0].data, at, n, sizeof(int64_t));
    }
  });
  if (found.load(std::memory_order_relaxed)) return refuse_index(frame, bad.load(std::memory_order_relaxed), size);
  return MYDEV_OK;
}

// Two passes over pieces that threads share: how many each has, then their places. Blocks of zeros are passed over, and
// the others written without a branch for each element.
constexpr int64_t kPiece = 16384;
constexpr int64_t kBlock = 16;

int64_t piece_count_of(const mydev_buffer& in) {
  return (in.sizes[0] + kPiece - 1) / kPiece;
}

template <typename Element>
bool is_zero(const Element& element) {
  return element_cast<uint8_t>(element_cast<Truth>(element)) == 0;
}

template <typename Element>
mydev_code nonzero_as(const mydev_frame* frame) {
  const mydev_buffer &out = frame->buffers[0], &in = frame->buffers[1];
  const Element* const elements = static_cast<const Element*>(in.data);
  const int64_t count = in.sizes[0], pieces = piece_count_of(in), places = out.sizes[0];
  int64_t* const starts = static_cast<int64_t*>(frame->scratch);
  parallel_for(pieces, 2, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece) {
      int64_t found = 0;
      const int64_t end = std::min((piece + 1) * kPiece, count);
      for (int64_t i = piece * kPiece; i < end; ++i) found += is_zero(elements[i]) ? 0 : 1;
      starts[piece] = found;
    }
  });
  int64_t total = 0;
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const int64_t found = starts[piece];
    starts[piece] = total;
    total += found;
  }
  int64_t* const positions = static_cast<int64_t*>(out.data);
  parallel_for(pieces, 2, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece) {
      int64_t place = starts[piece], i = piece * kPiece;
      const int64_t end = std::min((piece + 1) * kPiece, count);
      // A block writes beyond its last place, but not into those of the next piece, which another thread may write.
      const int64_t own_end = std::min(places, piece + 1 < pieces ? starts[piece + 1] : total);
      for (; i + kBlock <= end && place + kBlock <= own_end; i += kBlock) {
        uint8_t any = 0;
        for (int64_t j = i; j < i + kBlock; ++j) any |= is_zero(elements[j]) ? 0 : 1;
        for (int64_t j = i; any != 0 && j < i + kBlock; ++j) {
          positions[place] = j;
          place += is_zero(elements[j]) ? 0 : 1;
        }
      }
      for (; i < end && place < places; ++i) {
        if (!is_zero(elements[i])) positions[place++] = i;
      }
    }
  });
  for (int64_t place = total; place < places; ++place) positions[place] = count;
  return MYDEV_OK;
}

mydev_code nonzero(const mydev_frame* frame) {
  if (frame->buffers[0].dtype != MYDEV_S64) return MYDEV_UNIMPLEMENTED;
  mydev_code code = MYDEV_UNIMPLEMENTED;
  visit_element_type(frame->buffers[1].dtype, [&]<typename Element>() { code = nonzero_as<Element>(frame); });
  return code;
}

uint64_t start_bytes(const mydev_frame* frame) {
  return static_cast<uint64_t>(piece_count_of(frame->buffers[1])) * sizeof(int64_t);
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.flat_index", flat_index),
    kernel_record("mydev.nonzero", nonzero, start_bytes),
};

}  // namespace

std::span<const mydev_kernel> position() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
