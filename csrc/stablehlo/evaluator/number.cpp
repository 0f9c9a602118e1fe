#include "stablehlo/evaluator/number.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace mydev::stablehlo {

namespace {

// How the bits of a float are shared out, and what the largest of them mean.
struct FloatFormat {
  enum Ends : uint8_t {
    kIeee,     // infinities, then NaNs
    kNan,      // no infinities; all ones is NaN
    kZeroNan,  // no infinities, no -0; its bits are NaN
    kFinite,   // all are numbers
  };
  int exponent_bits, mantissa_bits, bias;
  Ends ends;

  uint64_t sign_bit() const noexcept { return uint64_t{1} << (exponent_bits + mantissa_bits); }
  uint64_t exponent_ones() const noexcept { return ((uint64_t{1} << exponent_bits) - 1) << mantissa_bits; }
  uint64_t nan() const noexcept {
    if (ends == kIeee) return exponent_ones() | (uint64_t{1} << (mantissa_bits - 1));
    return ends == kNan ? sign_bit() - 1 : sign_bit();
  }
  uint64_t largest() const noexcept {
    if (ends == kIeee) return exponent_ones() - 1;
    return ends == kNan ? sign_bit() - 2 : sign_bit() - 1;
  }
};

constexpr FloatFormat format_of(ElementType type) noexcept {
  switch (type) {
    case ElementType::kF4E2M1FN:
      return {2, 1, 1, FloatFormat::kFinite};
    case ElementType::kF6E2M3FN:
      return {2, 3, 1, FloatFormat::kFinite};
    case ElementType::kF6E3M2FN:
      return {3, 2, 3, FloatFormat::kFinite};
    case ElementType::kF8E3M4:
      return {3, 4, 3, FloatFormat::kIeee};
    case ElementType::kF8E4M3:
      return {4, 3, 7, FloatFormat::kIeee};
    case ElementType::kF8E4M3B11FNUZ:
      return {4, 3, 11, FloatFormat::kZeroNan};
    case ElementType::kF8E4M3FN:
      return {4, 3, 7, FloatFormat::kNan};
    case ElementType::kF8E4M3FNUZ:
      return {4, 3, 8, FloatFormat::kZeroNan};
    case ElementType::kF8E5M2:
      return {5, 2, 15, FloatFormat::kIeee};
    case ElementType::kF8E5M2FNUZ:
      return {5, 2, 16, FloatFormat::kZeroNan};
    case ElementType::kBF16:
      return {8, 7, 127, FloatFormat::kIeee};
    default:
      return {5, 10, 15, FloatFormat::kIeee};  // f16
  }
}

double decode(const FloatFormat& format, uint64_t bits) noexcept {
  const bool negative = (bits & format.sign_bit()) != 0;
  const uint64_t magnitude = bits & (format.sign_bit() - 1);
  if (format.ends == FloatFormat::kZeroNan && bits == format.sign_bit()) return std::nan("");
  if (format.ends == FloatFormat::kNan && magnitude == format.nan()) return std::nan("");
  if (format.ends == FloatFormat::kIeee && magnitude >= format.exponent_ones()) {
    const double end = magnitude == format.exponent_ones() ? std::numeric_limits<double>::infinity() : std::nan("");
    return negative ? -end : end;
  }
  const auto exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  auto mantissa = static_cast<double>(magnitude & ((uint64_t{1} << format.mantissa_bits) - 1));
  if (exponent != 0) mantissa += static_cast<double>(uint64_t{1} << format.mantissa_bits);
  const double value = std::ldexp(mantissa, (exponent == 0 ? 1 : exponent) - format.bias - format.mantissa_bits);
  return negative ? -value : value;
}

uint64_t encode(const FloatFormat& format, double value) noexcept {
  const uint64_t sign = std::signbit(value) ? format.sign_bit() : 0;
  if (std::isnan(value)) {
    return format.ends == FloatFormat::kFinite ? format.sign_bit()
                                               : format.nan() | (format.ends == FloatFormat::kZeroNan ? 0 : sign);
  }
  const double magnitude = std::fabs(value);
  uint64_t bits = 0;
  if (std::isinf(magnitude)) {
    bits = format.largest() + 1;
  } else if (magnitude != 0) {
    const int exponent = std::max(std::ilogb(magnitude), 1 - format.bias);
    const double steps = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
    const int64_t field = exponent + format.bias - 1;
    bits = field > (int64_t{1} << format.exponent_bits)
               ? format.largest() + 1
               : (static_cast<uint64_t>(field) << format.mantissa_bits) + static_cast<uint64_t>(steps);
  }
  if (bits > format.largest()) {
    if (format.ends == FloatFormat::kFinite) return format.largest() | sign;
    if (format.ends == FloatFormat::kIeee) return format.exponent_ones() | sign;
    return format.ends == FloatFormat::kZeroNan ? format.nan() : format.nan() | sign;
  }
  return bits == 0 && format.ends == FloatFormat::kZeroNan ? 0 : bits | sign;
}

// Powers of two: f8e8m0fnu.
constexpr int kScaleBias = 127;
constexpr uint64_t kScaleNan = 0xFF;
double decode_scale(uint64_t bits) noexcept {
  return bits == kScaleNan ? std::nan("") : std::ldexp(1.0, static_cast<int>(bits) - kScaleBias);
}
uint64_t encode_scale(double value) noexcept {
  if (!(value >= 0) || std::isinf(value)) return kScaleNan;
  if (value == 0) return 0;
  int exponent = std::ilogb(value);
  const double fraction = std::ldexp(value, -exponent);  // [1, 2)
  if (fraction > 1.5 || (fraction == 1.5 && (exponent & 1) != 0)) ++exponent;
  if (exponent > kScaleBias) return kScaleNan;
  return static_cast<uint64_t>(std::max(exponent + kScaleBias, 0));
}

template <typename T>
T read(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}
template <typename T>
void write(T value, std::byte* to) noexcept {
  std::memcpy(to, &value, sizeof(T));
}

int64_t wrapped(ElementType type, int64_t value) noexcept {
  const ElementRow& row = element_row(type);
  if (row.kind == ElementKind::kBool) return value != 0 ? 1 : 0;
  if (row.bits == 64) return value;
  const int unused = 64 - row.bits;
  const uint64_t high = static_cast<uint64_t>(value) << unused;
  return row.kind == ElementKind::kSigned ? static_cast<int64_t>(high) >> unused : static_cast<int64_t>(high >> unused);
}

Number load_integer(ElementType type, const std::byte* from) noexcept {
  const bool is_signed = kind_of(type) == ElementKind::kSigned;
  switch (element_bytes(type)) {
    case 1:  // of fewer than eight bits, the others may be anything
      return {.integer = wrapped(type, read<int8_t>(from))};
    case 2:
      return {.integer = is_signed ? int64_t{read<int16_t>(from)} : int64_t{read<uint16_t>(from)}};
    case 4:
      return {.integer = is_signed ? int64_t{read<int32_t>(from)} : int64_t{read<uint32_t>(from)}};
    default:
      return {.integer = read<int64_t>(from)};
  }
}

void store_integer(ElementType type, int64_t value, std::byte* to) noexcept {
  value = wrapped(type, value);
  std::memcpy(to, &value, static_cast<size_t>(element_bytes(type)));  // little-endian
}

double load_float(ElementType type, const std::byte* from) noexcept {
  switch (type) {
    case ElementType::kF64:
      return read<double>(from);
    case ElementType::kF32:
    case ElementType::kTF32:
      return read<float>(from);
    case ElementType::kF8E8M0FNU:
      return decode_scale(read<uint8_t>(from));
    default:
      return decode(format_of(type), element_bytes(type) == 2 ? read<uint16_t>(from) : read<uint8_t>(from));
  }
}

void store_float(ElementType type, double value, std::byte* to) noexcept {
  switch (type) {
    case ElementType::kF64:
      return write(value, to);
    case ElementType::kF32:
    case ElementType::kTF32:
      return write(static_cast<float>(value), to);
    case ElementType::kF8E8M0FNU:
      return write(static_cast<uint8_t>(encode_scale(value)), to);
    default:
      const uint64_t bits = encode(format_of(type), value);
      if (element_bytes(type) == 2) return write(static_cast<uint16_t>(bits), to);
      write(static_cast<uint8_t>(bits), to);
  }
}

int64_t to_integer(ElementType type, double value) noexcept {
  const ElementRow& row = element_row(type);
  if (std::isnan(value)) return 0;
  const bool is_signed = row.kind == ElementKind::kSigned;
  const double above = std::ldexp(1.0, is_signed ? row.bits - 1 : row.bits);
  if (is_signed) {
    if (value >= above) return static_cast<int64_t>((uint64_t{1} << (row.bits - 1)) - 1);
    if (value <= -above) return static_cast<int64_t>(~uint64_t{0} << (row.bits - 1));
    return static_cast<int64_t>(value);
  }
  if (value >= above) return wrapped(type, -1);
  return value <= 0 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(value));
}

}  // namespace

Number load(ElementType type, const std::byte* from) noexcept {
  switch (kind_of(type)) {
    case ElementKind::kFloat:
      return {.real = load_float(type, from)};
    case ElementKind::kComplex:
      if (type == ElementType::kC64) return {.real = read<float>(from), .imaginary = read<float>(from + sizeof(float))};
      return {.real = read<double>(from), .imaginary = read<double>(from + sizeof(double))};
    case ElementKind::kBool:
      return {.integer = read<uint8_t>(from) != 0 ? 1 : 0};
    default:
      return load_integer(type, from);
  }
}

void store(ElementType type, const Number& number, std::byte* to) noexcept {
  switch (kind_of(type)) {
    case ElementKind::kFloat:
      return store_float(type, number.real, to);
    case ElementKind::kComplex:
      if (type == ElementType::kC64) {
        write(static_cast<float>(number.real), to);
        return write(static_cast<float>(number.imaginary), to + sizeof(float));
      }
      write(number.real, to);
      return write(number.imaginary, to + sizeof(double));
    default:
      store_integer(type, number.integer, to);
  }
}

Number rounded(ElementType type, const Number& number) noexcept {
  if (type == ElementType::kF32) return {.real = static_cast<float>(number.real)};
  if (type == ElementType::kF64 || type == ElementType::kC128) return number;
  std::array<std::byte, 16> bytes{};
  store(type, number, bytes.data());
  return load(type, bytes.data());
}

Number converted(ElementType from, ElementType to, const Number& number) noexcept {
  const ElementKind wanted = kind_of(to);
  const bool from_float = is_float(from) || is_complex(from);
  if (wanted == ElementKind::kBool) {
    return {.integer = (from_float ? number.real != 0 || number.imaginary != 0 : number.integer != 0) ? 1 : 0};
  }
  if (is_integer(to)) {
    return {.integer = from_float ? to_integer(to, number.real) : wrapped(to, number.integer)};
  }
  Number result = number;
  if (!from_float) {
    result.real = from == ElementType::kU64 ? static_cast<double>(static_cast<uint64_t>(number.integer))
                                            : static_cast<double>(number.integer);
    // It is rounded once: the f32 of a 64-bit integer differs from the f32 of its f64.
    if (to == ElementType::kF32 || to == ElementType::kC64) {
      result.real = from == ElementType::kU64 ? static_cast<float>(static_cast<uint64_t>(number.integer))
                                              : static_cast<float>(number.integer);
    }
    result.integer = 0;
  }
  if (wanted == ElementKind::kFloat) result.imaginary = 0;
  return rounded(to, result);
}

double with_precision(double value, int exponent_bits, int mantissa_bits) noexcept {
  if (std::isnan(value) || std::isinf(value) || value == 0) return value;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = std::ilogb(value);
  const double result =
      std::ldexp(std::nearbyint(std::ldexp(value, mantissa_bits - exponent)), exponent - mantissa_bits);
  // A result that would be subnormal is flushed, as XLA does.
  if (std::ilogb(result) > bias) return std::copysign(std::numeric_limits<double>::infinity(), value);
  if (std::ilogb(result) < 1 - bias) return std::copysign(0.0, value);
  return result;
}

}  // namespace mydev::stablehlo
