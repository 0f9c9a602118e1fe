// Copies and fills of bytes: whole ranges, and views whose strides differ. Addresses are the host's own.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "mydev/driver.h"

namespace mydev::host_driver {

// Copies one number of 4 or 8 bytes, which is what item() reads; false, and nothing, for other lengths.
inline bool copy_number(void* dst, const void* src, uint64_t bytes) {
  if (bytes == 4) {
    std::memcpy(dst, src, 4);
  } else if (bytes == 8) {
    std::memcpy(dst, src, 8);
  } else {
    return false;
  }
  return true;
}
// `threads` has the thread pool; nullptr: on this thread alone.
void copy_bytes(void* dst, const void* src, uint64_t bytes, const mydev_host_services* threads);

struct Pattern {
  std::array<char, 16> bytes{};
  uint32_t size;
};
void fill_bytes(void* dst, uint64_t bytes, const Pattern& pattern);

// A copy between two views, ready to run: dimensions merged where both allow it, in the order of dst's memory.
class StridedCopy {
 public:
  // Raises INVALID_ARGUMENT for views that differ in size or dtype.
  StridedCopy(const mydev_buffer& dst, const mydev_buffer& src);
  void run(const mydev_host_services* threads) const;
  uint64_t bytes() const noexcept;  // that it moves

 private:
  // Strides are in bytes.
  struct Dimension {
    int64_t size, dst, src;
  };
  void merge(std::vector<Dimension> dimensions);
  void copy_tiles(int64_t begin, int64_t end) const;
  template <int64_t kSize>
  void copy_tile(char* dst, const char* src, int64_t rows) const;

  char* dst_;
  const char* src_;
  int64_t element_;
  std::vector<Dimension> outer_;
  Dimension row_{1, 0, 0};     // the two innermost: the one in which src lies densest, ...
  Dimension column_{1, 0, 0};  // ... and the one in which dst does
};

}  // namespace mydev::host_driver
