// The frame of a launch step: its operands as buffers, results first, and its attributes. If the step leaves some out,
// they have the defaults of a built-in kernel's contract, so that no kernel has to know them. The buffers stay where
// they are, so that addresses may be written into them later.
#pragma once

#include <span>
#include <vector>

#include "program/ir/program.h"
#include "runtime/base/api.h"

namespace mydev::program {

class MYDEV_API LaunchFrame {
 public:
  // Borrows the step. Views have pretended addresses, for questions about the frame before there is memory. These
  // addresses must not be read, but they tell which operands share memory. Slots lie apart, except slots for which
  // `memory` gives the same slot (plan/live_ranges.h, shared_memory).
  explicit LaunchFrame(const Step& step, std::span<const SlotIndex> memory = {});

  mydev_frame& frame() noexcept { return frame_; }
  // Returns the results' buffers, then the operands'.
  std::span<mydev_buffer> buffers() noexcept { return buffers_; }

 private:
  std::vector<mydev_buffer> buffers_;
  std::vector<mydev_attribute> attributes_;  // if the step leaves some out
  mydev_frame frame_;
};

}  // namespace mydev::program
