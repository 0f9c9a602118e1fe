#include "kernels/registry/description.h"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <type_traits>

#include "kernels/spec/attribute_array.h"
#include "kernels/spec/signature.h"
#include "runtime/base/json.h"
#include "runtime/base/utf8.h"
#include "runtime/frame/dtype.h"
#include "runtime/frame/frame.h"

namespace mydev {

namespace {

constexpr std::array kKindNames = {"frame",       "typed_ffi",     "original_host", "original_device",
                                   "status_host", "status_device", "unified_host",  "unified_device"};
constexpr std::array kAttributeKindNames = {"bool",      "int",         "float", "complex",   "string",
                                            "int_array", "float_array", "array", "dictionary"};
constexpr std::array kBatchingNames = {"none", "sequential", "expand_dims", "broadcast_all"};

using List = Description::List;
using Dictionary = Description::Dictionary;

Description text(const char* value) {
  return value != nullptr ? Description{std::string(value)} : Description{};
}

template <typename T>
Description number(T value) {
  if constexpr (std::is_same_v<T, Predicate>) {
    return {static_cast<bool>(value)};
  } else if constexpr (std::is_same_v<T, float>) {
    // The double that is written in the same digits as the float: 0.1 and not 0.10000000149011612.
    std::array<char, 40> digits;
    double same = value;
    const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), value);
    std::from_chars(digits.data(), written.ptr, same);
    return number(same);
  } else if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return text("nan");
    if (std::isinf(value)) return text(value > 0 ? "inf" : "-inf");
    return {double{value}};
  } else if constexpr (std::is_unsigned_v<T>) {
    return {uint64_t{value}};
  } else {
    return {int64_t{value}};
  }
}

template <typename T>
Description numbers(std::span<const T> values) {
  List items;
  for (const T value : values) items.push_back(number(value));
  return {std::move(items)};
}

template <typename Item>
Description list(uint32_t count, const Item& item) {
  List items;
  for (uint32_t i = 0; i < count; ++i) items.push_back(item(i));
  return {std::move(items)};
}

Description default_value(const mydev_attribute& attribute) {
  switch (attribute.kind) {
    case MYDEV_ATTRIBUTE_BOOL:
      return {attribute.value.i != 0};
    case MYDEV_ATTRIBUTE_INT:
      return number(attribute.value.i);
    case MYDEV_ATTRIBUTE_FLOAT:
      return number(attribute.value.f);
    case MYDEV_ATTRIBUTE_COMPLEX:
      return numbers(std::span<const double>(attribute.value.c, 2));
    case MYDEV_ATTRIBUTE_STRING:
      return {std::string(attribute.value.bytes, attribute.count)};
    case MYDEV_ATTRIBUTE_INT_ARRAY:
      return numbers(std::span(attribute.value.ints, attribute.count));
    case MYDEV_ATTRIBUTE_FLOAT_ARRAY:
      return numbers(std::span(attribute.value.floats, attribute.count));
    default:
      return visit_array(attribute, [](const auto& entries) { return numbers(entries); });
  }
}

Description dtype_names(uint64_t dtypes) {
  List names;
  for (const DtypeRow& row : kDtypes) {
    if ((dtypes & MYDEV_DTYPE_BIT(row.dtype)) != 0) names.push_back(text(row.name));
  }
  return {std::move(names)};
}

Description operand_name(const mydev_signature& signature, int32_t operand) {
  return text(operand >= 0 ? signature.operands[operand]->name : nullptr);
}

Description describe_operand(const mydev_signature& signature, const mydev_operand& operand) {
  return {Dictionary{{"name", text(operand.name)},
                     {"dtypes", dtype_names(operand.dtypes)},
                     {"like", operand_name(signature, operand.like)},
                     {"rank_min", number(operand.rank_min)},
                     {"rank_max", operand.rank_max < 0 ? Description{} : number(operand.rank_max)},
                     {"optional", {(operand.flags & MYDEV_OPERAND_OPTIONAL) != 0}},
                     {"variadic", {is_variadic(operand)}},
                     {"strided", {(operand.flags & MYDEV_OPERAND_STRIDED) != 0}},
                     {"doc", text(operand.doc)}}};
}

Description describe_result(const mydev_signature& signature, const mydev_operand& result) {
  return {Dictionary{{"name", text(result.name)},
                     {"dtypes", dtype_names(result.dtypes)},
                     {"like", operand_name(signature, result.dtypes == 0 ? result.like : -1)},
                     {"alias", operand_name(signature, result.alias)},
                     {"variadic", {is_variadic(result)}},
                     {"doc", text(result.doc)}}};
}

Description describe_attribute(const mydev_attribute_spec& spec) {
  const mydev_attribute& value = spec.value;
  const bool required = (spec.flags & MYDEV_ATTRIBUTE_REQUIRED) != 0;
  const auto dtype = static_cast<mydev_dtype>(value.dtype);
  Dictionary described = {{"name", text(value.name)},
                          {"kind", text(kAttributeKindNames[value.kind])},
                          {"dtype", text(dtype != MYDEV_DTYPE_INVALID ? dtype_name(dtype) : nullptr)},
                          {"required", {required}}};
  if (!required) described.emplace_back("default", default_value(value));
  described.emplace_back("doc", text(spec.doc));
  return {std::move(described)};
}

Description describe(const mydev_signature& signature) {
  return {Dictionary{
      {"operands",
       list(signature.num_operands, [&](uint32_t i) { return describe_operand(signature, *signature.operands[i]); })},
      {"results",
       list(signature.num_results, [&](uint32_t i) { return describe_result(signature, *signature.results[i]); })},
      {"attributes",
       list(signature.num_attributes, [&](uint32_t i) { return describe_attribute(*signature.attributes[i]); })}}};
}

Description describe(const mydev_gradient& gradient) {
  return {Dictionary{{"kernel", text(gradient.kernel)},
                     {"saved", numbers(std::span(gradient.saved, gradient.num_saved))},
                     {"wrt", numbers(std::span(gradient.wrt, gradient.num_wrt))}}};
}

// The operands that have derivatives: by the gradient kernel, or all of them by the expression.
Description differentiable_operands(const mydev_kernel& kernel, const KernelContract* contract) {
  if (kernel.gradient != nullptr) return numbers(std::span(kernel.gradient->wrt, kernel.gradient->num_wrt));
  const bool by_expression = contract != nullptr && contract->has_one_shape() && contract->is_pointwise();
  const uint32_t count = by_expression && kernel.signature != nullptr ? kernel.signature->num_operands : 0;
  return list(count, [](uint32_t i) { return number(int64_t{i}); });
}

// The names of the candidates that are present.
Description present(std::initializer_list<std::pair<bool, const char*>> candidates) {
  List names;
  for (const auto& [there, name] : candidates) {
    if (there) names.push_back(text(name));
  }
  return {std::move(names)};
}

}  // namespace

const Description* Description::find(std::string_view key) const noexcept {
  const auto* entries = std::get_if<Dictionary>(&value);
  if (entries == nullptr) return nullptr;
  for (const auto& [name, entry] : *entries) {
    if (name == key) return &entry;
  }
  return nullptr;
}

bool operator==(const Description& a, const Description& b) {
  return a.value == b.value;
}

Description describe_limits(const KernelCandidate& candidate) {
  const auto entries = [](uint64_t dtypes, int32_t rank_max, uint32_t flags) {
    return Dictionary{{"dtypes", dtypes == 0 ? Description{} : dtype_names(dtypes)},
                      {"rank_max", rank_max < 0 ? Description{} : number(rank_max)},
                      {"dense", {(flags & MYDEV_LIMIT_DENSE) != 0}},
                      {"numbers", {(flags & MYDEV_LIMIT_NO_SCALARS) == 0}}};
  };
  const mydev_limits& limits = candidate.limits;
  Dictionary operands;
  for (const OperandLimits& own : candidate.operand_limits) {
    if (own.dtypes == limits.dtypes && own.rank_max == limits.rank_max && own.flags == limits.flags) continue;
    operands.emplace_back(own.name, Description{entries(own.dtypes, own.rank_max, own.flags)});
  }
  Dictionary described = entries(limits.dtypes, limits.rank_max, limits.flags);
  described.emplace_back("operands", Description{std::move(operands)});
  return {std::move(described)};
}

Description describe(const KernelContract& contract) {
  Description::Dictionary variables;
  for (const ContractVariable& variable : contract.variables) {
    variables.emplace_back(std::string(1, variable.name), dtype_names(variable.dtypes));
  }
  return {Description::Dictionary{{"kernel", {contract.name}},
                                  {"group", text(contract.group)},
                                  {"operands", text(contract.operands_text)},
                                  {"types", text(contract.types_text)},
                                  {"dtypes", {std::move(variables)}},
                                  {"expression", {contract.expression.text()}},
                                  {"notes", text(contract.notes)}}};
}

// --- what a contract says --------------------------------------------------------------------------------------------

namespace {

constexpr std::array kLayoutNames = {"strided", "dense", "packed", "reduced"};
constexpr std::array kContractKindNames = {"bool", "int", "float", "number", "scalar", "ints", "floats"};

Description optional_number(const std::optional<double>& value) {
  return value ? number(*value) : Description{};
}

template <typename Things, typename Describe>
Description list_of(const Things& things, const Describe& describe) {
  List items;
  for (const auto& thing : things) items.push_back(describe(thing));
  return {std::move(items)};
}

// A number, the name of an operand, an attribute or a size, or a function with its arguments.
Description tree(const Expression& expression, int32_t index) {
  const Expression::Node& node = expression.nodes()[static_cast<size_t>(index)];
  if (node.function != nullptr) {
    return {Dictionary{{"function", text(node.function->name)},
                       {"arguments", list_of(node.arguments, [&](int32_t i) { return tree(expression, i); })}}};
  }
  if (node.name < 0) return number(node.number);
  return {Dictionary{{"name", {expression.names()[static_cast<size_t>(node.name)]}}}};
}

// "" is the name of the only result.
Description trees(const Expression& expression) {
  Dictionary results;
  for (const Expression::Result& result : expression.results()) {
    results.emplace_back(result.name, tree(expression, result.node));
  }
  return {std::move(results)};
}

Description variable_of(const KernelContract& contract, int32_t index) {
  if (index < 0) return {};
  return {std::string(1, contract.variables[static_cast<size_t>(index)].name)};
}

Description size_entry(const KernelContract& contract, const ContractSize& size) {
  if (size.kind == ContractSize::kNumber) return number(size.number);
  const ContractSizeName& name = contract.sizes[static_cast<size_t>(size.name)];
  const bool is_named_list = size.kind == ContractSize::kList && name.name != "...";
  return {name.name + (is_named_list ? "..." : size.is_product ? "*" : "")};
}

Description operand_entry(const KernelContract& contract, const ContractOperand& operand) {
  const auto shape = [&](const ContractShape& sizes) {
    return list_of(sizes, [&](const ContractSize& size) { return size_entry(contract, size); });
  };
  const auto name_of_operand = [&](int32_t i) { return Description{contract.operands[static_cast<size_t>(i)].name}; };
  return {Dictionary{{"name", {operand.name}},
                     {"variable", variable_of(contract, operand.variable)},
                     {"dtypes", dtype_names(operand.dtypes)},
                     {"shapes", list_of(operand.shapes, shape)},
                     {"layout", text(kLayoutNames[static_cast<size_t>(operand.layout)])},
                     {"list", {operand.is_list}},
                     {"may_be_absent", {operand.may_be_absent}},
                     {"may_be_left_out", {operand.may_be_left_out}},
                     {"may_be_number", {operand.may_be_number}},
                     {"updated", {operand.is_updated}},
                     {"may_be", list_of(operand.may_be, name_of_operand)},
                     {"low", optional_number(operand.low)},
                     {"high", optional_number(operand.high)}}};
}

Description attribute_entry(const ContractAttribute& attribute) {
  const bool of_list = attribute.length == ContractAttribute::kListLength;
  return {Dictionary{{"name", {attribute.name}},
                     {"kind", text(kContractKindNames[static_cast<size_t>(attribute.kind)])},
                     {"length", of_list                ? text("...")
                                : attribute.length < 0 ? Description{}
                                                       : number(attribute.length)},
                     {"low", optional_number(attribute.low)},
                     {"high", optional_number(attribute.high)},
                     {"default", optional_number(attribute.otherwise)}}};
}

Description variable_entry(const KernelContract& contract, const ContractVariable& variable) {
  const auto condition = [](const std::pair<uint64_t, uint64_t>& dtypes) {
    return Description{
        Dictionary{{"dtypes", dtype_names(dtypes.first)}, {"where_like_is", dtype_names(dtypes.second)}}};
  };
  return {Dictionary{{"name", {std::string(1, variable.name)}},
                     {"dtypes", dtype_names(variable.dtypes & ~variable.on_request)},
                     {"dtypes_on_request", dtype_names(variable.on_request)},
                     {"like", variable_of(contract, variable.like)},
                     {"conditions", list_of(variable.conditions, condition)}}};
}

// Text of no UTF-8 has a character for each byte.
std::string as_utf8(const std::string& text) {
  if (is_utf8(text)) return text;
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      out += c;
    } else {
      (out += static_cast<char>(0xc0 | byte >> 6)) += static_cast<char>(0x80 | (byte & 0x3f));
    }
  }
  return out;
}

void append(std::string& json, const Description& description);

// Entries of a list or a dictionary, each by append_entry.
template <typename Entries, typename AppendEntry>
void append_all(std::string& json, const char* brackets, const Entries& entries, const AppendEntry& append_entry) {
  json += brackets[0];
  const char* separator = "";
  for (const auto& entry : entries) {
    json += separator;
    append_entry(entry);
    separator = ", ";
  }
  json += brackets[1];
}

void append(std::string& json, const Description& description) {
  std::visit(
      [&](const auto& value) {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::nullptr_t>) {
          json += "null";
        } else if constexpr (std::is_same_v<Value, bool>) {
          json += value ? "true" : "false";
        } else if constexpr (std::is_same_v<Value, std::string>) {
          append_json(json, as_utf8(value));
        } else if constexpr (std::is_same_v<Value, List>) {
          append_all(json, "[]", value, [&](const Description& item) { append(json, item); });
        } else if constexpr (std::is_same_v<Value, Dictionary>) {
          append_all(json, "{}", value, [&](const auto& entry) {
            append_json(json, entry.first);
            json += ": ";
            append(json, entry.second);
          });
        } else {
          std::array<char, 40> digits;
          const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
          const std::string_view text(digits.data(), static_cast<size_t>(end.ptr - digits.data()));
          json += text;
          if (std::is_same_v<Value, double> && text.find_first_of(".e") == std::string_view::npos) json += ".0";
        }
      },
      description.value);
}

}  // namespace

std::string as_json(const Description& description) {
  std::string json;
  append(json, description);
  return json;
}

Description parsed(const KernelContract& contract) {
  const auto operand = [&](const ContractOperand& each) { return operand_entry(contract, each); };
  const auto variable = [&](const ContractVariable& each) { return variable_entry(contract, each); };
  const auto size = [](const ContractSizeName& each) {
    return Description{Dictionary{{"name", {each.name}}, {"list", {each.is_list}}, {"own", {each.is_own}}}};
  };
  const auto fact = [&](const SizeFact& each) {
    return Description{Dictionary{{"size", {contract.sizes[static_cast<size_t>(each.size)].name}},
                                  {"value", tree(each.value, each.value.results().front().node)}}};
  };
  return {Dictionary{{"variables", list_of(contract.variables, variable)},
                     {"results", list_of(contract.results, operand)},
                     {"operands", list_of(contract.operands, operand)},
                     {"attributes", list_of(contract.attributes, attribute_entry)},
                     {"sizes", list_of(contract.sizes, size)},
                     {"facts", list_of(contract.facts, fact)},
                     {"least_list", number(contract.least_list)},
                     {"greatest_list", number(contract.greatest_list)},
                     {"may_be_empty", {contract.may_be_empty}},
                     {"computes", trees(contract.expression)}}};
}

namespace {

Description with_trees(const KernelContract& contract) {
  Description described = describe(contract);
  auto& entries = std::get<Dictionary>(described.value);
  entries.emplace_back("one_shape", Description{contract.has_one_shape()});
  entries.emplace_back("pointwise", Description{contract.has_one_shape() && contract.is_pointwise()});
  entries.emplace_back("computes", trees(contract.expression));
  return described;
}

}  // namespace

std::string contracts_as_json() {
  std::string json = "{\"contracts\": [\n";
  const char* separator = "";
  for (const KernelContract& contract : builtin_contracts()) {
    Description described = describe(contract);
    std::get<Dictionary>(described.value).emplace_back("parsed", parsed(contract));
    json += separator;
    append(json, described);
    separator = ",\n";
  }
  return json + "\n]}\n";
}

const char* kind_name(int32_t kind) noexcept {
  const auto index = static_cast<size_t>(kind);
  return index < kKindNames.size() ? kKindNames[index] : "unknown";
}

Description::Dictionary describe_record(const mydev_kernel& kernel) {
  const mydev_signature* signature = kernel.signature;
  const KernelContract* contract = contract_of(kernel);
  const bool executes = kernel.kind == MYDEV_KIND_FRAME ? kernel.entry != nullptr : kernel.execute != nullptr;
  return {
      {"name", text(kernel.name)},
      {"kind", text(kind_name(kernel.kind))},
      {"platform", text(kernel.platform != nullptr ? kernel.platform : "Host")},
      {"traits", present({{(kernel.traits & MYDEV_TRAIT_COMMAND_BUFFER_COMPATIBLE) != 0, "command_buffer_compatible"},
                          {(kernel.traits & MYDEV_TRAIT_TUPLE_RESULT) != 0, "tuple_result"}})},
      {"stages", present({{kernel.instantiate != nullptr, "instantiate"},
                          {kernel.prepare != nullptr, "prepare"},
                          {kernel.initialize != nullptr, "initialize"},
                          {executes, "execute"}})},
      {"signature", signature != nullptr ? describe(*signature) : Description{}},
      {"operator", signature != nullptr ? Description{operator_name(kernel)} : Description{}},
      {"schema", signature != nullptr ? Description{operator_schema(kernel)} : Description{}},
      {"shapes", text(signature != nullptr ? signature->shapes : nullptr)},
      {"gradient", kernel.gradient != nullptr ? describe(*kernel.gradient) : Description{}},
      {"differentiable", differentiable_operands(kernel, contract)},
      {"batching", text(kBatchingNames[static_cast<size_t>(kernel.batching)])},
      {"doc", text(kernel.doc)},
      {"contract", contract != nullptr ? with_trees(*contract) : Description{}}};
}

}  // namespace mydev
