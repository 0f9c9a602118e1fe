// Numbers in memory, for stubs of CUDA's libraries: read as complex numbers of double precision, and written rounded.
#pragma once

#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>

#include "cuda_driver/library/cublaslt_api.h"

using Number = std::complex<double>;
using mydev::cuda_driver::LtType;

inline size_t bytes_of(LtType type) {
  switch (type) {
    case LtType::kS8:
    case LtType::kF8e4m3:
      return 1;
    case LtType::kF16:
    case LtType::kBf16:
      return 2;
    case LtType::kF32:
    case LtType::kS32:
      return 4;
    case LtType::kF64:
    case LtType::kC64:
      return 8;
    default:
      return 16;
  }
}

template <typename T>
T read_as(const void* place) {
  T value;
  std::memcpy(&value, place, sizeof(value));
  return value;
}

inline double float8(uint8_t bits) {
  const int exponent = bits >> 3 & 15, fraction = bits & 7;
  const double size = (bits & 127) == 127 ? std::nan("")
                      : exponent == 0     ? std::ldexp(fraction, -9)
                                          : std::ldexp(8 + fraction, exponent - 10);
  return bits >= 128 ? -size : size;
}

inline Number read(LtType type, const void* place) {
  switch (type) {
    case LtType::kF16:
      return static_cast<double>(read_as<_Float16>(place));
    case LtType::kBf16:
      return std::bit_cast<float>(uint32_t{read_as<uint16_t>(place)} << 16);
    case LtType::kF32:
      return read_as<float>(place);
    case LtType::kF64:
      return read_as<double>(place);
    case LtType::kC64:
      return Number(read_as<std::complex<float>>(place));
    case LtType::kC128:
      return read_as<Number>(place);
    case LtType::kS8:
      return read_as<int8_t>(place);
    case LtType::kS32:
      return read_as<int32_t>(place);
    case LtType::kF8e4m3:
      break;
  }
  return float8(read_as<uint8_t>(place));
}

template <typename T>
void write_as(void* place, T value) {
  std::memcpy(place, &value, sizeof(value));
}

inline void write(LtType type, void* place, Number value) {
  const double real = value.real();
  switch (type) {
    case LtType::kF16:
      return write_as(place, static_cast<_Float16>(static_cast<float>(real)));
    case LtType::kBf16: {
      const auto wide = std::bit_cast<uint32_t>(static_cast<float>(real));
      const uint16_t rounded = static_cast<uint16_t>((wide + 0x7FFF + (wide >> 16 & 1)) >> 16);
      return write_as(place, std::isnan(real) ? uint16_t{0x7FC0} : rounded);
    }
    case LtType::kF32:
      return write_as(place, static_cast<float>(real));
    case LtType::kF64:
      return write_as(place, real);
    case LtType::kC64:
      return write_as(place, std::complex<float>(value));
    case LtType::kC128:
      return write_as(place, value);
    default:  // sums of integers are exact, and wrap around
      return write_as(place, static_cast<int32_t>(static_cast<int64_t>(real)));
  }
}
