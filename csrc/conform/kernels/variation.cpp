#include "conform/kernels/variation.h"

#include <algorithm>

#include "kernels/registry/launchable.h"
#include "runtime/frame/dtype.h"

namespace mydev::conform {

namespace {

std::vector<mydev_dtype> dtypes_in(uint64_t set) {
  std::vector<mydev_dtype> found;
  for (const DtypeRow& row : kDtypes) {
    if ((set & MYDEV_DTYPE_BIT(row.dtype)) != 0) found.push_back(row.dtype);
  }
  return found;
}

bool has_lists_of_sizes(const KernelContract& contract) {
  return std::any_of(contract.sizes.begin(), contract.sizes.end(), [](const auto& size) { return size.is_list; });
}

bool any_operand(const KernelContract& contract, bool (*holds)(const ContractOperand&)) {
  return std::any_of(contract.results.begin(), contract.results.end(), holds) ||
         std::any_of(contract.operands.begin(), contract.operands.end(), holds);
}

// Adds layouts in the order in which they matter: the first that fails tells most.
void add_layouts(const KernelContract& contract, std::vector<Variation>& variations) {
  variations.push_back({.name = "many elements", .many = true});
  variations.push_back({.name = "all reversed", .reversed = Reversed::kAll});
  variations.push_back({.name = "operands reversed", .reversed = Reversed::kOperands});
  variations.push_back({.name = "results reversed", .reversed = Reversed::kResults});
  variations.push_back({.name = "gaps", .gaps = true});
  variations.push_back({.name = "broadcast", .broadcast = true});
  if (contract.may_be_empty) variations.push_back({.name = "empty", .empty = true});
  if (!has_lists_of_sizes(contract)) return;
  for (const int rank : {0, 1, 3, 5}) {
    if (rank < contract.least_list || rank > contract.greatest_list) continue;
    variations.push_back({.name = std::to_string(rank) + (rank == 1 ? " dimension" : " dimensions"), .rank = rank});
  }
}

void add_attributes(const KernelContract& contract, std::vector<Variation>& variations) {
  const auto has_kind = [&](auto... kinds) {
    return std::any_of(contract.attributes.begin(), contract.attributes.end(),
                       [&](const ContractAttribute& a) { return ((a.kind == kinds) || ...); });
  };
  const bool has_default = std::any_of(contract.attributes.begin(), contract.attributes.end(),
                                       [](const ContractAttribute& a) { return a.otherwise.has_value(); });
  // Kernels of libraries are given all attributes.
  if (has_default && is_builtin_name(contract.name)) variations.push_back({.name = "defaults", .defaults = true});
  if (has_kind(ContractKind::kBool)) variations.push_back({.name = "flags", .flags = true});
  if (any_operand(contract, [](const ContractOperand& o) { return o.may_be_absent || o.may_be_left_out; })) {
    variations.push_back({.name = "absent", .absent = true});
    const bool may_be_flat = has_lists_of_sizes(contract) && contract.least_list == 0;
    if (may_be_flat) variations.push_back({.name = "absent, 0 dimensions", .rank = 0, .absent = true});
  }
  if (any_operand(contract, [](const ContractOperand& o) { return o.shapes.size() > 1; })) {
    variations.push_back({.name = "other shapes", .other_shapes = true});
    variations.push_back({.name = "other shapes, next choice", .other_shapes = true, .next_choice = true});
  }
}

void add_memory(const KernelContract& contract, std::vector<Variation>& variations) {
  for (size_t i = 0; i < contract.operands.size(); ++i) {
    const std::string& name = contract.operands[i].name;
    const auto position = static_cast<int>(i);
    if (contract.operands[i].may_be_number) variations.push_back({.name = name + " is a number", .number = position});
    const auto may_be_it = [&](const ContractOperand& result) {
      return std::find(result.may_be.begin(), result.may_be.end(), position) != result.may_be.end();
    };
    if (std::any_of(contract.results.begin(), contract.results.end(), may_be_it)) {
      variations.push_back({.name = "result is " + name, .alias = position});
      variations.push_back({.name = "result is " + name + ", gaps", .gaps = true, .alias = position});
    }
  }
}

}  // namespace

bool uses(const KernelContract& contract, std::initializer_list<std::string_view> functions) {
  for (const Expression::Node& node : contract.expression.nodes()) {
    if (node.function != nullptr &&
        std::find(functions.begin(), functions.end(), node.function->name) != functions.end())
      return true;
  }
  return false;
}

std::vector<std::vector<mydev_dtype>> dtype_choices(const KernelContract& contract) {
  std::vector<std::vector<mydev_dtype>> choices = {{}};
  for (const ContractVariable& variable : contract.variables) {
    std::vector<std::vector<mydev_dtype>> longer;
    for (const auto& choice : choices) {
      for (const mydev_dtype dtype : dtypes_in(variable.dtypes)) {
        const mydev_dtype other = variable.like >= 0 ? choice[static_cast<size_t>(variable.like)] : MYDEV_DTYPE_INVALID;
        if (!variable.takes(dtype, other)) continue;
        longer.push_back(choice);
        longer.back().push_back(dtype);
      }
    }
    choices = std::move(longer);
  }
  return choices;
}

std::vector<Variation> variations_of(const KernelContract& contract) {
  std::vector<Variation> variations = {{.name = "plain"}};
  add_layouts(contract, variations);
  add_attributes(contract, variations);
  add_memory(contract, variations);
  variations.push_back({.name = "with NaN", .content = Content::kNan});
  variations.push_back({.name = "with infinities and zeros", .content = Content::kInfinities});
  variations.push_back({.name = "extreme integers", .content = Content::kExtremes});
  // Positions are along one dimension.
  const bool one_dimension = uses(contract, {"argmax", "argmin"});
  for (Variation& variation : variations) variation.reduced = one_dimension ? std::min(variation.rank, 2) - 1 : -1;
  if (one_dimension) std::erase_if(variations, [](const Variation& v) { return v.rank == 0; });
  // A product of many is beyond every dtype.
  if (uses(contract, {"prod"})) std::erase_if(variations, [](const Variation& v) { return v.many; });
  if (contract.is_reduction()) {
    variations.push_back({.name = "first dimension", .reduced = 0});
    variations.push_back({.name = "last dimension", .reduced = 1});
    variations.push_back({.name = "all reversed, last dimension", .reduced = 1, .reversed = Reversed::kAll});
    variations.push_back({.name = "operands reversed, first dimension", .reduced = 0, .reversed = Reversed::kOperands});
    variations.push_back({.name = "many elements, first dimension", .many = true, .reduced = 0});
    variations.push_back({.name = "many elements, last dimension", .many = true, .reduced = 1});
    if (!one_dimension) variations.push_back({.name = "no dimension", .reduced = 2});
    if (!one_dimension && contract.may_be_empty) {
      variations.push_back({.name = "empty, first dimension", .empty = true, .reduced = 0});
    }
  }
  return variations;
}

}  // namespace mydev::conform
