// One element of a tensor, and how it lies in memory.
//
// Numbers are kept wider than any element: integers in 64 bits (unsigned ones of 64 bits as their bits), floats and
// both parts of complex numbers in f64. Immutable; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stablehlo/ir/element_type.h"

namespace mydev::stablehlo {

struct Number {
  int64_t integer = 0;  // of pred (0 or 1) and integers
  double real = 0, imaginary = 0;
};

Number load(ElementType type, const std::byte* from) noexcept;
// Rounds to nearest, halves to even; integers wrap round.
void store(ElementType type, const Number& number, std::byte* to) noexcept;
// What load() gives of what store() wrote.
Number rounded(ElementType type, const Number& number) noexcept;
// As XLA converts: to integers toward zero and to the nearest that there is, NaN to 0; to pred by != 0; of complex
// numbers the real part.
Number converted(ElementType from, ElementType to, const Number& number) noexcept;
// With so many bits of exponent and mantissa, at least 1 and 0; beyond the largest: infinite.
double with_precision(double value, int exponent_bits, int mantissa_bits) noexcept;

inline ElementKind kind_of(ElementType type) noexcept {
  return element_row(type).kind;
}

}  // namespace mydev::stablehlo
