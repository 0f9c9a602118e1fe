#include "pjrt/buffer/host_layout.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "runtime/base/status.h"

namespace mydev::pjrt {

namespace {

// Copies a row of the innermost dimension.
template <size_t kBytes>
void copy_row(std::byte* dst, int64_t dst_stride, const std::byte* src, int64_t src_stride, int64_t count) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(dst + i * dst_stride, src + i * src_stride, kBytes);
}

using CopyRow = void (*)(std::byte*, int64_t, const std::byte*, int64_t, int64_t);

// For elements of 1, 2, 4, 8 and 16 bytes.
constexpr std::array<CopyRow, 5> kRowCopiers = {copy_row<1>, copy_row<2>, copy_row<4>, copy_row<8>, copy_row<16>};

void copy_elements(const Shape& shape, std::byte* dst, const ByteStrides& dst_strides, const std::byte* src,
                   const ByteStrides& src_strides) {
  if (shape.bytes == 0) return;
  const CopyRow copy = kRowCopiers.at(static_cast<size_t>(std::countr_zero(shape.type->bytes)));
  const size_t rank = shape.sizes.size();
  if (rank == 0) {
    copy(dst, 0, src, 0, 1);
    return;
  }
  const size_t inner = rank - 1;
  std::vector<int64_t> index(rank, 0);
  while (true) {
    copy(dst, dst_strides[inner], src, src_strides[inner], shape.sizes[inner]);
    size_t d = inner;
    while (true) {  // to the next row
      if (d == 0) return;
      --d;
      dst += dst_strides[d];
      src += src_strides[d];
      if (++index[d] < shape.sizes[d]) break;
      dst -= dst_strides[d] * shape.sizes[d];
      src -= src_strides[d] * shape.sizes[d];
      index[d] = 0;
    }
  }
}

// The layout names the dimensions in `minor_to_major`, the one that varies fastest first.
ByteStrides strides_in_order(const Shape& shape, std::span<const int64_t> minor_to_major) {
  const size_t rank = shape.sizes.size();
  MYDEV_CHECK(minor_to_major.size() == rank, MYDEV_INVALID_ARGUMENT, "the layout has ", minor_to_major.size(),
              " dimensions, and ", describe(shape), " has ", rank);
  ByteStrides strides(rank, 0);
  std::vector<bool> seen(rank, false);
  int64_t stride = shape.type->bytes;
  for (const int64_t d : minor_to_major) {
    MYDEV_CHECK(d >= 0 && static_cast<size_t>(d) < rank && !seen[static_cast<size_t>(d)], MYDEV_INVALID_ARGUMENT,
                "the layout of ", describe(shape), " names dimension ", d, " twice, or there is no such dimension");
    const auto dimension = static_cast<size_t>(d);
    seen[dimension] = true;
    strides[dimension] = stride;
    stride *= std::max<int64_t>(shape.sizes[dimension], 1);
  }
  return strides;
}

}  // namespace

ByteStrides dense_strides(const Shape& shape) {
  return strides_in_order(shape, shape.minor_to_major);
}

std::optional<ByteStrides> strides_unless_dense(const Shape& shape, std::span<const int64_t> byte_strides) {
  MYDEV_CHECK(byte_strides.size() == shape.sizes.size(), MYDEV_INVALID_ARGUMENT, byte_strides.size(),
              " strides were given for ", describe(shape));
  const ByteStrides dense = dense_strides(shape);
  for (size_t d = 0; d < dense.size(); ++d) {
    if (shape.sizes[d] > 1 && byte_strides[d] != dense[d] && shape.bytes != 0) {
      return ByteStrides(byte_strides.begin(), byte_strides.end());
    }
  }
  return std::nullopt;
}

std::optional<ByteStrides> strides_of(const PJRT_Buffer_MemoryLayout* layout, const Shape& shape) {
  if (layout == nullptr) return std::nullopt;
  if (layout->type == PJRT_Buffer_MemoryLayout_Type_Strides) {
    return strides_unless_dense(shape, {layout->strides.byte_strides, layout->strides.num_byte_strides});
  }
  MYDEV_CHECK(layout->type == PJRT_Buffer_MemoryLayout_Type_Tiled, MYDEV_INVALID_ARGUMENT, "layout type ",
              static_cast<int>(layout->type), " is not known; there are 0 (tiled) and 1 (strides)");
  MYDEV_CHECK(layout->tiled.num_tiles == 0, MYDEV_UNIMPLEMENTED, "a layout of ", describe(shape), " with ",
              layout->tiled.num_tiles, " tiles is not supported; use one without");
  return strides_unless_dense(
      shape, strides_in_order(shape, {layout->tiled.minor_to_major, layout->tiled.minor_to_major_size}));
}

void check_dense(const PJRT_Buffer_MemoryLayout* layout, const Shape& shape) {
  MYDEV_CHECK(!strides_of(layout, shape).has_value(), MYDEV_UNIMPLEMENTED, "a device layout of ", describe(shape),
              " other than dense and row-major is not supported; leave the layout out");
}

uint64_t extent(const Shape& shape, const ByteStrides& strides) {
  if (shape.bytes == 0) return 0;
  auto bytes = static_cast<uint64_t>(shape.type->bytes);
  for (size_t d = 0; d < strides.size(); ++d) {
    MYDEV_CHECK(strides[d] >= 0, MYDEV_INVALID_ARGUMENT, "dimension ", d, " of the host's layout of ", describe(shape),
                " has the negative stride ", strides[d]);
    bytes += static_cast<uint64_t>(strides[d]) * static_cast<uint64_t>(shape.sizes[d] - 1);
  }
  return bytes;
}

void pack(const Shape& shape, void* dense, const void* strided, const ByteStrides& strides) {
  copy_elements(shape, static_cast<std::byte*>(dense), dense_strides(shape), static_cast<const std::byte*>(strided),
                strides);
}

void unpack(const Shape& shape, void* strided, const ByteStrides& strides, const void* dense) {
  copy_elements(shape, static_cast<std::byte*>(strided), strides, static_cast<const std::byte*>(dense),
                dense_strides(shape));
}

}  // namespace mydev::pjrt
