#include "conform/kernels/element.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <sstream>

#include "runtime/frame/dtype.h"
#include "runtime/frame/frame.h"

namespace mydev::conform {

namespace {

template <typename T>
void put(void* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}
template <typename T>
T take(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

bool is_within(double actual, double expected, double relative) {
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) && std::isnan(actual);
  if (std::isinf(actual) || std::isinf(expected)) return actual == expected;
  return std::fabs(actual - expected) <= relative * std::max(1.0, std::fabs(expected));
}

// Devices give NaN either sign.
bool is_narrow_nan(mydev_dtype dtype, const void* element) {
  const int magnitude = take<uint8_t>(element) & 0x7F;
  return (dtype == MYDEV_F8E4M3FN && magnitude == 0x7F) || (dtype == MYDEV_F8E5M2 && magnitude > 0x7C);
}

}  // namespace

Value value_of(int64_t integer) {
  return {integer, static_cast<double>(integer)};
}
Value value_of(double number) {
  const bool fits = number > -9e18 && number < 9e18;
  return {fits ? static_cast<int64_t>(number) : 0, number};
}
Value value_of(std::complex<double> number) {
  return {number != 0.0 ? 1 : 0, number};
}

bool is_readable(mydev_dtype dtype) noexcept {
  const DtypeRow& row = dtype_row(dtype);
  return row.kind != DtypeKind::kNarrowFloat && (row.kind != DtypeKind::kUnsigned || row.size == 1);
}

void store_element(mydev_dtype dtype, void* to, const Value& value) {
  const double real = value.number.real();
  switch (dtype) {
    case MYDEV_PRED:
      return put(to, static_cast<uint8_t>(value.integer != 0));
    case MYDEV_F16:
      return put(to, static_cast<_Float16>(real));
    case MYDEV_BF16: {
      const auto narrow = static_cast<float>(real);
      const auto word = std::bit_cast<uint32_t>(narrow);
      const uint32_t rounded = std::isnan(narrow) ? word | 0x400000 : word + 0x7FFF + ((word >> 16) & 1);
      return put(to, static_cast<uint16_t>(rounded >> 16));
    }
    case MYDEV_F32:
      return put(to, static_cast<float>(real));
    case MYDEV_F64:
      return put(to, real);
    case MYDEV_C64:
      return put(to, std::complex<float>(value.number));
    case MYDEV_C128:
      return put(to, value.number);
    default:
      std::memcpy(to, &value.integer, static_cast<size_t>(dtype_size(dtype)));
  }
}

Value load_element(mydev_dtype dtype, const void* from) {
  const auto number = [](std::complex<double> z) { return Value{0, z}; };
  switch (dtype) {
    case MYDEV_PRED:
      return value_of(int64_t{take<uint8_t>(from) != 0});
    case MYDEV_S8:
      return value_of(int64_t{take<int8_t>(from)});
    case MYDEV_S16:
      return value_of(int64_t{take<int16_t>(from)});
    case MYDEV_S32:
      return value_of(int64_t{take<int32_t>(from)});
    case MYDEV_S64:
      return value_of(take<int64_t>(from));
    case MYDEV_U8:
      return value_of(int64_t{take<uint8_t>(from)});
    case MYDEV_F16:
      return number(static_cast<double>(take<_Float16>(from)));
    case MYDEV_BF16:
      return number(std::bit_cast<float>(static_cast<uint32_t>(take<uint16_t>(from)) << 16));
    case MYDEV_F32:
      return number(take<float>(from));
    case MYDEV_F64:
      return number(take<double>(from));
    case MYDEV_C64:
      return number(std::complex<double>(take<std::complex<float>>(from)));
    case MYDEV_C128:
      return number(take<std::complex<double>>(from));
    default:
      return {};
  }
}

double tolerance_of(mydev_dtype dtype) noexcept {
  switch (dtype) {
    case MYDEV_BF16:
      return 1.0 / 64;
    case MYDEV_F16:
      return 1.0 / 256;
    case MYDEV_F32:
    case MYDEV_C64:
      return 2e-5;
    default:
      return 1e-12;
  }
}

bool is_near(mydev_dtype dtype, const void* actual, const void* expected) {
  if (is_narrow_nan(dtype, expected)) return is_narrow_nan(dtype, actual);
  const bool by_bytes = !is_readable(dtype) || scalar_kind(dtype) == ScalarKind::kInteger;
  if (by_bytes) return std::memcmp(actual, expected, static_cast<size_t>(dtype_size(dtype))) == 0;
  const std::complex<double> a = load_element(dtype, actual).number, e = load_element(dtype, expected).number;
  const double relative = tolerance_of(dtype);
  return is_within(a.real(), e.real(), relative) && is_within(a.imag(), e.imag(), relative);
}

std::string element_text(mydev_dtype dtype, const void* element) {
  const auto* bytes = static_cast<const unsigned char*>(element);
  std::ostringstream text;
  text.precision(9);
  const bool odd_pred = dtype == MYDEV_PRED && *bytes > 1;
  if (!is_readable(dtype) || odd_pred) {
    text << "0x";
    for (auto i = static_cast<size_t>(dtype_size(dtype)); i-- > 0;) {
      char digits[3];
      std::snprintf(digits, sizeof(digits), "%02x", bytes[i]);
      text << digits;
    }
    return text.str();
  }
  const Value value = load_element(dtype, element);
  switch (scalar_kind(dtype)) {
    case ScalarKind::kInteger:
      text << value.integer;
      break;
    case ScalarKind::kFloat:
      text << value.number.real();
      break;
    case ScalarKind::kComplex:
      text << value.number;
      break;
  }
  return text.str();
}

}  // namespace mydev::conform
