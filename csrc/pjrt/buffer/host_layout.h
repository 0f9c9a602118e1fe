// The layout of elements in the host's memory: strides of any sign, in bytes. A buffer's own elements are dense and
// row-major.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "pjrt/base/shape.h"

namespace mydev::pjrt {

using ByteStrides = std::vector<int64_t>;

ByteStrides dense_strides(const Shape& shape);
// Returns nothing if the strides are those of a dense row-major array, as far as there are elements.
std::optional<ByteStrides> strides_unless_dense(const Shape& shape, std::span<const int64_t> byte_strides);
// Returns the strides of a layout that the client gives; nothing if it is dense, as NULL is. Raises INVALID_ARGUMENT
// for one that does not fit the shape, UNIMPLEMENTED for tiles.
std::optional<ByteStrides> strides_of(const PJRT_Buffer_MemoryLayout* layout, const Shape& shape);
// Checks a layout of device memory: raises UNIMPLEMENTED unless it is NULL or dense and row-major.
void check_dense(const PJRT_Buffer_MemoryLayout* layout, const Shape& shape);
// Returns the bytes from the first element to the end of the last one. Strides must not be negative.
uint64_t extent(const Shape& shape, const ByteStrides& strides);

// Copy to dense memory, and from it. The memories must not overlap.
void pack(const Shape& shape, void* dense, const void* strided, const ByteStrides& strides);
void unpack(const Shape& shape, void* strided, const ByteStrides& strides, const void* dense);

}  // namespace mydev::pjrt
