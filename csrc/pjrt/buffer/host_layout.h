// How elements lie in the host's memory: with strides of any sign, in bytes, where a buffer's are dense and row-major.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "pjrt/base/shape.h"

namespace mydev::pjrt {

using ByteStrides = std::vector<int64_t>;

ByteStrides dense_strides(const Shape& shape);
// Nothing where the strides are those of a dense row-major array, as far as there are elements.
std::optional<ByteStrides> strides_unless_dense(const Shape& shape, std::span<const int64_t> byte_strides);
// Of a layout that the client gives, which may be NULL: dense. Raises INVALID_ARGUMENT for one that does not fit the
// shape, UNIMPLEMENTED for tiles.
std::optional<ByteStrides> strides_of(const PJRT_Buffer_MemoryLayout* layout, const Shape& shape);
// Raises UNIMPLEMENTED unless the layout, which may be NULL, is dense and row-major: of device memory.
void check_dense(const PJRT_Buffer_MemoryLayout* layout, const Shape& shape);
// Bytes from the first element to behind the last one; strides must not be negative.
uint64_t extent(const Shape& shape, const ByteStrides& strides);

// To dense memory, and from it. No overlap.
void pack(const Shape& shape, void* dense, const void* strided, const ByteStrides& strides);
void unpack(const Shape& shape, void* strided, const ByteStrides& strides, const void* dense);

}  // namespace mydev::pjrt
