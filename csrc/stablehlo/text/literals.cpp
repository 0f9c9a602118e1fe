#include "stablehlo/text/literals.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "stablehlo/ir/limits.h"

namespace mydev::stablehlo {

namespace {

class ElementReader {
 public:
  explicit ElementReader(ModuleScanner& scanner) : scanner_(scanner) {}

  WrittenElements read() {
    if (scanner_.peek() == '>') {
      elements_.sizes = {0};
    } else if (scanner_.peek() == '"') {
      hexadecimal();
    } else {
      nested(0);
    }
    return std::move(elements_);
  }

 private:
  void hexadecimal() {
    const std::string text = scanner_.string();
    if (!text.starts_with("0x") || text.size() % 2 != 0) scanner_.fail_about("bytes are written as \"0x12AB\"");
    for (size_t i = 2; i < text.size(); i += 2) {
      const auto value = number_of<unsigned>(std::string_view(text).substr(i, 2), 16);
      if (!value) scanner_.fail_about("bytes are written as \"0x12AB\"");
      elements_.bytes += static_cast<char>(*value);
    }
  }

  // All lists at one depth are of one length.
  void nested(size_t depth) {
    if (!scanner_.take("[")) {
      if (depth != (is_deepest_known_ ? elements_.sizes.size() : depth)) scanner_.fail("'['");
      is_deepest_known_ = true;
      element();
      return;
    }
    if (depth >= static_cast<size_t>(kMostNesting) || (is_deepest_known_ && depth >= elements_.sizes.size())) {
      scanner_.fail_about("a list is nested deeper than those before it");
    }
    const bool is_first = depth == elements_.sizes.size();
    if (is_first) elements_.sizes.push_back(0);
    int64_t size = 0;
    if (scanner_.peek() != ']') {
      do {
        nested(depth + 1);
        ++size;
      } while (scanner_.take(","));
    }
    scanner_.expect("]");
    if (is_first) {
      elements_.sizes[depth] = size;
    } else if (size != elements_.sizes[depth]) {
      scanner_.fail_about("a list has " + std::to_string(size) + " elements, one before it " +
                          std::to_string(elements_.sizes[depth]));
    }
  }

  void element() {
    if (scanner_.take("(")) {
      elements_.numbers.push_back(scanner_.number());
      scanner_.expect(",");
      elements_.numbers.push_back(scanner_.number());
      scanner_.expect(")");
      return;
    }
    elements_.numbers.push_back(scanner_.at_number() ? scanner_.number() : scanner_.word("a number"));
  }

  ModuleScanner& scanner_;
  WrittenElements elements_;
  bool is_deepest_known_ = false;
};

// IEEE's binary formats of 16 bits.
uint64_t narrow(double value, int mantissa_bits) {
  const int exponent_bits = 15 - mantissa_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint64_t sign = std::signbit(value) ? 0x8000 : 0;
  const uint64_t infinity = ((uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
  if (value == 0) return sign;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int smallest = std::max(exponent - 1, 1 - bias);
  const auto scaled = static_cast<uint64_t>(std::nearbyint(std::ldexp(std::fabs(value), mantissa_bits - smallest)));
  // The leading bit of a normal number is one of its exponent, and so is what rounding carries.
  const uint64_t bits = scaled + (static_cast<uint64_t>(smallest + bias - 1) << mantissa_bits);
  return sign | std::min(bits, infinity);
}

template <typename T>
T parse(std::string_view number, ModuleScanner& scanner, const char* what) {
  const auto value = number_of<T>(number);
  if (!value) scanner.fail_about("'" + std::string(number) + "' is no " + what);
  return *value;
}

void append_bits(std::vector<std::byte>& bytes, uint64_t bits, int64_t count) {
  for (int64_t i = 0; i < count; ++i) bytes.push_back(static_cast<std::byte>(bits >> (8 * i)));
}

}  // namespace

WrittenElements read_elements(ModuleScanner& scanner) {
  return ElementReader(scanner).read();
}

uint64_t bits_of_float(ElementType type, std::string_view number, ModuleScanner& scanner) {
  if (number.starts_with("0x")) {
    const auto bits = number_of<uint64_t>(number.substr(2), 16);
    if (!bits) scanner.fail_about("'" + std::string(number) + "' is no number of 64 bits");
    return *bits;
  }
  switch (type) {
    case ElementType::kF64:
      return std::bit_cast<uint64_t>(parse<double>(number, scanner, "f64"));
    case ElementType::kF32:
      return std::bit_cast<uint32_t>(parse<float>(number, scanner, "f32"));
    case ElementType::kBF16:
      return narrow(parse<double>(number, scanner, "bf16"), 7);
    case ElementType::kF16:
      return narrow(parse<double>(number, scanner, "f16"), 10);
    default:
      scanner.fail_about("numbers of the type " + std::string(element_row(type).mlir_name) +
                         " are written as their bits: 0x38");
  }
}

void append_number(std::vector<std::byte>& bytes, ElementType type, std::string_view number, ModuleScanner& scanner) {
  const ElementRow& row = element_row(type);
  const int64_t size = element_bytes(type);
  const std::string what = "number of the type " + std::string(row.mlir_name);
  switch (row.kind) {
    case ElementKind::kBool:
      if (number != "true" && number != "false" && number != "0" && number != "1") {
        scanner.fail_about('\'' + std::string(number) + "' is neither true nor false");
      }
      bytes.push_back(number == "true" || number == "1" ? std::byte{1} : std::byte{0});
      return;
    case ElementKind::kFloat:
      append_bits(bytes, bits_of_float(type, number, scanner), size);
      return;
    case ElementKind::kComplex: {
      const ElementType part = type == ElementType::kC64 ? ElementType::kF32 : ElementType::kF64;
      append_bits(bytes, bits_of_float(part, number, scanner), size / 2);
      return;
    }
    case ElementKind::kUnsigned: {
      const auto value = parse<uint64_t>(number, scanner, what.c_str());
      if (row.bits < 64 && value >> row.bits != 0) scanner.fail_about("'" + std::string(number) + "' is no " + what);
      append_bits(bytes, value, size);
      return;
    }
    default: {
      const auto value = parse<int64_t>(number, scanner, what.c_str());
      const int unused = 64 - row.bits;
      if ((static_cast<int64_t>(static_cast<uint64_t>(value) << unused) >> unused) != value) {
        scanner.fail_about("'" + std::string(number) + "' is no " + what);
      }
      append_bits(bytes, static_cast<uint64_t>(value), size);
    }
  }
}

}  // namespace mydev::stablehlo
