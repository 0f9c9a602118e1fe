#include "aten/core/number.h"

#include <cmath>
#include <limits>

namespace mydev {

using c10::ScalarType;

namespace {

template <typename T>
bool integer_fits(int64_t value) {
  return value >= static_cast<int64_t>(std::numeric_limits<T>::lowest()) &&
         value <= static_cast<int64_t>(std::numeric_limits<T>::max());
}
bool float_fits(double value, double largest) {
  return !(std::fabs(value) > largest) || std::isinf(value);
}

// Whether an integer has a value in an integral type.
bool integer_fits(int64_t value, ScalarType type) {
  switch (type) {
    case ScalarType::Byte:
      return integer_fits<uint8_t>(value);
    case ScalarType::Char:
      return integer_fits<int8_t>(value);
    case ScalarType::Short:
      return integer_fits<int16_t>(value);
    case ScalarType::UInt16:
      return integer_fits<uint16_t>(value);
    case ScalarType::Int:
      return integer_fits<int32_t>(value);
    case ScalarType::UInt32:
      return integer_fits<uint32_t>(value);
    case ScalarType::UInt64:
      return value >= 0;
    default:
      return true;
  }
}

}  // namespace

int promotion_kind(ScalarType type) {
  if (type == ScalarType::Bool) return 0;
  if (c10::isIntegralType(type, /*includeBool=*/false)) return 1;
  return c10::isFloatingType(type) ? 2 : 3;
}
int promotion_kind(const mydev_attribute& number) {
  switch (number.kind) {
    case MYDEV_ATTRIBUTE_BOOL:
      return 0;
    case MYDEV_ATTRIBUTE_INT:
      return 1;
    case MYDEV_ATTRIBUTE_FLOAT:
      return 2;
    default:
      return 3;
  }
}

bool has_attribute(const c10::Scalar& number) {
  return number.type() != ScalarType::UInt64 || number.toUInt64() <= uint64_t{std::numeric_limits<int64_t>::max()};
}

mydev_attribute number_attribute(const char* name, const c10::Scalar& number) {
  if (number.isBoolean()) return bool_attribute(name, number.toBool());
  if (number.isIntegral(/*includeBool=*/false)) return int_attribute(name, number.toLong());
  if (number.isFloatingPoint()) return float_attribute(name, number.toDouble());
  const c10::complex<double> value = number.toComplexDouble();
  return complex_attribute(name, value.real(), value.imag());
}

c10::Scalar to_scalar(const mydev_attribute& number) {
  switch (number.kind) {
    case MYDEV_ATTRIBUTE_BOOL:
      return number.value.i != 0;
    case MYDEV_ATTRIBUTE_INT:
      return number.value.i;
    case MYDEV_ATTRIBUTE_FLOAT:
      return number.value.f;
    default:
      return c10::complex<double>(number.value.c[0], number.value.c[1]);
  }
}

bool read_number(const at::Tensor& tensor, mydev_attribute& number) {
  const void* data = tensor.const_data_ptr();
  switch (tensor.scalar_type()) {
    case ScalarType::Double:
      number = float_attribute("", *static_cast<const double*>(data));
      return true;
    case ScalarType::Long:
      number = int_attribute("", *static_cast<const int64_t*>(data));
      return true;
    case ScalarType::Bool:
      number = bool_attribute("", *static_cast<const bool*>(data));
      return true;
    case ScalarType::Float:
      number = float_attribute("", static_cast<double>(*static_cast<const float*>(data)));
      return true;
    case ScalarType::Int:
      number = int_attribute("", *static_cast<const int32_t*>(data));
      return true;
    case ScalarType::ComplexDouble: {
      const auto& value = *static_cast<const c10::complex<double>*>(data);
      number = complex_attribute("", value.real(), value.imag());
      return !tensor.is_conj() && !tensor.is_neg();
    }
    default:
      return false;
  }
}

bool fit_number(mydev_attribute& number, ScalarType type, bool round) {
  constexpr double kLargestFloat = std::numeric_limits<float>::max();
  if (type == ScalarType::Bool || number.kind == MYDEV_ATTRIBUTE_BOOL) return true;
  if (number.kind == MYDEV_ATTRIBUTE_COMPLEX) return c10::isComplexType(type);
  if (number.kind == MYDEV_ATTRIBUTE_INT) {
    if (!c10::isReducedFloatingType(type)) return integer_fits(number.value.i, type);
    number = float_attribute(number.name, static_cast<double>(number.value.i));
  }
  double& value = number.value.f;
  switch (type) {
    case ScalarType::Half:
      if (!float_fits(value, round ? 65504.0 : kLargestFloat)) return false;
      if (round) value = static_cast<float>(c10::Half(static_cast<float>(value)));
      return true;
    case ScalarType::BFloat16:
      if (!float_fits(value, round ? 3.3895313892515355e38 : kLargestFloat)) return false;
      if (round) value = static_cast<float>(c10::BFloat16(static_cast<float>(value)));
      return true;
    case ScalarType::Float8_e5m2:
      return !(std::fabs(value) > 57344.0);
    case ScalarType::Float8_e4m3fn:
      return !(std::fabs(value) > 448.0);
    case ScalarType::Float:
    case ScalarType::ComplexFloat:
      return float_fits(value, kLargestFloat);
    case ScalarType::Double:
    case ScalarType::ComplexDouble:
      return true;
    default:  // an integral type takes what lies within 64 bits, and then within itself
      return std::fabs(value) < 9.2e18 && integer_fits(static_cast<int64_t>(value), type);
  }
}

mydev_scalar scalar_value(const mydev_attribute& number, ScalarType type) {
  const bool is_float = number.kind == MYDEV_ATTRIBUTE_FLOAT, is_complex = number.kind == MYDEV_ATTRIBUTE_COMPLEX;
  const double real = is_float ? number.value.f : is_complex ? number.value.c[0] : static_cast<double>(number.value.i);
  mydev_scalar scalar{.c = {0, 0}};
  switch (promotion_kind(type)) {
    case 0:
      scalar.i = is_float || is_complex ? real != 0 : number.value.i != 0;
      break;
    case 1:
      scalar.i = is_float || is_complex ? static_cast<int64_t>(real) : number.value.i;
      break;
    case 2:
      scalar.f = real;
      break;
    default:
      scalar.c[0] = real;
      scalar.c[1] = is_complex ? number.value.c[1] : 0;
      break;
  }
  return scalar;
}

void fit_kind(mydev_attribute& number, ScalarType type) {
  static constexpr uint16_t kKinds[] = {MYDEV_ATTRIBUTE_INT, MYDEV_ATTRIBUTE_INT, MYDEV_ATTRIBUTE_FLOAT,
                                        MYDEV_ATTRIBUTE_COMPLEX};
  const uint16_t kind = kKinds[promotion_kind(type)];
  if (number.kind == kind && type != ScalarType::Bool) return;
  const mydev_scalar scalar = scalar_value(number, type);
  number.kind = kind;
  number.value.c[0] = scalar.c[0];
  number.value.c[1] = scalar.c[1];
}

}  // namespace mydev
