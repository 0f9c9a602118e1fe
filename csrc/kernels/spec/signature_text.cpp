// A signature that is given as text: the tables of mydev/custom_call.h, made of a contract.
#include <algorithm>

#include "kernels/spec/signature.h"
#include "runtime/base/status.h"

namespace mydev {

namespace {

class TextSignature {
 public:
  TextSignature(const mydev_kernel& kernel, const KernelContract& contract) : kernel_(kernel), contract_(contract) {}

  std::vector<mydev_operand> operands() const {
    std::vector<mydev_operand> table;
    for (const ContractOperand& operand : contract_.operands) {
      mydev_operand entry = base_of(operand);
      entry.like = operand.variable >= 0 ? first_of(operand.variable) : -1;
      if (entry.like == static_cast<int32_t>(table.size())) entry.like = -1;
      if (operand.may_be_absent || operand.may_be_left_out) entry.flags |= MYDEV_OPERAND_OPTIONAL;
      if (operand.layout == ContractLayout::kStrided) entry.flags |= MYDEV_OPERAND_STRIDED;
      set_ranks(operand, entry);
      table.push_back(entry);
    }
    return table;
  }

  std::vector<mydev_operand> results() const {
    std::vector<mydev_operand> table;
    for (const ContractOperand& result : contract_.results) {
      require(!result.is_updated, "result '", result.name,
              "' is updated; write the tables of the signature, with `alias`");
      mydev_operand entry = base_of(result);
      entry.like = result.variable >= 0 ? first_of(result.variable) : -1;
      if (entry.like >= 0) entry.dtypes = 0;
      if (result.is_list) {
        entry.dtypes = 0;
        entry.like = static_cast<int32_t>(contract_.operands.size()) - 1;
      }
      table.push_back(entry);
    }
    return table;
  }

  std::vector<mydev_attribute_spec> attributes() const {
    std::vector<mydev_attribute_spec> table;
    for (const ContractAttribute& attribute : contract_.attributes) {
      mydev_attribute_spec entry{.struct_size = sizeof(mydev_attribute_spec), .value = {}, .flags = 0, .doc = nullptr};
      entry.value.name = attribute.name.c_str();
      entry.value.kind = kind_of(attribute);
      if (!attribute.otherwise) {
        entry.flags = MYDEV_ATTRIBUTE_REQUIRED;
      } else if (entry.value.kind == MYDEV_ATTRIBUTE_FLOAT) {
        entry.value.value.f = *attribute.otherwise;
      } else {
        require(entry.value.kind == MYDEV_ATTRIBUTE_BOOL || entry.value.kind == MYDEV_ATTRIBUTE_INT, "attribute '",
                attribute.name, "' is a list with a default; leave the default out");
        entry.value.value.i = static_cast<int64_t>(*attribute.otherwise);
      }
      table.push_back(entry);
    }
    return table;
  }

  // "(n,m),(m)->(n)"; "" if a rule cannot say the shapes.
  std::string shape_rule() const {
    std::string rule = lists(contract_.operands) + "->" + lists(contract_.results);
    return rule.find('?') == std::string::npos ? rule : "";
  }

 private:
  template <typename... Args>
  void require(bool condition, const Args&... args) const {
    MYDEV_CHECK(condition, MYDEV_INVALID_ARGUMENT, "signature of kernel '", kernel_.name, "': ", args...);
  }

  mydev_operand base_of(const ContractOperand& operand) const {
    const bool is_supported = operand.layout == ContractLayout::kStrided || operand.layout == ContractLayout::kDense;
    require(is_supported, "'", operand.name, "' is packed or reduced, which only built-in kernels are given");
    return {.struct_size = sizeof(mydev_operand),
            .name = operand.name.c_str(),
            .dtypes = operand.dtypes,
            .like = -1,
            .alias = -1,
            .rank_min = 0,
            .rank_max = operand.is_list ? -1 : 0,
            .flags = operand.is_list ? uint32_t{MYDEV_OPERAND_VARIADIC} : 0,
            .doc = nullptr};
  }

  // The first operand with the variable that is always there; -1 if there is none.
  int32_t first_of(int32_t variable) const {
    const auto is_first = [variable](const ContractOperand& o) {
      return o.variable == variable && !o.may_be_absent && !o.may_be_left_out && !o.is_list;
    };
    const auto found = std::ranges::find_if(contract_.operands, is_first);
    return found == contract_.operands.end() ? -1 : static_cast<int32_t>(found - contract_.operands.begin());
  }

  static bool is_list(const ContractSize& size) { return size.kind == ContractSize::kList; }

  static void set_ranks(const ContractOperand& operand, mydev_operand& entry) {
    entry.rank_min = MYDEV_MAX_SHAPE_RANK;
    for (const ContractShape& shape : operand.shapes) {
      const bool is_open = std::ranges::any_of(shape, [](const ContractSize& s) { return is_list(s) || s.is_product; });
      const auto rank = static_cast<int32_t>(shape.size());
      entry.rank_min = std::min(entry.rank_min, is_open ? rank - 1 : rank);
      entry.rank_max = is_open || entry.rank_max < 0 ? -1 : std::max(entry.rank_max, rank);
    }
  }

  uint16_t kind_of(const ContractAttribute& attribute) const {
    switch (attribute.kind) {
      case ContractKind::kBool:
        return MYDEV_ATTRIBUTE_BOOL;
      case ContractKind::kInt:
        return MYDEV_ATTRIBUTE_INT;
      case ContractKind::kFloat:
        return MYDEV_ATTRIBUTE_FLOAT;
      case ContractKind::kInts:
        return MYDEV_ATTRIBUTE_INT_ARRAY;
      case ContractKind::kFloats:
        return MYDEV_ATTRIBUTE_FLOAT_ARRAY;
      default:
        require(false, "attribute '", attribute.name, "' is a ",
                attribute.kind == ContractKind::kNumber ? "number" : "scalar",
                ", whose kind only built-in kernels find out; give bool, int or float");
        return 0;
    }
  }

  // A '?' in the text stands for what a rule has no word for.
  std::string lists(const std::vector<ContractOperand>& operands) const {
    std::string text;
    for (const ContractOperand& operand : operands) {
      if (&operands == &contract_.results && operand.is_list) continue;
      text += (text.empty() ? "" : ",") + list(operand);
    }
    return text;
  }
  std::string list(const ContractOperand& operand) const {
    if (operand.shapes.size() != 1) return "?";
    std::string text;
    for (const ContractSize& size : operand.shapes[0]) {
      text += text.empty() ? "(" : ",";
      if (size.is_product || (is_list(size) && (&size != operand.shapes[0].data() || !is_only_list(size)))) return "?";
      text += is_list(size) ? "..." : size.kind == ContractSize::kNumber ? std::to_string(size.number) : name_of(size);
    }
    return (text.empty() ? "(" : text) + ")";
  }
  // A size that a fact computes is known to no rule.
  std::string name_of(const ContractSize& size) const {
    const bool is_computed = std::ranges::any_of(contract_.facts, [&](const auto& f) { return f.size == size.name; });
    return is_computed ? "?" : contract_.sizes[static_cast<size_t>(size.name)].name;
  }
  // A rule has one list of sizes, without a name.
  bool is_only_list(const ContractSize& list) const {
    for (size_t i = 0; i < contract_.sizes.size(); ++i) {
      if (contract_.sizes[i].is_list && static_cast<int32_t>(i) != list.name) return false;
    }
    return true;
  }

  const mydev_kernel& kernel_;
  const KernelContract& contract_;
};

}  // namespace

const KernelContract* contract_of(const mydev_kernel& kernel) {
  if (const KernelContract* contract = builtin_contract(kernel.name)) return contract;
  const CompiledSignature* signature = compiled_signature(kernel);
  return signature != nullptr && signature->text ? &*signature->text : nullptr;
}

void CompiledSignature::read_text(const mydev_kernel& kernel) {
  MYDEV_CHECK(
      num_operands == 0 && num_results == 0 && num_attributes == 0 && shapes == nullptr && infer_shapes == nullptr,
      MYDEV_INVALID_ARGUMENT, "signature of kernel '", kernel.name,
      "': it has a contract and tables; give one of them");
  const auto or_empty = [](const char* part) { return part != nullptr ? part : ""; };
  text = parse_contract(kernel.name, "", contract, or_empty(types), or_empty(expression), "");
  if (kernel.kind != MYDEV_KIND_FRAME) {  // XLA's kernels are given dense buffers only
    for (auto* list : {&text->results, &text->operands}) {
      for (ContractOperand& operand : *list) operand.layout = ContractLayout::kDense;
    }
  }
  const TextSignature table(kernel, *text);
  operand_values = table.operands();
  result_values = table.results();
  attribute_values = table.attributes();
  rule_text = table.shape_rule();
  if (!rule_text.empty()) shapes = rule_text.c_str();
}

}  // namespace mydev
