// A copy between two strided views as planes of rows, which is how CUDA copies. Raises UNIMPLEMENTED for views that it
// cannot copy so, or only slowly: the runtime then packs the elements.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "mydev/driver.h"

namespace mydev::cuda_driver {

class Rows {
 public:
  Rows(const mydev_buffer& dst, const mydev_buffer& src);

  uint64_t width() const noexcept { return width_; }  // of a row, in bytes
  uint64_t height() const noexcept { return height_.size; }
  uint64_t dst_pitch() const noexcept { return height_.dst; }
  uint64_t src_pitch() const noexcept { return height_.src; }
  uint64_t bytes() const noexcept { return width_ * height_.size * planes_; }
  // Calls with the offsets of each plane's first byte.
  void for_each_plane(const std::function<void(uint64_t dst_offset, uint64_t src_offset)>& call) const;

 private:
  struct Dimension {
    uint64_t size, dst, src;  // strides in bytes
  };

  uint64_t width_ = 0;
  Dimension height_{};
  uint64_t planes_ = 1;
  std::vector<Dimension> outer_;  // the innermost first
};

}  // namespace mydev::cuda_driver
