// How elements that are written to one place are combined: what lies there, and what comes.
#pragma once

#include <type_traits>

#include "host_kernels/isa/simd/element_chunk.h"

namespace mydev::kernels::MYDEV_ISA {
namespace {

template <typename Real>
struct ComplexPair {
  Real real, imaginary;
};

template <typename Element>
inline constexpr bool kIsHalf = std::is_same_v<Element, _Float16> || std::is_same_v<Element, BFloat16Bits>;

// Integers wrap round; of pred: or. Half precision in float.
struct Add {
  template <typename Element>
  static void apply(Element& place, const Element& value) {
    if constexpr (std::is_same_v<Element, Truth>) {
      place = element_cast<Truth>(static_cast<uint8_t>(place) | static_cast<uint8_t>(value));
    } else if constexpr (std::is_integral_v<Element>) {
      place = static_cast<Element>(static_cast<uint64_t>(place) + static_cast<uint64_t>(value));
    } else if constexpr (kIsHalf<Element>) {
      place = element_cast<Element>(static_cast<float>(place) + static_cast<float>(value));
    } else {
      place += value;
    }
  }
  template <typename Real>
  static void apply(ComplexPair<Real>& place, const ComplexPair<Real>& value) {
    place.real += value.real;
    place.imaginary += value.imaginary;
  }
};

// Integers wrap round; of pred: and. Half precision in float.
struct Multiply {
  template <typename Element>
  static void apply(Element& place, const Element& value) {
    if constexpr (std::is_same_v<Element, Truth>) {
      place = static_cast<Truth>(place != Truth{} && value != Truth{});
    } else if constexpr (std::is_integral_v<Element>) {
      place = static_cast<Element>(static_cast<uint64_t>(place) * static_cast<uint64_t>(value));
    } else if constexpr (kIsHalf<Element>) {
      place = element_cast<Element>(static_cast<float>(place) * static_cast<float>(value));
    } else {
      place *= value;
    }
  }
  template <typename Real>
  static void apply(ComplexPair<Real>& place, const ComplexPair<Real>& value) {
    place = {place.real * value.real - place.imaginary * value.imaginary,
             place.real * value.imaginary + place.imaginary * value.real};
  }
};

// NaN if either is.
struct Maximum {
  template <typename Element>
  static void apply(Element& place, const Element& value) {
    if (!(place >= value || place != place)) place = value;
  }
};
struct Minimum {
  template <typename Element>
  static void apply(Element& place, const Element& value) {
    if (!(place <= value || place != place)) place = value;
  }
};

}  // namespace
}  // namespace mydev::kernels::MYDEV_ISA
