#include "host_driver/host_copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "driver_support/element_size.h"
#include "host_driver/host_error.h"

namespace mydev::host_driver {

namespace {

constexpr int64_t kTile = 64;                 // elements on a side
constexpr int64_t kBytesOfAThread = 1 << 19;  // that make a second thread worth its while

}  // namespace

void copy_bytes(void* dst, const void* src, uint64_t bytes, const mydev_host_services* threads) {
  struct Task {
    char* dst;
    const char* src;
  };
  if (threads == nullptr || static_cast<int64_t>(bytes) < 2 * kBytesOfAThread) {
    std::memcpy(dst, src, bytes);
    return;
  }
  Task task{static_cast<char*>(dst), static_cast<const char*>(src)};
  const auto copy_piece = [](void* context, int64_t begin, int64_t end) {
    const Task& task = *static_cast<Task*>(context);
    std::memcpy(task.dst + begin, task.src + begin, static_cast<size_t>(end - begin));
  };
  threads->parallel_for(static_cast<int64_t>(bytes), kBytesOfAThread, copy_piece, &task);
}

void fill_bytes(void* dst, uint64_t bytes, const Pattern& pattern) {
  auto* out = static_cast<char*>(dst);
  if (std::all_of(pattern.bytes.begin(), pattern.bytes.begin() + pattern.size,
                  [&](char byte) { return byte == pattern.bytes[0]; })) {
    std::memset(out, pattern.bytes[0], bytes);
    return;
  }
  // Copies the bytes that are filled already behind themselves, so that they double, in pieces that stay within the
  // cache.
  constexpr uint64_t kLongestPiece = uint64_t{16} << 10;
  uint64_t done = std::min<uint64_t>(pattern.size, bytes);
  std::memcpy(out, pattern.bytes.data(), done);
  while (done < bytes) {
    const uint64_t piece = std::min({done, bytes - done, kLongestPiece});
    std::memcpy(out + done, out, piece);
    done += piece;
  }
}

// --- views -----------------------------------------------------------------------------------------------------------

StridedCopy::StridedCopy(const mydev_buffer& dst, const mydev_buffer& src)
    : dst_(static_cast<char*>(dst.data)),
      src_(static_cast<const char*>(src.data)),
      element_(driver_support::element_size(dst.dtype)) {
  require(dst.dtype == src.dtype, MYDEV_INVALID_ARGUMENT, "a strided copy from dtype ", src.dtype, " to dtype ",
          dst.dtype, "; both views have one");
  require(dst.rank == src.rank && std::equal(dst.sizes, dst.sizes + dst.rank, src.sizes), MYDEV_INVALID_ARGUMENT,
          "a strided copy between views of different sizes, of rank ", src.rank, " and ", dst.rank);
  std::vector<Dimension> dimensions;
  for (int32_t i = 0; i < dst.rank; ++i) {
    if (dst.sizes[i] != 1) dimensions.push_back({dst.sizes[i], dst.strides[i] * element_, src.strides[i] * element_});
  }
  merge(std::move(dimensions));
}

void StridedCopy::merge(std::vector<Dimension> dimensions) {
  std::stable_sort(dimensions.begin(), dimensions.end(), [](const Dimension& a, const Dimension& b) {
    return std::abs(a.dst) > std::abs(b.dst);  // the innermost last
  });
  for (const Dimension& inner : dimensions) {
    if (!outer_.empty() && outer_.back().dst == inner.dst * inner.size && outer_.back().src == inner.src * inner.size) {
      outer_.back() = {outer_.back().size * inner.size, inner.dst, inner.src};
    } else {
      outer_.push_back(inner);
    }
  }
  if (outer_.empty()) return;
  column_ = outer_.back();
  outer_.pop_back();
  if (outer_.empty()) return;
  const auto densest = std::min_element(outer_.begin(), outer_.end(), [](const Dimension& a, const Dimension& b) {
    return std::abs(a.src) < std::abs(b.src);
  });
  row_ = *densest;
  outer_.erase(densest);
}

template <int64_t kSize>
void StridedCopy::copy_tile(char* dst, const char* src, int64_t rows) const {
  if (column_.dst == kSize && column_.src == kSize) {
    for (int64_t row = 0; row < rows; ++row) {
      std::memcpy(dst + row * row_.dst, src + row * row_.src, static_cast<size_t>(column_.size * kSize));
    }
    return;
  }
  for (int64_t begin = 0; begin < column_.size; begin += kTile) {
    const int64_t end = std::min(begin + kTile, column_.size);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = begin; column < end; ++column) {
        std::memcpy(dst + row * row_.dst + column * column_.dst, src + row * row_.src + column * column_.src, kSize);
      }
    }
  }
}

// Tiles are numbered through the rows of one place in the outer dimensions, then through these.
void StridedCopy::copy_tiles(int64_t begin, int64_t end) const {
  const int64_t tiles_of_rows = (row_.size + kTile - 1) / kTile;
  for (int64_t tile = begin; tile < end; ++tile) {
    const int64_t first_row = tile % tiles_of_rows * kTile;
    int64_t place = tile / tiles_of_rows;
    char* dst = dst_ + first_row * row_.dst;
    const char* src = src_ + first_row * row_.src;
    for (auto dimension = outer_.rbegin(); dimension != outer_.rend(); ++dimension) {
      dst += place % dimension->size * dimension->dst;
      src += place % dimension->size * dimension->src;
      place /= dimension->size;
    }
    const int64_t rows = std::min(kTile, row_.size - first_row);
    switch (element_) {
      case 1:
        copy_tile<1>(dst, src, rows);
        break;
      case 2:
        copy_tile<2>(dst, src, rows);
        break;
      case 4:
        copy_tile<4>(dst, src, rows);
        break;
      case 8:
        copy_tile<8>(dst, src, rows);
        break;
      default:
        copy_tile<16>(dst, src, rows);
    }
  }
}

uint64_t StridedCopy::bytes() const noexcept {
  int64_t bytes = element_ * row_.size * column_.size;
  for (const Dimension& dimension : outer_) bytes *= dimension.size;
  return static_cast<uint64_t>(bytes);
}

void StridedCopy::run(const mydev_host_services* threads) const {
  int64_t tiles = (row_.size + kTile - 1) / kTile;
  for (const Dimension& dimension : outer_) tiles *= dimension.size;
  if (tiles == 0 || column_.size == 0) return;
  const int64_t tile_bytes = std::min(row_.size, kTile) * column_.size * element_;
  const int64_t grain = std::max<int64_t>(1, kBytesOfAThread / tile_bytes);
  if (threads == nullptr || tiles < 2 * grain) {
    copy_tiles(0, tiles);
    return;
  }
  const auto copy_piece = [](void* context, int64_t begin, int64_t end) {
    static_cast<const StridedCopy*>(context)->copy_tiles(begin, end);
  };
  threads->parallel_for(tiles, grain, copy_piece, const_cast<StridedCopy*>(this));
}

}  // namespace mydev::host_driver
