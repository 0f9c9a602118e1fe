#include "kernels/registry/description.h"

#include <array>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "kernels/spec/signature.h"
#include "runtime/frame.h"
#include "runtime/utf8.h"

namespace mydev {

namespace {

constexpr std::array kKindNames = {"frame",       "typed_ffi",     "original_host", "original_device",
                                   "status_host", "status_device", "unified_host",  "unified_device"};
constexpr std::array kAttributeKindNames = {"bool",      "int",         "float", "complex",   "string",
                                            "int_array", "float_array", "array", "dictionary"};
constexpr std::array kBatchingNames = {"none", "sequential", "expand_dims", "broadcast_all"};

template <typename T>
std::string json_number(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return "\"nan\"";
    if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
  }
  std::array<char, 40> buffer;
  return {buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr};
}

std::string json_bool(bool value) {
  return value ? "true" : "false";
}
std::string json_text(const char* text) {
  return text != nullptr ? json_string(text) : "null";
}

template <typename Item>
std::string json_list(uint32_t count, const Item& item) {
  std::string text = "[";
  for (uint32_t i = 0; i < count; ++i) text += (i != 0 ? ", " : "") + item(i);
  return text + "]";
}
template <typename T>
std::string json_numbers(const void* values, uint32_t count) {
  return json_list(count, [&](uint32_t i) { return json_number(static_cast<const T*>(values)[i]); });
}

std::string json_array(const mydev_attribute& attribute) {
  const void* data = attribute.value.data;
  const uint32_t count = attribute.count;
  switch (attribute.dtype) {
    case MYDEV_PRED:
      return json_list(count, [&](uint32_t i) { return json_bool(static_cast<const uint8_t*>(data)[i] != 0); });
    case MYDEV_S8:
      return json_numbers<int8_t>(data, count);
    case MYDEV_S16:
      return json_numbers<int16_t>(data, count);
    case MYDEV_S32:
      return json_numbers<int32_t>(data, count);
    case MYDEV_S64:
      return json_numbers<int64_t>(data, count);
    case MYDEV_U8:
      return json_numbers<uint8_t>(data, count);
    case MYDEV_U16:
      return json_numbers<uint16_t>(data, count);
    case MYDEV_U32:
      return json_numbers<uint32_t>(data, count);
    case MYDEV_U64:
      return json_numbers<uint64_t>(data, count);
    case MYDEV_F32:
      return json_numbers<float>(data, count);
    default:
      return json_numbers<double>(data, count);
  }
}

std::string json_default(const mydev_attribute& attribute) {
  switch (attribute.kind) {
    case MYDEV_ATTRIBUTE_BOOL:
      return json_bool(attribute.value.i != 0);
    case MYDEV_ATTRIBUTE_INT:
      return json_number(attribute.value.i);
    case MYDEV_ATTRIBUTE_FLOAT:
      return json_number(attribute.value.f);
    case MYDEV_ATTRIBUTE_COMPLEX:
      return json_numbers<double>(attribute.value.c, 2);
    case MYDEV_ATTRIBUTE_STRING:
      return json_string({attribute.value.bytes, attribute.count});
    case MYDEV_ATTRIBUTE_INT_ARRAY:
      return json_numbers<int64_t>(attribute.value.ints, attribute.count);
    case MYDEV_ATTRIBUTE_FLOAT_ARRAY:
      return json_numbers<double>(attribute.value.floats, attribute.count);
    default:
      return json_array(attribute);
  }
}

std::string json_dtypes(uint64_t dtypes) {
  std::string text;
  for (int dtype = 0; dtype <= MYDEV_F8E4M3FN; ++dtype) {
    if ((dtypes & MYDEV_DTYPE_BIT(dtype)) == 0) continue;
    text += (text.empty() ? "" : ", ") + json_string(dtype_name(static_cast<mydev_dtype>(dtype)));
  }
  return "[" + text + "]";
}

std::string json_operand_name(const mydev_signature& signature, int32_t operand) {
  return operand >= 0 ? json_string(signature.operands[operand]->name) : "null";
}

std::string json_operand(const mydev_signature& signature, const mydev_operand& operand) {
  return "{\"name\": " + json_string(operand.name) + ", \"dtypes\": " + json_dtypes(operand.dtypes) +
         ", \"like\": " + json_operand_name(signature, operand.like) +
         ", \"rank_min\": " + json_number(operand.rank_min) +
         ", \"rank_max\": " + (operand.rank_max < 0 ? "null" : json_number(operand.rank_max)) +
         ", \"optional\": " + json_bool((operand.flags & MYDEV_OPERAND_OPTIONAL) != 0) +
         ", \"variadic\": " + json_bool(is_variadic(operand)) +
         ", \"strided\": " + json_bool((operand.flags & MYDEV_OPERAND_STRIDED) != 0) +
         ", \"doc\": " + json_text(operand.doc) + "}";
}

std::string json_result(const mydev_signature& signature, const mydev_operand& result) {
  return "{\"name\": " + json_string(result.name) + ", \"dtypes\": " + json_dtypes(result.dtypes) +
         ", \"like\": " + json_operand_name(signature, result.dtypes == 0 ? result.like : -1) +
         ", \"alias\": " + json_operand_name(signature, result.alias) +
         ", \"variadic\": " + json_bool(is_variadic(result)) + ", \"doc\": " + json_text(result.doc) + "}";
}

std::string json_attribute(const mydev_attribute_spec& spec) {
  const mydev_attribute& value = spec.value;
  const bool required = (spec.flags & MYDEV_ATTRIBUTE_REQUIRED) != 0;
  const auto dtype = static_cast<mydev_dtype>(value.dtype);
  return "{\"name\": " + json_string(value.name) + ", \"kind\": " + json_string(kAttributeKindNames[value.kind]) +
         ", \"dtype\": " + (dtype == MYDEV_DTYPE_INVALID ? "null" : json_string(dtype_name(dtype))) +
         ", \"required\": " + json_bool(required) + (required ? "" : ", \"default\": " + json_default(value)) +
         ", \"doc\": " + json_text(spec.doc) + "}";
}

std::string json_signature(const mydev_signature& signature) {
  return "{\"operands\": " +
         json_list(signature.num_operands,
                   [&](uint32_t i) { return json_operand(signature, *signature.operands[i]); }) +
         ", \"results\": " +
         json_list(signature.num_results, [&](uint32_t i) { return json_result(signature, *signature.results[i]); }) +
         ", \"attributes\": " +
         json_list(signature.num_attributes, [&](uint32_t i) { return json_attribute(*signature.attributes[i]); }) +
         "}";
}

std::string json_gradient(const mydev_gradient& gradient) {
  return "{\"kernel\": " + json_string(gradient.kernel) +
         ", \"saved\": " + json_numbers<int32_t>(gradient.saved, gradient.num_saved) +
         ", \"wrt\": " + json_numbers<int32_t>(gradient.wrt, gradient.num_wrt) + "}";
}

// Appends the names of what is there.
struct NameList {
  std::string text;
  NameList& add(bool there, const char* name) {
    if (there) text += (text.empty() ? "" : ", ") + json_string(name);
    return *this;
  }
  std::string json() const { return "[" + text + "]"; }
};

}  // namespace

const char* kind_name(int32_t kind) noexcept {
  const auto index = static_cast<size_t>(kind);
  return index < kKindNames.size() ? kKindNames[index] : "unknown";
}

std::string json_string(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const bool characters = is_utf8(text);
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (byte < ' ' || byte == 0x7F || (byte > 0x7F && !characters)) {
      quoted += "\\u00";
      quoted += kHex[byte >> 4];
      quoted += kHex[byte & 15];
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string open_description(const mydev_kernel& kernel) {
  const mydev_signature* signature = kernel.signature;
  const bool frame = kernel.kind == MYDEV_KIND_FRAME;
  return "{\"name\": " + json_string(kernel.name) + ", \"kind\": " + json_string(kind_name(kernel.kind)) +
         ", \"platform\": " + json_string(kernel.platform != nullptr ? kernel.platform : "Host") + ", \"traits\": " +
         NameList()
             .add((kernel.traits & MYDEV_TRAIT_COMMAND_BUFFER_COMPATIBLE) != 0, "command_buffer_compatible")
             .add((kernel.traits & MYDEV_TRAIT_TUPLE_RESULT) != 0, "tuple_result")
             .json() +
         ", \"stages\": " +
         NameList()
             .add(kernel.instantiate != nullptr, "instantiate")
             .add(kernel.prepare != nullptr, "prepare")
             .add(kernel.initialize != nullptr, "initialize")
             .add(frame ? kernel.entry != nullptr : kernel.execute != nullptr, "execute")
             .json() +
         ", \"signature\": " + (signature != nullptr ? json_signature(*signature) : "null") +
         ", \"operator\": " + (signature != nullptr ? json_string(operator_name(kernel)) : "null") +
         ", \"schema\": " + (signature != nullptr ? json_string(operator_schema(kernel)) : "null") +
         ", \"shapes\": " + json_text(signature != nullptr ? signature->shapes : nullptr) +
         ", \"gradient\": " + (kernel.gradient != nullptr ? json_gradient(*kernel.gradient) : "null") +
         ", \"batching\": " + json_string(kBatchingNames[static_cast<size_t>(kernel.batching)]) +
         ", \"doc\": " + json_text(kernel.doc);
}

}  // namespace mydev
