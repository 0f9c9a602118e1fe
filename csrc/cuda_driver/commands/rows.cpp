#include "cuda_driver/commands/rows.h"

#include "cuda_driver/library/cuda_error.h"
#include "driver_support/element_size.h"

namespace mydev::cuda_driver {

namespace {

constexpr uint64_t kLeastWidth = 64;             // bytes; shorter rows take a transfer each
constexpr uint64_t kMostPlanes = 64;             // each is a call
constexpr uint64_t kMostPitch = (1u << 31) - 1;  // CU_DEVICE_ATTRIBUTE_MAX_PITCH

}  // namespace

Rows::Rows(const mydev_buffer& dst, const mydev_buffer& src) {
  const auto element = static_cast<uint64_t>(driver_support::element_size(dst.dtype));
  width_ = element;
  for (int32_t d = dst.rank; d-- > 0;) {
    if (dst.sizes[d] == 1) continue;
    require(dst.strides[d] > 0 && src.strides[d] > 0, MYDEV_UNIMPLEMENTED, "a dimension is reversed or broadcast");
    const Dimension next{static_cast<uint64_t>(dst.sizes[d]), static_cast<uint64_t>(dst.strides[d]) * element,
                         static_cast<uint64_t>(src.strides[d]) * element};
    if (outer_.empty() && next.dst == width_ && next.src == width_) {
      width_ *= next.size;
    } else if (!outer_.empty() && next.dst == outer_.back().dst * outer_.back().size &&
               next.src == outer_.back().src * outer_.back().size) {
      outer_.back().size *= next.size;
    } else {
      outer_.push_back(next);
    }
  }
  if (outer_.empty()) outer_.push_back({1, width_, width_});
  height_ = outer_.front();
  outer_.erase(outer_.begin());
  for (const Dimension& dimension : outer_) planes_ *= dimension.size;
  require(height_.size == 1 || width_ >= kLeastWidth, MYDEV_UNIMPLEMENTED, "rows of ", width_, " bytes are short");
  require(planes_ <= kMostPlanes, MYDEV_UNIMPLEMENTED, "there are ", planes_, " planes of rows");
  const bool fits =
      height_.dst >= width_ && height_.src >= width_ && height_.dst <= kMostPitch && height_.src <= kMostPitch;
  require(fits || height_.size == 1, MYDEV_UNIMPLEMENTED, "rows overlap, or lie too far from each other");
  require(width_ <= kMostPitch, MYDEV_UNIMPLEMENTED, "a row has ", width_, " bytes");
  if (height_.size == 1) height_.dst = height_.src = width_;
}

void Rows::for_each_plane(const std::function<void(uint64_t dst_offset, uint64_t src_offset)>& call) const {
  for (uint64_t plane = 0; plane < planes_; ++plane) {
    uint64_t rest = plane, to = 0, from = 0;
    for (const Dimension& dimension : outer_) {
      to += rest % dimension.size * dimension.dst;
      from += rest % dimension.size * dimension.src;
      rest /= dimension.size;
    }
    call(to, from);
  }
}

}  // namespace mydev::cuda_driver
