// A signature as text: the schema of the operator that a record becomes, and the form that messages show.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "kernels/spec/attribute_array.h"
#include "kernels/spec/signature.h"
#include "runtime/base/quoted.h"
#include "runtime/frame/dtype.h"
#include "runtime/frame/frame.h"

namespace mydev {

namespace {

template <typename T>
std::string number_text(T value) {
  std::array<char, 40> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string text(buffer.data(), end);
  if constexpr (std::is_floating_point_v<T>) {
    if (text.find_first_of(".en") == std::string::npos) text += ".0";
  }
  return text;
}

// A literal of the schema language; nullopt for a value that it cannot express.
template <typename T>
std::optional<std::string> literal(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) return std::nullopt;
  }
  return number_text(value);
}
std::optional<std::string> literal(bool value) {
  return value ? "True" : "False";
}
std::optional<std::string> literal(std::string_view text) {
  std::string written = in_quotes(text);
  return written.size() == text.size() + 2 ? std::optional(std::move(written)) : std::nullopt;
}

// An array's entry as the schema language would have it.
template <typename T>
auto widened(T value) {
  if constexpr (std::is_same_v<T, Predicate>) {
    return static_cast<bool>(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return double{value};
  } else {
    return static_cast<int64_t>(value);
  }
}

template <typename T>
std::optional<std::string> array_literal(std::span<const T> values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    const std::optional<std::string> value = literal(widened(values[i]));
    if (!value) return std::nullopt;
    text += (i != 0 ? ", " : "") + *value;
  }
  return text + "]";
}

std::optional<std::string> default_literal(const mydev_attribute& attribute) {
  switch (attribute.kind) {
    case MYDEV_ATTRIBUTE_BOOL:
      return literal(attribute.value.i != 0);
    case MYDEV_ATTRIBUTE_INT:
      return literal(attribute.value.i);
    case MYDEV_ATTRIBUTE_FLOAT:
      return literal(attribute.value.f);
    case MYDEV_ATTRIBUTE_STRING:
      return literal(std::string_view(attribute.value.bytes, attribute.count));
    case MYDEV_ATTRIBUTE_INT_ARRAY:
      return array_literal(std::span(attribute.value.ints, attribute.count));
    case MYDEV_ATTRIBUTE_FLOAT_ARRAY:
      return array_literal(std::span(attribute.value.floats, attribute.count));
    case MYDEV_ATTRIBUTE_ARRAY:
      return visit_array(attribute, [](const auto& entries) { return array_literal(entries); });
    default:
      return std::nullopt;
  }
}

const char* schema_type(const mydev_attribute& attribute) {
  switch (attribute.kind) {
    case MYDEV_ATTRIBUTE_BOOL:
      return "bool";
    case MYDEV_ATTRIBUTE_INT:
      return "int";
    case MYDEV_ATTRIBUTE_FLOAT:
      return "float";
    case MYDEV_ATTRIBUTE_COMPLEX:
      return "complex";
    case MYDEV_ATTRIBUTE_STRING:
      return "str";
    case MYDEV_ATTRIBUTE_INT_ARRAY:
      return "int[]";
    case MYDEV_ATTRIBUTE_FLOAT_ARRAY:
      return "float[]";
    default:
      if (attribute.dtype == MYDEV_PRED) return "bool[]";
      return attribute.dtype == MYDEV_F32 || attribute.dtype == MYDEV_F64 ? "float[]" : "int[]";
  }
}

// The name of an attribute's type in messages: the schema's word, and the width that it is given in, if it has one.
std::string described_type(const mydev_attribute& attribute) {
  std::string type = schema_type(attribute);
  if (attribute.dtype == MYDEV_DTYPE_INVALID) return type;
  return type + " (" + dtype_name(static_cast<mydev_dtype>(attribute.dtype)) + ")";
}

std::string described_default(const mydev_attribute& attribute) {
  if (const std::optional<std::string> text = default_literal(attribute)) return *text;
  if (attribute.kind == MYDEV_ATTRIBUTE_FLOAT) return number_text(attribute.value.f);
  if (attribute.kind == MYDEV_ATTRIBUTE_COMPLEX) {
    return "(" + number_text(attribute.value.c[0]) + ", " + number_text(attribute.value.c[1]) + ")";
  }
  return "<" + std::to_string(attribute.count) + " entries>";
}

bool is_required(const mydev_attribute_spec& spec) {
  return (spec.flags & MYDEV_ATTRIBUTE_REQUIRED) != 0;
}
bool is_optional(const mydev_operand& operand) {
  return (operand.flags & MYDEV_OPERAND_OPTIONAL) != 0;
}

// "(a!)" for an operand that a result is written into; letters in the order of the operands.
std::string alias_mark(const mydev_signature& signature, int32_t operand) {
  int letter = 0;
  bool aliased = false;
  for (uint32_t i = 0; i < signature.num_results; ++i) {
    const int32_t alias = signature.results[i]->alias;
    letter += alias >= 0 && alias < operand ? 1 : 0;
    aliased = aliased || alias == operand;
  }
  if (operand < 0 || !aliased) return "";
  std::string mark = "(";
  mark += static_cast<char>('a' + letter % 26);
  if (letter >= 26) mark += std::to_string(letter / 26);
  return mark + "!)";
}

// Whether each operand from `first` on may be left out.
bool all_optional(const mydev_signature& signature, uint32_t first) {
  for (uint32_t i = first; i < signature.num_operands; ++i) {
    if (!is_optional(*signature.operands[i])) return false;
  }
  return true;
}

std::string dtype_set(uint64_t dtypes) {
  std::string text;
  for (const DtypeRow& row : kDtypes) {
    if ((dtypes & MYDEV_DTYPE_BIT(row.dtype)) != 0) text += (text.empty() ? "" : "|") + std::string(row.name);
  }
  return text;
}

std::string described_ranks(const mydev_operand& operand) {
  if (operand.rank_max == -1) return operand.rank_min == 0 ? "" : "[" + std::to_string(operand.rank_min) + "..]";
  if (operand.rank_min == operand.rank_max) return "[" + std::to_string(operand.rank_min) + "]";
  return "[" + std::to_string(operand.rank_min) + ".." + std::to_string(operand.rank_max) + "]";
}

constexpr std::string_view kReservedWords[] = {
    "Ellipsis", "False",  "None",     "NoneType", "True",  "and",  "as",     "assert",   "async",   "await",
    "break",    "class",  "continue", "def",      "del",   "elif", "else",   "except",   "finally", "for",
    "from",     "global", "if",       "import",   "in",    "is",   "lambda", "nonlocal", "not",     "or",
    "pass",     "raise",  "return",   "try",      "while", "with", "yield"};

}  // namespace

bool is_reserved_word(std::string_view name) noexcept {
  return std::find(std::begin(kReservedWords), std::end(kReservedWords), name) != std::end(kReservedWords);
}

std::string operator_name(const mydev_kernel& kernel) {
  std::string name;
  for (const char c : std::string_view(kernel.name)) {
    name += c == '.' || c == ':' || c == '-' ? '_' : c;
  }
  const bool of_namespaces = name == "name" || name == "_dir" || name.starts_with("__");
  if (of_namespaces || is_reserved_word(name)) return name + "_";
  return name.front() >= '0' && name.front() <= '9' ? "_" + name : name;
}

std::string operator_schema(const mydev_kernel& kernel) {
  const mydev_signature& signature = *kernel.signature;
  std::string text = operator_name(kernel) + "(";
  const char* separator = "";
  for (uint32_t i = 0; i < signature.num_operands; ++i) {
    const mydev_operand& operand = *signature.operands[i];
    text += std::string(separator) + "Tensor" + alias_mark(signature, static_cast<int32_t>(i));
    if (is_variadic(operand)) text += "[]";
    if (is_optional(operand)) text += '?';
    text += std::string(" ") + operand.name;
    if (is_optional(operand) && all_optional(signature, i)) text += "=None";
    separator = ", ";
  }
  if (signature.num_attributes != 0) {
    text += std::string(separator) + "*";
    separator = ", ";
  }
  for (uint32_t i = 0; i < signature.num_attributes; ++i) {
    const mydev_attribute_spec& spec = *signature.attributes[i];
    text += std::string(separator) + schema_type(spec.value);
    if (is_required(spec)) {  // and has no default that could be read
      text += std::string(" ") + spec.value.name;
    } else if (const std::optional<std::string> value = default_literal(spec.value)) {
      text += std::string(" ") + spec.value.name + "=" + *value;
    } else {
      text += std::string("? ") + spec.value.name + "=None";
    }
  }
  text += ") -> ";
  if (is_in_place(signature)) return text + "Tensor" + alias_mark(signature, 0);
  std::string results;
  uint32_t num_returned = 0;
  for (uint32_t i = 0; i < signature.num_results; ++i) {
    if (!is_returned(signature, i)) continue;
    results += num_returned++ != 0 ? ", Tensor" : "Tensor";
    if (is_variadic(*signature.results[i])) results += "[]";
  }
  return text + (num_returned == 1 ? results : "(" + results + ")");
}

std::string describe_signature(const mydev_kernel& kernel) {
  const mydev_signature& signature = *kernel.signature;
  std::string text = std::string(kernel.name) + "(";
  for (uint32_t i = 0; i < signature.num_operands; ++i) {
    const mydev_operand& operand = *signature.operands[i];
    text += std::string(i != 0 ? ", " : "") + operand.name;
    if (is_optional(operand)) text += '?';
    if (is_variadic(operand)) text += "...";
    text += " " + dtype_set(operand.dtypes) + described_ranks(operand);
    if (operand.like >= 0) text += std::string(" like ") + signature.operands[operand.like]->name;
  }
  for (uint32_t i = 0; i < signature.num_attributes; ++i) {
    const mydev_attribute_spec& spec = *signature.attributes[i];
    text += std::string(i != 0 ? ", " : "; ") + spec.value.name + ": " + described_type(spec.value);
    if (!is_required(spec)) text += " = " + described_default(spec.value);
  }
  text += ") -> (";
  for (uint32_t i = 0; i < signature.num_results; ++i) {
    const mydev_operand& result = *signature.results[i];
    text += std::string(i != 0 ? ", " : "") + result.name + (is_variadic(result) ? "... " : " ");
    text +=
        result.dtypes != 0 ? dtype_set(result.dtypes) : std::string("like ") + signature.operands[result.like]->name;
    if (result.alias >= 0) text += std::string(" in ") + signature.operands[result.alias]->name;
  }
  text += ')';
  if (signature.shapes != nullptr) text += std::string(", shapes ") + signature.shapes;
  return text;
}

}  // namespace mydev
