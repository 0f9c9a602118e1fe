// The frame of a launch step: its operands as buffers, results first. What it is made of stays where it is, so that
// addresses may be written into it later.
#pragma once

#include <span>
#include <vector>

#include "program/ir/program.h"

namespace mydev::program {

class LaunchFrame {
 public:
  // Borrows the step. Views have pretended addresses, for those who are asked about the frame before there is memory:
  // they must not be read, but tell which operands are one, since slots lie apart, but for those of which `memory`
  // gives the same slot (plan/lives.h, shared_memory).
  explicit LaunchFrame(const Step& step, std::span<const SlotIndex> memory = {});

  mydev_frame& frame() noexcept { return frame_; }
  // The results' buffers, then the operands'.
  std::span<mydev_buffer> buffers() noexcept { return buffers_; }

 private:
  std::vector<mydev_buffer> buffers_;
  mydev_frame frame_;
};

}  // namespace mydev::program
