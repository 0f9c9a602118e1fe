// Attributes of the kernels whose body is data: fused_form.h, small_steps.h.
#pragma once

#include <cstdint>
#include <vector>

#include "program/ir/program.h"
#include "runtime/frame/dtype.h"
#include "runtime/frame/frame.h"

namespace mydev::program {

// The bindings of operands that have no memory.
inline constexpr int64_t kNumberBinding = -1, kAbsentBinding = -2;

// Borrows the entries.
inline mydev_attribute dictionary_attribute(const char* name, const std::vector<mydev_attribute>& entries) {
  mydev_attribute attribute{name, MYDEV_ATTRIBUTE_DICTIONARY, 0, static_cast<uint32_t>(entries.size()), {}};
  attribute.value.attributes = entries.data();
  return attribute;
}

// The attribute "number" of an operand that is one.
inline mydev_attribute number_attribute(const Operand& operand) {
  switch (scalar_kind(operand.dtype)) {
    case ScalarKind::kInteger:
      return int_attribute("number", operand.number.i);
    case ScalarKind::kFloat:
      return float_attribute("number", operand.number.f);
    default:
      return complex_attribute("number", operand.number.c[0], operand.number.c[1]);
  }
}

}  // namespace mydev::program
