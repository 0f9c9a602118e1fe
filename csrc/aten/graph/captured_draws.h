// A generator that a capture draws from. Each run of the capture continues from the generator's state at that time.
//
// Kernels of the capture read from device memory where their numbers begin; each run writes that anew, and takes as
// many numbers from the generator as the capture drew. One thread at a time.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include "runtime/stream/capture.h"
#include "runtime/stream/stream.h"

namespace mydev {

class CapturedDraws {
 public:
  explicit CapturedDraws(at::Generator generator) : generator_(std::move(generator)) {}

  void allocate();  // before the capture: device memory
  void begin(const Capture& capture);
  void end(const Capture& capture);
  bool any() const noexcept { return blocks_ != 0; }  // after the end
  // Call it before each run, on the run's stream.
  void prepare(Stream& stream, const char* what);

 private:
  at::Generator generator_;
  at::Tensor state_;
  uint64_t blocks_ = 0;  // of a run
};

}  // namespace mydev
