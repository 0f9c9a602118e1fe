#include "stablehlo/text/attribute_printer.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "runtime/base/quoted.h"
#include "stablehlo/text/enumeration_names.h"

namespace mydev::stablehlo {

namespace {

// Literals of more elements are printed as bytes.
constexpr int64_t kMostPrintedElements = 64;

bool is_identifier(std::string_view name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (name.empty() || !is_letter(name.front())) return false;
  for (const char c : name) {
    if (!is_letter(c) && !(c >= '0' && c <= '9') && c != '$' && c != '.') return false;
  }
  return true;
}

void append_hex(std::string& text, uint64_t bits, int digits) {
  std::array<char, 24> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "0x%0*llX", digits, static_cast<unsigned long long>(bits));
  text += buffer.data();
}

// A number that reads back as the same bits.
void append_float(std::string& text, ElementType type, uint64_t bits) {
  const bool is_small =
      type != ElementType::kF64 && type != ElementType::kF32 && type != ElementType::kF16 && type != ElementType::kBF16;
  const double value = is_small ? 0 : float_of_bits(type, bits);
  if (is_small || !std::isfinite(value)) {
    append_hex(text, bits, static_cast<int>(element_bytes(type)) * 2);
    return;
  }
  std::array<char, 40> buffer{};
  const auto print = [&](int digits) { std::snprintf(buffer.data(), buffer.size(), "%.*e", digits, value); };
  print(6);
  const double read = std::strtod(buffer.data(), nullptr);
  const bool is_exact = type == ElementType::kF64 ? read == value : static_cast<float>(read) == value;
  if (!is_exact) print(type == ElementType::kF64 ? 17 : 9);
  text += buffer.data();
}

uint64_t bits_at(const std::byte* at, int64_t bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, at, static_cast<size_t>(bytes));
  return bits;
}

void append_element(std::string& text, ElementType type, const std::byte* at) {
  const ElementRow& row = element_row(type);
  const int64_t bytes = element_bytes(type);
  switch (row.kind) {
    case ElementKind::kBool:
      text += *at != std::byte{0} ? "true" : "false";
      return;
    case ElementKind::kFloat:
      append_float(text, type, bits_at(at, bytes));
      return;
    case ElementKind::kComplex: {
      const ElementType part = type == ElementType::kC64 ? ElementType::kF32 : ElementType::kF64;
      text += '(';
      append_float(text, part, bits_at(at, bytes / 2));
      text += ',';
      append_float(text, part, bits_at(at + bytes / 2, bytes / 2));
      text += ')';
      return;
    }
    case ElementKind::kUnsigned:
      text += std::to_string(bits_at(at, bytes));
      return;
    default: {
      const int unused = 64 - static_cast<int>(bytes) * 8;
      text += std::to_string(static_cast<int64_t>(bits_at(at, bytes) << unused) >> unused);
    }
  }
}

void append_elements(std::string& text, const TensorLiteral& literal, size_t dimension, const std::byte*& at) {
  const Type& type = *literal.type;
  if (dimension == type.dims.size()) {
    append_element(text, type.element, at);
    at += element_bytes(type.element);
    return;
  }
  text += '[';
  for (int64_t i = 0; i < type.dims[dimension]; ++i) {
    if (i != 0) text += ", ";
    append_elements(text, literal, dimension + 1, at);
  }
  text += ']';
}

void append_literal(std::string& text, const TensorLiteral& literal) {
  const Type& type = *literal.type;
  const std::byte* at = literal.bytes.data();
  text += "dense<";
  if (literal.is_splat) {
    append_element(text, type.element, at);
  } else if (type.element_count() > kMostPrintedElements && type.element != ElementType::kPred) {
    text += "\"0x";
    for (const std::byte byte : literal.bytes) {
      std::array<char, 4> buffer{};
      std::snprintf(buffer.data(), buffer.size(), "%02X", std::to_integer<unsigned>(byte));
      text += buffer.data();
    }
    text += '"';
  } else if (type.element_count() != 0) {
    append_elements(text, literal, 0, at);
  }
  text += "> : " + type.text();
}

template <typename T>
void append_list(std::string& text, const std::vector<T>& list, void (*append)(std::string&, const T&)) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (i != 0) text += ", ";
    append(text, list[i]);
  }
}

// --- Shardy's ---

void append_mesh_axis(std::string& text, const MeshAxis& axis) {
  append_string(text, axis.name);
  text += '=' + std::to_string(axis.size);
}

void append_mesh(std::string& text, const Mesh& mesh) {
  text += "<[";
  append_list(text, mesh.axes, append_mesh_axis);
  text += ']';
  if (!mesh.device_ids.empty()) {
    text += ", device_ids=[";
    append_numbers(text, mesh.device_ids);
    text += ']';
  }
  text += '>';
}

void append_axis(std::string& text, const AxisReference& axis) {
  append_string(text, axis.name);
  if (axis.part) text += ":(" + std::to_string(axis.part->pre_size) + ")" + std::to_string(axis.part->size);
}

void append_dimension(std::string& text, const DimensionSharding& dimension) {
  text += '{';
  append_list(text, dimension.axes, append_axis);
  if (!dimension.is_closed) text += dimension.axes.empty() ? "?" : ", ?";
  text += '}';
  if (dimension.priority) text += 'p' + std::to_string(*dimension.priority);
}

void append_sharding(std::string& text, const TensorSharding& sharding) {
  text += '<';
  if (sharding.mesh) {
    text += "mesh";
    append_mesh(text, *sharding.mesh);
  } else {
    append_symbol(text, sharding.mesh_name);
  }
  text += ", [";
  append_list(text, sharding.dimensions, append_dimension);
  text += ']';
  const auto append_axes = [&](const char* name, const std::vector<AxisReference>& axes) {
    if (axes.empty()) return;
    text += std::string(", ") + name + "={";
    append_list(text, axes, append_axis);
    text += '}';
  };
  append_axes("replicated", sharding.replicated_axes);
  append_axes("unreduced", sharding.unreduced_axes);
  text += '>';
}

// --- each alternative ---

class Printer {
 public:
  explicit Printer(std::string& text) : text_(text) {}

  void operator()(const Unit&) const { text_ += "unit"; }
  void operator()(bool value) const { text_ += value ? "true" : "false"; }
  void operator()(const Integer& integer) const {
    const bool is_unsigned = integer.type != nullptr && integer.type->element == ElementType::kU64;
    text_ += is_unsigned ? std::to_string(static_cast<uint64_t>(integer.value)) : std::to_string(integer.value);
    if (integer.type != nullptr) text_ += " : " + integer.type->text();
  }
  void operator()(const Float& value) const {
    append_float(text_, value.type->element, value.bits);
    text_ += " : " + value.type->text();
  }
  void operator()(const std::string& string) const { append_string(text_, string); }
  void operator()(const Symbol& symbol) const { append_symbol(text_, symbol.path); }
  void operator()(const Type* type) const { text_ += type->text(); }
  void operator()(const ArrayAttribute& array) const {
    text_ += '[';
    for (size_t i = 0; i < array.size(); ++i) {
      if (i != 0) text_ += ", ";
      append_attribute(text_, *array[i]);
    }
    text_ += ']';
  }
  void operator()(const Dictionary& dictionary) const {
    const size_t before = text_.size();
    append_dictionary(text_, dictionary);
    if (text_.size() == before) text_ += "{}";
  }
  void operator()(const TensorLiteral& literal) const { append_literal(text_, literal); }
  void operator()(ComparisonDirection value) const { named("comparison_direction", kDirectionNames, value); }
  void operator()(ComparisonType value) const { named("comparison_type", kComparisonNames, value); }
  void operator()(CustomCallVersion value) const { text_ += std::to_string(static_cast<int>(value)) + " : i32"; }
  void operator()(FftType value) const { named("fft_type", kFftNames, value); }
  void operator()(Precision value) const { named("precision", kPrecisionNames, value); }
  void operator()(RngAlgorithm value) const { named("rng_algorithm", kRngAlgorithmNames, value); }
  void operator()(RngDistribution value) const { named("rng_distribution", kRngDistributionNames, value); }
  void operator()(Transpose value) const { named("transpose", kTransposeNames, value); }
  void operator()(ResultAccuracyMode value) const { named("result_accuracy_mode", kAccuracyModeNames, value); }
  void operator()(const ResultAccuracy& accuracy) const {
    std::string numbers = "atol = ";
    append_float(numbers, ElementType::kF64, bits_of(accuracy.atol));
    numbers += ", rtol = ";
    append_float(numbers, ElementType::kF64, bits_of(accuracy.rtol));
    text_ += "#stablehlo.result_accuracy<" + numbers + ", ulps = " + std::to_string(accuracy.ulps) +
             ", mode = #stablehlo.result_accuracy_mode<" + kAccuracyModeNames[static_cast<size_t>(accuracy.mode)] +
             ">>";
  }
  void operator()(const OutputOperandAlias& alias) const {
    text_ += "#stablehlo.output_operand_alias<output_tuple_indices = [";
    append_numbers(text_, alias.output_tuple_indices);
    text_ += "], operand_index = " + std::to_string(alias.operand_index) + ", operand_tuple_indices = [";
    append_numbers(text_, alias.operand_tuple_indices);
    text_ += "]>";
  }
  void operator()(const Mesh& mesh) const {
    text_ += "#sdy.mesh";
    append_mesh(text_, mesh);
  }
  void operator()(const TensorSharding& sharding) const {
    text_ += "#sdy.sharding";
    append_sharding(text_, sharding);
  }
  void operator()(const TensorShardings& shardings) const {
    text_ += "#sdy.sharding_per_value<[";
    append_list(text_, shardings.values, append_sharding);
    text_ += "]>";
  }
  void operator()(const ManualAxes& axes) const {
    text_ += "#sdy<manual_axes{";
    append_list(text_, axes.names, +[](std::string& text, const std::string& name) { append_string(text, name); });
    text_ += "}>";
  }
  void operator()(const MeshAxis& axis) const { append_mesh_axis(text_, axis); }
  void operator()(const AxisReference& axis) const { append_axis(text_, axis); }
  void operator()(const AxisReference::Part& part) const {
    text_ += '(' + std::to_string(part.pre_size) + ')' + std::to_string(part.size);
  }
  void operator()(const DimensionSharding& dimension) const { append_dimension(text_, dimension); }
  void operator()(const UnknownAttribute& unknown) const { append_string(text_, unknown.description); }

 private:
  static uint64_t bits_of(double value) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
  }
  template <size_t kCount, typename T>
  void named(const char* kind, const std::array<const char*, kCount>& names, T value) const {
    text_ += std::string("#stablehlo<") + kind + " " + names[static_cast<size_t>(value)] + ">";
  }

  std::string& text_;
};

}  // namespace

void append_attribute(std::string& text, const Attribute& attribute) {
  std::visit(Printer(text), attribute.value);
}

void append_name(std::string& text, std::string_view name) {
  if (is_identifier(name)) {
    text += name;
  } else {
    append_string(text, name);
  }
}

void append_dictionary(std::string& text, const Dictionary& dictionary) {
  const char* before = "{";
  for (const NamedAttribute& entry : dictionary) {
    if (entry.value->get_if<UnknownAttribute>() != nullptr) continue;
    text += before;
    before = ", ";
    append_name(text, entry.name);
    if (entry.value->get_if<Unit>() != nullptr) continue;
    text += " = ";
    append_attribute(text, *entry.value);
  }
  if (*before == ',') text += '}';
}

void append_symbol(std::string& text, std::string_view path) {
  text += '@';
  append_name(text, path);
}

void append_string(std::string& text, std::string_view string) {
  append_quoted(text, string, {.prefix = "\\", .digits = "0123456789ABCDEF", .escapes_quotes = true});
}

void append_numbers(std::string& text, const std::vector<int64_t>& numbers) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(numbers[i]);
  }
}

}  // namespace mydev::stablehlo
