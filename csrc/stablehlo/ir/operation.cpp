#include "stablehlo/ir/operation.h"

#include "stablehlo/ir/module.h"

namespace mydev::stablehlo {

const Value& Operation::operand(size_t i) const {
  if (i >= operands.size()) {
    fail(MYDEV_INVALID_ARGUMENT, "there is no operand ", i, "; it has ", operands.size());
  }
  return *operands[i];
}

const Value& Operation::result(size_t i) const {
  if (i >= results.size()) fail(MYDEV_INVALID_ARGUMENT, "there is no result ", i, "; it has ", results.size());
  return *results[i];
}

const Region& Operation::region(size_t i) const {
  if (i >= regions.size()) fail(MYDEV_INVALID_ARGUMENT, "there is no region ", i, "; it has ", regions.size());
  return *regions[i];
}

std::span<const Value* const> Operation::operand_group(std::string_view group) const noexcept {
  const GroupRange range = group_range(row().operands, group, operands.size());
  return std::span(operands).subspan(range.begin, range.count);
}

const Attribute& Operation::attribute(std::string_view name) const {
  const Attribute* found = find(name);
  if (found == nullptr) fail(MYDEV_INVALID_ARGUMENT, "it has no attribute '", name, "'");
  return *found;
}

int64_t Operation::integer(std::string_view name) const {
  return get<Integer>(name).value;
}

int64_t Operation::integer(std::string_view name, int64_t otherwise) const {
  return find(name) != nullptr ? integer(name) : otherwise;
}

bool Operation::boolean(std::string_view name) const {
  return get<bool>(name);
}

bool Operation::boolean(std::string_view name, bool otherwise) const {
  return find(name) != nullptr ? boolean(name) : otherwise;
}

double Operation::floating(std::string_view name) const {
  return get<Float>(name).value;
}

const std::string& Operation::string(std::string_view name) const {
  const auto* symbol = get_if<Symbol>(name);
  return symbol != nullptr ? symbol->path : get<std::string>(name);
}

std::vector<int64_t> Operation::integers(std::string_view name) const {
  const Attribute& found = attribute(name);
  std::optional<std::vector<int64_t>> values = integers_in(found);
  if (!values) fail_attribute(name, found);
  return *std::move(values);
}

std::vector<int64_t> Operation::integers_or_none(std::string_view name) const {
  return find(name) != nullptr ? integers(name) : std::vector<int64_t>();
}

const TensorLiteral& Operation::literal(std::string_view name) const {
  return get<TensorLiteral>(name);
}

std::vector<const Type*> Operation::result_types() const {
  std::vector<const Type*> types;
  for (const Value* result : results) {
    const Type& type = *result->type;
    if (type.kind == TypeKind::kTuple) {
      types.insert(types.end(), type.inputs.begin(), type.inputs.end());
    } else {
      types.push_back(&type);
    }
  }
  return types;
}

std::string Operation::describe() const {
  std::string text = std::string(row().name) + " (operation " + std::to_string(index);
  if (function != nullptr) {
    text += " of function '" + function->name + "'";
    const std::string where = function->locations != nullptr ? function->locations->text(location) : "";
    if (!where.empty()) text += ", at " + where;
  }
  return text + ")";
}

void Operation::fail_attribute(std::string_view name, const Attribute& found) const {
  fail(MYDEV_INVALID_ARGUMENT, "its attribute '", name, "' is ", found.kind_name(), ", which is not what it takes");
}

}  // namespace mydev::stablehlo
