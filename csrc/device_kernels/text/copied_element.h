// Copies one element as mydev.copy does, in the kernels' language. Thread-safe.
#pragma once

#include <string>

#include "mydev/custom_call.h"

namespace mydev::device_kernels {

struct CopiedElement {
  mydev_dtype from, to;
  bool conj, neg;

  // No bit changes.
  bool moves() const noexcept { return from == to && from != MYDEV_PRED && !conj && !neg; }
  // The type of elements of `from` or `to` in memory.
  const char* type(mydev_dtype dtype) const;
  // Tells functions from each other: "copy_f32_s64".
  std::string name() const;
  // The statements that store an element.
  std::string store(const std::string& out, const std::string& in) const;
};

}  // namespace mydev::device_kernels
