// A program as a device's compiler sees it: driver_extensions.h, mydev_program.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mydev/driver_extensions.h"
#include "program/ir/launch_frame.h"
#include "program/ir/program.h"

namespace mydev::program {

// Borrows a program whose steps are launches, copies and fills. One thread at a time.
class OfferedProgram {
 public:
  explicit OfferedProgram(const Program& program);
  OfferedProgram(const OfferedProgram&) = delete;
  OfferedProgram& operator=(const OfferedProgram&) = delete;

  const mydev_program& view() const noexcept { return view_.program; }
  const std::string& text() const;

 private:
  // The frame of a step, and where its buffers lie.
  struct OfferedStep {
    explicit OfferedStep(const Step& step);
    std::unique_ptr<LaunchFrame> frame;
    std::vector<uint32_t> slots;
    std::vector<uint64_t> offsets;
    mydev_step view;
  };
  // The driver gives back a pointer to `program`.
  struct View {
    mydev_program program;
    const OfferedProgram* self;
  };
  static const OfferedProgram& self(const mydev_program* program) {
    return *reinterpret_cast<const View*>(program)->self;
  }

  const Program& program_;
  std::vector<mydev_slot> slots_;
  std::vector<OfferedStep> steps_;
  mutable std::string text_;  // made when it is asked for
  View view_{};
};

}  // namespace mydev::program
