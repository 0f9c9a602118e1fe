#include "lowering/operators/kernel_call.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/spec/signature.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

// --- attributes ------------------------------------------------------------------------------------------------------

namespace {

constexpr std::string_view kAbsent = "mydev.absent";

// Programs have arrays of numbers only where kernels have more kinds. An integer is a number of floating type, too.
mydev_attribute of_kind(mydev_attribute attribute, uint16_t kind) {
  if (kind == MYDEV_ATTRIBUTE_FLOAT && attribute.kind == MYDEV_ATTRIBUTE_INT) {
    return float_attribute(attribute.name, static_cast<double>(attribute.value.i));
  }
  if (attribute.kind != MYDEV_ATTRIBUTE_ARRAY) return attribute;
  if (kind == MYDEV_ATTRIBUTE_COMPLEX && attribute.dtype == MYDEV_F64 && attribute.count == 2) {
    std::memcpy(attribute.value.c, attribute.value.data, sizeof attribute.value.c);
    attribute.count = 0;
  } else if (!(kind == MYDEV_ATTRIBUTE_INT_ARRAY && attribute.dtype == MYDEV_S64) &&
             !(kind == MYDEV_ATTRIBUTE_FLOAT_ARRAY && attribute.dtype == MYDEV_F64)) {
    return attribute;
  }
  attribute.kind = kind;
  attribute.dtype = MYDEV_DTYPE_INVALID;
  return attribute;
}

}  // namespace

CallAttributes::CallAttributes(const Operation& op, const Attribute* values) : op_(op) {
  if (values == nullptr) return;
  if (const auto* dictionary = values->get_if<Dictionary>()) {
    for (const NamedAttribute& entry : *dictionary) {
      const auto* places = entry.name == kAbsent ? entry.value->get_if<TensorLiteral>() : nullptr;
      if (places != nullptr) {
        absent_ = integers_of(*places);
      } else {
        attributes_.push_back(convert(entry));
      }
    }
  } else if (const auto* text = values->get_if<std::string>(); text != nullptr && !text->empty()) {
    attributes_.push_back(text_attribute("opaque", *text));
  }
}

std::string_view CallAttributes::text(std::string_view name) const {
  const mydev_attribute* given = find(name);
  if (given == nullptr || given->kind != MYDEV_ATTRIBUTE_STRING) {
    op_.fail(MYDEV_INVALID_ARGUMENT, "needs the attribute '", name, "', a string");
  }
  return {given->value.bytes, given->count};
}

std::vector<mydev_attribute> CallAttributes::of(const mydev_kernel& kernel) const {
  if (const KernelContract* contract = builtin_contract(kernel.name)) return of_contract(*contract);
  if (kernel.signature == nullptr) return attributes_;
  std::vector<mydev_attribute> ordered;
  size_t used = 0;
  for (uint32_t i = 0; i < kernel.signature->num_attributes; ++i) {
    const mydev_attribute_spec& spec = *kernel.signature->attributes[i];
    const mydev_attribute* given = find(spec.value.name);
    if (given == nullptr && (spec.flags & MYDEV_ATTRIBUTE_REQUIRED) != 0) {
      op_.fail(MYDEV_INVALID_ARGUMENT, "kernel '", kernel.name, "' needs the attribute '", spec.value.name, "'");
    }
    used += given == nullptr ? 0 : 1;
    ordered.push_back(given == nullptr ? spec.value : of_kind(*given, spec.value.kind));
  }
  if (used != attributes_.size())
    refuse_unknown(kernel.name, [&](std::string_view name) {
      return std::ranges::any_of(ordered, [&](const mydev_attribute& known) { return known.name == name; });
    });
  return ordered;
}

const mydev_attribute* CallAttributes::find(std::string_view name) const {
  const auto found = std::ranges::find_if(
      attributes_, [&](const mydev_attribute& attribute) { return std::string_view(attribute.name) == name; });
  return found == attributes_.end() ? nullptr : &*found;
}

// Attributes in the order of the contract. Attributes at the end may be left out if they have a default.
std::vector<mydev_attribute> CallAttributes::of_contract(const KernelContract& contract) const {
  std::vector<mydev_attribute> ordered;
  for (const ContractAttribute& attribute : contract.attributes) {
    const mydev_attribute* given = find(attribute.name);
    if (given == nullptr) break;
    const bool is_ints = attribute.kind == ContractKind::kInts, is_floats = attribute.kind == ContractKind::kFloats;
    ordered.push_back(is_ints     ? of_kind(*given, MYDEV_ATTRIBUTE_INT_ARRAY)
                      : is_floats ? of_kind(*given, MYDEV_ATTRIBUTE_FLOAT_ARRAY)
                                  : *given);
  }
  if (ordered.size() != attributes_.size()) {
    refuse_unknown(contract.name, [&](std::string_view name) {
      return std::ranges::any_of(ordered, [&](const mydev_attribute& known) { return known.name == name; });
    });
  }
  return ordered;
}

template <typename IsKnown>
void CallAttributes::refuse_unknown(std::string_view kernel, const IsKnown& is_known) const {
  for (const mydev_attribute& attribute : attributes_) {
    if (is_known(attribute.name)) continue;
    op_.fail(MYDEV_INVALID_ARGUMENT, "kernel '", kernel, "' has no attribute '", attribute.name,
             "', or is not given those before it");
  }
  op_.fail(MYDEV_INVALID_ARGUMENT, "an attribute of kernel '", kernel, "' is given twice");
}

mydev_attribute CallAttributes::text_attribute(std::string_view name, const std::string& text) {
  mydev_attribute attribute{
      names_.emplace_back(name).c_str(), MYDEV_ATTRIBUTE_STRING, 0, static_cast<uint32_t>(text.size()), {}};
  attribute.value.bytes = text.data();
  return attribute;
}

mydev_attribute CallAttributes::convert(const NamedAttribute& entry) {
  const char* name = names_.emplace_back(entry.name).c_str();
  const Attribute& value = *entry.value;
  if (const auto* flag = value.get_if<bool>()) return bool_attribute(name, *flag);
  if (const auto* integer = value.get_if<Integer>()) {
    mydev_attribute attribute = int_attribute(name, integer->value);
    if (integer->type != nullptr) attribute.dtype = static_cast<uint16_t>(dtype_of(integer->type->element));
    return attribute;
  }
  if (const auto* number = value.get_if<Float>()) {
    mydev_attribute attribute = float_attribute(name, number->value);
    if (number->type != nullptr) attribute.dtype = static_cast<uint16_t>(dtype_of(number->type->element));
    return attribute;
  }
  if (const auto* text = value.get_if<std::string>()) return text_attribute(entry.name, *text);
  if (const auto* literal = value.get_if<TensorLiteral>()) return array_attribute(name, *literal);
  if (const auto* dictionary = value.get_if<Dictionary>()) {
    std::vector<mydev_attribute> entries;
    for (const NamedAttribute& inner : *dictionary) entries.push_back(convert(inner));
    const std::vector<mydev_attribute>& kept = dictionaries_.emplace_back(std::move(entries));
    mydev_attribute attribute{name, MYDEV_ATTRIBUTE_DICTIONARY, 0, static_cast<uint32_t>(kept.size()), {}};
    attribute.value.attributes = kept.data();
    return attribute;
  }
  op_.fail(MYDEV_UNIMPLEMENTED, "attribute '", entry.name, "' is ", value.kind_name(),
           "; kernels take numbers, strings, arrays of numbers, and dictionaries of these");
}

// The module's bytes are not aligned, and those of equal elements are there once.
mydev_attribute CallAttributes::array_attribute(const char* name, const TensorLiteral& literal) {
  const ElementType type = literal.type->element;
  const auto count = static_cast<size_t>(count_of(literal.type->dims));
  if (literal.is_splat && count > kMostListedElements) {
    op_.fail(MYDEV_INVALID_ARGUMENT, "attribute '", name, "' is an array of ", count, " equal numbers, at most ",
             kMostListedElements, " are taken");
  }
  std::vector<std::byte>& bytes = arrays_.emplace_back();
  bytes.reserve(count * static_cast<size_t>(element_bytes(type)));
  for (size_t i = 0; i < (literal.is_splat ? count : 1); ++i) {
    bytes.insert(bytes.end(), literal.bytes.begin(), literal.bytes.end());
  }
  mydev_attribute attribute{
      name, MYDEV_ATTRIBUTE_ARRAY, static_cast<uint16_t>(dtype_of(type)), static_cast<uint32_t>(count), {}};
  attribute.value.data = bytes.data();
  return attribute;
}

// --- operands and results --------------------------------------------------------------------------------------------

namespace {

// For each type of operands or results, its dimensions from the major one on; empty where they are in order.
std::vector<Sizes> orders_of(const Operation& op, std::string_view attribute, std::span<const Type* const> types) {
  std::vector<Sizes> orders(types.size());
  const auto* layouts = op.get_if<ArrayAttribute>(attribute);
  for (size_t i = 0; layouts != nullptr && i < std::min(types.size(), layouts->size()); ++i) {
    const auto* literal = (*layouts)[i]->get_if<TensorLiteral>();
    if (literal == nullptr || !types[i]->is_tensor()) continue;
    Sizes order = integers_of(*literal), all(types[i]->dims.size());  // from the minor one on
    std::iota(all.begin(), all.end(), 0);
    if (!std::ranges::is_permutation(order, all)) {
      op.fail(MYDEV_INVALID_ARGUMENT, "entry ", i, " of '", attribute, "' does not name each dimension of a ",
              types[i]->text(), " once");
    }
    std::ranges::reverse(order);
    if (!std::ranges::is_sorted(order)) orders[i] = std::move(order);
  }
  return orders;
}

// Kernels know no layouts: memory in another order is given as if it were row-major.
program::Operand as_row_major(program::Operand memory, const Sizes& sizes) {
  return dense_reshaped(std::move(memory), sizes);
}

// Whether the kernel takes the operand with any strides.
bool takes_strides(const mydev_kernel& kernel, size_t input) {
  if (const KernelContract* contract = builtin_contract(kernel.name)) {
    const auto& operands = contract->operands;
    return std::ranges::none_of(operands, &ContractOperand::is_list) && input < operands.size() &&
           operands[input].layout == ContractLayout::kStrided;
  }
  const mydev_signature* signature = kernel.signature;
  if (signature == nullptr || signature->num_operands == 0) return false;
  const mydev_operand* operand = signature->operands[operand_of_input(*signature, static_cast<uint32_t>(input))];
  return (operand->flags & MYDEV_OPERAND_STRIDED) != 0;
}

// Views for operands that the kernel takes with any strides, dense memory for others.
std::vector<program::Operand> operands_of_call(Frame& frame, const Operation& op, const mydev_kernel& kernel,
                                               const Sizes& absent) {
  std::vector<program::Operand> operands;
  std::vector<const Type*> types;
  types.reserve(op.operands.size());
  for (const Value* operand : op.operands) types.push_back(operand->type);
  const std::vector<Sizes> orders = orders_of(op, "operand_layouts", types);
  const auto add_absent = [&] {
    while (std::ranges::count(absent, static_cast<int64_t>(operands.size())) != 0) operands.emplace_back();
  };
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Value& value = op.operand(i);
    if (!value.type->is_tensor()) continue;
    add_absent();
    const program::Operand& view = frame.view(value);
    const bool is_strided = takes_strides(kernel, operands.size());
    if (!orders[i].empty()) {
      operands.push_back(as_row_major(frame.emit.dense(transposed(view, orders[i])), value.type->dims));
    } else {
      operands.push_back(is_strided ? view : frame.emit.dense(view));
    }
  }
  add_absent();
  return operands;
}

// New memory for a result. If the kernel writes the result in place of an operand, it is a copy of that operand, which
// the kernel then takes instead.
program::Operand memory_of_result(Frame& frame, const Operation& op, const mydev_kernel& kernel, size_t result,
                                  const Type& type, std::vector<program::Operand>& operands) {
  const mydev_signature* signature = kernel.signature;
  const int32_t alias =
      signature != nullptr && result < num_single_results(*signature) ? signature->results[result]->alias : -1;
  if (alias < 0) return frame.emit.temporary(dtype_of(type.element), type.dims);
  const auto operand = static_cast<size_t>(alias);
  if (operand >= operands.size() || operands[operand].dtype != dtype_of(type.element) ||
      operands[operand].sizes != type.dims) {
    op.fail(MYDEV_INVALID_ARGUMENT, "kernel '", kernel.name, "' writes result ", result, " in place of operand ", alias,
            ", which is not there, or has another type or other sizes");
  }
  return operands[operand] = frame.emit.duplicate(operands[operand]);
}

}  // namespace

KernelCall kernel_call(Frame& frame, const Operation& op, const mydev_kernel& kernel, const Sizes& absent) {
  KernelCall call;
  call.operands = operands_of_call(frame, op, kernel, absent);
  const std::vector<const Type*> types = op.result_types();
  const std::vector<Sizes> result_orders = orders_of(op, "result_layouts", types);
  call.tensors.resize(types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    if (!types[i]->is_tensor()) continue;
    const Sizes &order = result_orders[i], &sizes = types[i]->dims;
    program::Operand memory = memory_of_result(frame, op, kernel, i, *types[i], call.operands);
    call.results.push_back(memory);
    if (!order.empty()) {
      Sizes in_memory, back(order.size());
      for (const int64_t d : order) in_memory.push_back(sizes[static_cast<size_t>(d)]);
      for (size_t d = 0; d < order.size(); ++d) back[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
      memory = transposed(dense_reshaped(memory, in_memory), back);
    }
    call.tensors[i] = {memory, std::nullopt};
  }
  return call;
}

void set_results(Frame& frame, const Operation& op, const std::vector<Tensor>& tensors) {
  size_t next = 0;
  for (const Value* result : op.results) {
    const size_t count = result->type->kind == TypeKind::kTuple ? result->type->inputs.size() : 1;
    const auto begin = tensors.begin() + static_cast<ptrdiff_t>(next);
    if (result->type->kind == TypeKind::kTuple) {
      frame.set_tuple(*result, {begin, begin + static_cast<ptrdiff_t>(count)});
    } else {
      frame.set(*result, *begin);
    }
    next += count;
  }
}

}  // namespace mydev::lowering
