#include "runtime/frame/uniform_range.h"

#include <algorithm>
#include <cmath>

namespace mydev {

namespace {

struct Digits {
  int count;   // of bits in a number
  int lowest;  // exponent of the least number above 0
};

Digits digits_of(mydev_dtype dtype) noexcept {
  switch (dtype) {
    case MYDEV_F16:
      return {11, -24};
    case MYDEV_BF16:
      return {8, -133};
    case MYDEV_F32:
      return {24, -149};
    default:
      return {53, -1074};
  }
}

}  // namespace

double greatest_below(mydev_dtype dtype, double low, double high) noexcept {
  const Digits digits = digits_of(dtype);
  const auto step_from = [&digits](int exponent) {
    return std::ldexp(1.0, std::max(exponent - digits.count, digits.lowest));
  };
  int exponent = 0;
  std::frexp(high, &exponent);
  const double rounded = std::nearbyint(high / step_from(exponent)) * step_from(exponent);
  if (rounded == 0) return std::max(low, -std::ldexp(1.0, digits.lowest));
  // The numbers below a power of two lie closer together, as those of smaller exponents do.
  if (std::frexp(rounded, &exponent) == 0.5) --exponent;
  return std::max(low, rounded - step_from(exponent));
}

}  // namespace mydev
