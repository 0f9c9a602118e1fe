#include "stablehlo/ir/attribute.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/base/status.h"

namespace mydev::stablehlo {

namespace {

// In the order of Attribute::Value.
constexpr std::array kKindNames = {
    "nothing",
    "a boolean",
    "an integer",
    "a float",
    "a string",
    "a symbol",
    "a type",
    "an array",
    "a dictionary",
    "a tensor literal",
    "a comparison direction",
    "a comparison type",
    "a version of custom calls",
    "a kind of Fourier transform",
    "a precision",
    "an algorithm of random numbers",
    "a distribution of random numbers",
    "a transposition",
    "a mode of accuracy",
    "an accuracy",
    "an alias of an output and an operand",
    "a mesh",
    "a sharding",
    "a list of shardings",
    "a list of manual axes",
    "an axis of a mesh",
    "an axis",
    "a part of an axis",
    "the sharding of a dimension",
    "an attribute that is not known",
};
static_assert(kKindNames.size() == std::variant_size_v<Attribute::Value>);

template <typename T>
T load(const std::byte* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

double half_to_double(uint16_t bits, int mantissa_bits) {
  const int exponent_bits = 15 - mantissa_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) {
    return sign * (mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity());
  }
  const double fraction = mantissa / static_cast<double>(1 << mantissa_bits);
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias));
}

[[noreturn]] void fail_type(const TensorLiteral& literal, const char* wanted) {
  mydev::detail::raise_formatted(MYDEV_INVALID_ARGUMENT, "a literal of the type ", literal.type->text(), " has no ",
                                 wanted);
}

int64_t integer_at(const TensorLiteral& literal, const std::byte* at) {
  const ElementRow& row = element_row(literal.type->element);
  const bool is_unsigned = row.kind == ElementKind::kUnsigned || row.kind == ElementKind::kBool;
  if (row.kind != ElementKind::kSigned && !is_unsigned) fail_type(literal, "integers");
  switch (element_bytes(row.type)) {
    case 1:
      return is_unsigned ? int64_t{load<uint8_t>(at)} : int64_t{load<int8_t>(at)};
    case 2:
      return is_unsigned ? int64_t{load<uint16_t>(at)} : int64_t{load<int16_t>(at)};
    case 4:
      return is_unsigned ? int64_t{load<uint32_t>(at)} : int64_t{load<int32_t>(at)};
    default:
      return load<int64_t>(at);
  }
}

double float_at(const TensorLiteral& literal, const std::byte* at) {
  const ElementType element = literal.type->element;
  if (element_row(element).kind != ElementKind::kFloat) {
    return element == ElementType::kU64 ? static_cast<double>(load<uint64_t>(at))
                                        : static_cast<double>(integer_at(literal, at));
  }
  uint64_t bits = 0;
  std::memcpy(&bits, at, static_cast<size_t>(element_bytes(element)));
  return float_of_bits(element, bits);
}

template <typename T, typename Load>
std::vector<T> elements_of(const TensorLiteral& literal, const Load& load_one) {
  const auto bytes = static_cast<size_t>(element_bytes(literal.type->element));
  const auto count = static_cast<size_t>(literal.type->element_count());
  MYDEV_CHECK(!literal.is_splat || count <= kMostListedElements, MYDEV_INVALID_ARGUMENT, "a literal of the type ",
              literal.type->text(), " is too large for a list of numbers");
  std::vector<T> values;
  values.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    values.push_back(load_one(literal, literal.bytes.data() + (literal.is_splat ? 0 : i * bytes)));
  }
  return values;
}

}  // namespace

const Attribute* find(const Dictionary& dictionary, std::string_view name) noexcept {
  const auto found = std::ranges::find(dictionary, name, &NamedAttribute::name);
  return found != dictionary.end() ? found->value : nullptr;
}

std::string_view Attribute::kind_name() const noexcept {
  return kKindNames[value.index()];
}

double float_of_bits(ElementType type, uint64_t bits) {
  switch (type) {
    case ElementType::kF64:
      return std::bit_cast<double>(bits);
    case ElementType::kF32:
      return double{std::bit_cast<float>(static_cast<uint32_t>(bits))};
    case ElementType::kBF16:
      return half_to_double(static_cast<uint16_t>(bits), 7);
    case ElementType::kF16:
      return half_to_double(static_cast<uint16_t>(bits), 10);
    default:
      raise(MYDEV_UNIMPLEMENTED, "numbers of the type " + std::string(element_row(type).name) + " are not read");
  }
}

std::vector<int64_t> integers_of(const TensorLiteral& literal) {
  return elements_of<int64_t>(literal, integer_at);
}

std::optional<std::vector<int64_t>> integers_in(const Attribute& attribute) {
  if (const auto* literal = attribute.get_if<TensorLiteral>()) return integers_of(*literal);
  const auto* array = attribute.get_if<ArrayAttribute>();
  if (array == nullptr) return std::nullopt;
  std::vector<int64_t> values;
  for (const Attribute* element : *array) {
    if (const auto* integer = element->get_if<Integer>()) {
      values.push_back(integer->value);
    } else if (const auto* boolean = element->get_if<bool>()) {
      values.push_back(*boolean ? 1 : 0);
    } else {
      return std::nullopt;
    }
  }
  return values;
}

std::vector<double> floats_of(const TensorLiteral& literal) {
  return elements_of<double>(literal, float_at);
}

}  // namespace mydev::stablehlo
