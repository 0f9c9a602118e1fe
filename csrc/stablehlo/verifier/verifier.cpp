#include "stablehlo/verifier/verifier.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "stablehlo/ir/limits.h"
#include "stablehlo/verifier/checks.h"
#include "stablehlo/verifier/regions.h"
#include "stablehlo/verifier/shapes.h"

namespace mydev::stablehlo {

namespace {

using verifier::compatible;

// Called functions are lowered within each other.
constexpr size_t kMostCalls = 256;

bool has_kind(const Attribute& attribute, AttributeRow::Kind kind) {
  const auto* literal = attribute.get_if<TensorLiteral>();
  const auto* array = attribute.get_if<ArrayAttribute>();
  const auto is_list_of = [&](bool booleans) {
    if (literal != nullptr) {
      const ElementKind element = element_row(literal->type->element).kind;
      return literal->type->rank() == 1 && (booleans ? element == ElementKind::kBool : element == ElementKind::kSigned);
    }
    return array != nullptr && std::ranges::all_of(*array, [booleans](const Attribute* element) {
             return booleans ? element->get_if<bool>() != nullptr : element->get_if<Integer>() != nullptr;
           });
  };
  switch (kind) {
    case AttributeRow::kBool:
      return attribute.get_if<bool>() != nullptr;
    case AttributeRow::kInteger:
      return attribute.get_if<Integer>() != nullptr;
    case AttributeRow::kFloat:
      return attribute.get_if<Float>() != nullptr;
    case AttributeRow::kString:
      return attribute.get_if<std::string>() != nullptr || attribute.get_if<Symbol>() != nullptr;
    case AttributeRow::kIntegers:
      return is_list_of(false);
    case AttributeRow::kBools:
      return is_list_of(true);
    case AttributeRow::kTensor:
      return literal != nullptr;
    case AttributeRow::kArray:
      return array != nullptr;
    case AttributeRow::kDictionary:
      return attribute.get_if<Dictionary>() != nullptr;
    case AttributeRow::kType:
      return attribute.get_if<const Type*>() != nullptr;
    case AttributeRow::kEnumeration:
      return (attribute.get_if<ComparisonDirection>() != nullptr || attribute.get_if<ComparisonType>() != nullptr ||
              attribute.get_if<CustomCallVersion>() != nullptr || attribute.get_if<FftType>() != nullptr ||
              attribute.get_if<RngAlgorithm>() != nullptr || attribute.get_if<RngDistribution>() != nullptr ||
              attribute.get_if<Transpose>() != nullptr);
    case AttributeRow::kAny:
      break;
  }
  return true;
}

class FunctionVerifier {
 public:
  FunctionVerifier(const Module& module, const Function& function)
      : module_(module), function_(function), is_visible_(function.value_count) {}

  void run() {
    const Region& body = *function_.body;
    require_region(body.blocks.size() == 1, "has ", body.blocks.size(), " blocks, expected one");
    verify_block(body.body());
    const Operation& end = body.body().terminator();
    if (end.operands.size() != function_.results.size()) {
      end.fail(MYDEV_INVALID_ARGUMENT, "it returns ", end.operands.size(), " values, and the function has ",
               function_.results.size(), " results");
    }
    for (size_t i = 0; i < end.operands.size(); ++i) {
      require_type(end, *end.operands[i]->type, *function_.results[i].type, "what it returns");
    }
  }

 private:
  template <typename... Parts>
  void require_region(bool holds, const Parts&... parts) const {
    MYDEV_CHECK(holds, MYDEV_INVALID_ARGUMENT, "a region of function '", function_.name, "' ", parts...);
  }

  static void require_type(const Operation& op, const Type& found, const Type& expected, const char* what) {
    if (!compatible(found, expected)) {
      op.fail(MYDEV_INVALID_ARGUMENT, what, " is of the type ", found.text(), ", expected ", expected.text());
    }
  }

  void verify_block(const Block& block) {
    if (++depth_ > kMostNesting) {
      require_region(false, "is nested in others more than ", kMostNesting, " deep");
    }
    require_region(!block.operations.empty(), "is empty");
    for (const Value* argument : block.arguments) is_visible_[argument->id] = true;
    for (const Operation* op : block.operations) {
      if (op->row().has(kTerminator) != (op == block.operations.back())) {
        op->fail(MYDEV_INVALID_ARGUMENT, "a block ends with a return, and has it nowhere else");
      }
      verify_operation(*op);
      for (const Value* result : op->results) is_visible_[result->id] = true;
    }
    // Operations after the block do not see the values in it.
    for (const Operation* op : block.operations) {
      for (const Value* result : op->results) is_visible_[result->id] = false;
    }
    for (const Value* argument : block.arguments) is_visible_[argument->id] = false;
    --depth_;
  }

  void verify_operation(const Operation& op) {
    const OperatorRow& row = op.row();
    for (size_t i = 0; i < op.operands.size(); ++i) {
      if (!is_visible_[op.operands[i]->id]) {
        op.fail(MYDEV_INVALID_ARGUMENT, "operand ", i,
                " is not defined before it, or in a region that it does not see");
      }
    }
    if (!fits_groups(row.operands, op.operands.size())) {
      op.fail(MYDEV_INVALID_ARGUMENT, "it has ", op.operands.size(), " operands, expected '", row.operands, "'");
    }
    if (!fits_groups(row.results, op.results.size())) {
      op.fail(MYDEV_INVALID_ARGUMENT, "it has ", op.results.size(), " results, expected '", row.results, "'");
    }
    const bool has_regions =
        row.regions < 0 ? !op.regions.empty() : op.regions.size() == static_cast<size_t>(row.regions);
    if (!has_regions) op.fail(MYDEV_INVALID_ARGUMENT, "it has ", op.regions.size(), " regions");
    verify_attributes(op);
    verify_traits(op);
    for (const Region* region : op.regions) {
      if (region->blocks.size() != 1)
        op.fail(MYDEV_INVALID_ARGUMENT, "a region has ", region->blocks.size(), " blocks");
      verify_block(region->body());
    }
    verify_regions(op);
    if (op.op == Operator::kCall) verify_call(op, module_.callee(op));
    if (op.op == Operator::kComposite) verify_call(op, module_.callee(op, "decomposition"));
    verify_shapes(op);
  }

  static void verify_attributes(const Operation& op) {
    for (const AttributeRow& row : op.row().attributes) {
      const Attribute* attribute = op.find(row.name);
      if (attribute == nullptr) {
        const bool is_needed = !row.optional && row.last_version == 0xFF;
        if (is_needed) op.fail(MYDEV_INVALID_ARGUMENT, "it has no attribute '", row.name, "'");
      } else if (!has_kind(*attribute, row.kind)) {
        op.fail(MYDEV_INVALID_ARGUMENT, "its attribute '", row.name, "' is ", attribute->kind_name(),
                ", which is not what it takes");
      }
    }
  }

  static void verify_traits(const Operation& op) {
    const OperatorRow& row = op.row();
    if (row.has(kSameTypes) || row.has(kSameShape)) {
      const Type& type = *op.results.front()->type;
      for (const Value* operand : op.operands) {
        const bool agrees = row.has(kSameTypes) ? compatible(*operand->type, type)
                                                : operand->type->is_tensor() && type.is_tensor() &&
                                                      compatible_shapes(*operand->type, type);
        if (!agrees) {
          op.fail(MYDEV_INVALID_ARGUMENT, "operand of the type ", operand->type->text(), " and result of the type ",
                  type.text(), " differ in ", row.has(kSameTypes) ? "type" : "shape");
        }
      }
    }
    if (row.has(kResultsAreOperands)) {
      if (op.results.size() != op.operands.size()) {
        op.fail(MYDEV_INVALID_ARGUMENT, "it has ", op.operands.size(), " operands and ", op.results.size(), " results");
      }
      for (size_t i = 0; i < op.results.size(); ++i) {
        require_type(op, *op.results[i]->type, *op.operands[i]->type, "a result");
      }
    }
  }

  static void verify_call(const Operation& op, const Function& callee) {
    if (op.operands.size() != callee.arguments.size() || op.results.size() != callee.results.size()) {
      op.fail(MYDEV_INVALID_ARGUMENT, "it has ", op.operands.size(), " operands and ", op.results.size(),
              " results; function '", callee.name, "' takes ", callee.arguments.size(), " and returns ",
              callee.results.size());
    }
    for (size_t i = 0; i < op.operands.size(); ++i) {
      require_type(op, *op.operands[i]->type, *callee.arguments[i].value->type, "an operand");
    }
    for (size_t i = 0; i < op.results.size(); ++i) {
      require_type(op, *op.results[i]->type, *callee.results[i].type, "a result");
    }
  }

  const Module& module_;
  const Function& function_;
  std::vector<bool> is_visible_;  // values, by their ids
  int depth_ = 0;
};

// Records which functions call which, and checks that no function calls itself.
class CallGraph {
 public:
  explicit CallGraph(const Module& module) : module_(module) {
    for (const Function* function : module.functions()) collect(*function, *function->body);
  }

  void verify() {
    for (const Function* function : module_.functions()) visit(*function);
  }

 private:
  void collect(const Function& function, const Region& region) {
    for (const Block* block : region.blocks) {
      for (const Operation* op : block->operations) {
        if (op->op == Operator::kCall) calls_[&function].insert(&module_.callee(*op));
        if (op->op == Operator::kComposite) calls_[&function].insert(&module_.callee(*op, "decomposition"));
        for (const Region* inner : op->regions) collect(function, *inner);
      }
    }
  }

  // How many functions deep the function's calls are nested.
  size_t visit(const Function& function) {
    const auto [place, is_new] = depths_.try_emplace(&function, kOpen);
    if (!is_new) {
      MYDEV_CHECK(place->second != kOpen, MYDEV_INVALID_ARGUMENT, "function '", function.name,
                  "' calls itself, directly or through others; StableHLO has no recursion");
      return place->second;
    }
    MYDEV_CHECK(++open_ <= kMostCalls, MYDEV_INVALID_ARGUMENT, "calls are nested more than ", kMostCalls,
                " deep at function '", function.name, "'");
    size_t depth = 0;
    for (const Function* callee : calls_[&function]) depth = std::max(depth, visit(*callee) + 1);
    MYDEV_CHECK(depth <= kMostCalls, MYDEV_INVALID_ARGUMENT, "calls are nested more than ", kMostCalls,
                " deep from function '", function.name, "'");
    --open_;
    return depths_[&function] = depth;
  }

  static constexpr size_t kOpen = static_cast<size_t>(-1);
  const Module& module_;
  std::map<const Function*, std::set<const Function*>> calls_;
  std::map<const Function*, size_t> depths_;
  size_t open_ = 0;
};

}  // namespace

void verify(const Module& module) {
  for (const Function* function : module.functions()) FunctionVerifier(module, *function).run();
  CallGraph(module).verify();
}

}  // namespace mydev::stablehlo
