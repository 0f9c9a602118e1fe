// The kernel that launches need. On a HOST_ACCESSIBLE device the suite brings a host function; any other driver should
// offer, through find_kernel, "conformance.scale": out f32[n], in f32[n], both 1-D and strided; attribute factor
// (float); out = factor * in; operands of another dtype are MYDEV_INVALID_ARGUMENT, with a message.
#pragma once

#include <vector>

#include "conform/driver/driver_case.h"
#include "runtime/command/launch.h"

namespace mydev::conform {

Bytes bytes_of(const std::vector<float>& values);

// The operands and the attribute of one launch, which its frame points into.
struct ScaleArguments {
  ScaleArguments(const DeviceMemory& out, const DeviceMemory& in, int64_t count, double factor,
                 mydev_dtype dtype = MYDEV_F32, int64_t stride = 1);
  ScaleArguments(const ScaleArguments&) = delete;
  ScaleArguments& operator=(const ScaleArguments&) = delete;

  mydev_frame frame() const { return make_frame(operands, 1, {&attribute, 1}); }

  int64_t size, stride_of_elements;
  mydev_buffer operands[2];
  mydev_attribute attribute;
};

class ScaleKernel {
 public:
  explicit ScaleKernel(DriverCase& t);  // ends the case where there is none

  const mydev_kernel& record() const { return *record_; }
  // The driver borrows the frames of its launches (MYDEV_CAPABILITY_LAUNCH_COPIES).
  bool borrows_frames() const { return of_driver_ && device_.launch_copies(); }
  // Launches the kernel as the runtime does. Raises the error that the driver reports.
  void launch(Stream& stream, mydev_frame& frame) const;
  void launch(Stream& stream, const ScaleArguments& arguments) const;

 private:
  const Device& device_;
  const mydev_kernel* record_ = nullptr;
  bool of_driver_ = false;
};

}  // namespace mydev::conform
