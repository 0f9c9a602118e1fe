// One element of a tensor, and how it lies in memory.
//
// Numbers are kept wider than any element: integers in 64 bits (unsigned ones of 64 bits as their bits), floats and
// both parts of complex numbers in f64. Immutable; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/api.h"
#include "stablehlo/ir/element_type.h"

namespace mydev::stablehlo {

struct Number {
  int64_t integer = 0;  // of pred (0 or 1) and integers
  double real = 0, imaginary = 0;
};

MYDEV_API Number load(ElementType type, const std::byte* from) noexcept;
// Rounds to nearest, halves to even; integers wrap round.
MYDEV_API void store(ElementType type, const Number& number, std::byte* to) noexcept;
// The number that load() gives after store() wrote this one.
MYDEV_API Number rounded(ElementType type, const Number& number) noexcept;
// Converts as XLA does. A float becomes the nearest integer toward zero that the type holds, NaN becomes 0. A number
// becomes a pred by != 0. A complex number gives its real part.
Number converted(ElementType from, ElementType to, const Number& number) noexcept;
// Rounds to so many bits of exponent and mantissa, at least 1 and 0. A number beyond the largest becomes infinite.
double with_precision(double value, int exponent_bits, int mantissa_bits) noexcept;

}  // namespace mydev::stablehlo
