#include <algorithm>
#include <vector>

#include "stablehlo/text/attribute_printer.h"
#include "stablehlo/text/text.h"

namespace mydev::stablehlo {

namespace {

class FunctionPrinter {
 public:
  FunctionPrinter(std::string& text, const Function& function)
      : text_(text), function_(function), names_(function.value_count) {}

  void print() {
    text_ += "  func.func ";
    if (!function_.visibility.empty()) text_ += function_.visibility + " ";
    append_symbol(text_, function_.name);
    arguments();
    results();
    if (!function_.attributes.empty()) {
      text_ += " attributes ";
      append_dictionary(text_, function_.attributes);
    }
    text_ += " {\n";
    if (!function_.body->blocks.empty()) operations(function_.body->body(), 2);
    text_ += "  }\n";
  }

 private:
  void arguments() {
    text_ += '(';
    for (size_t i = 0; i < function_.arguments.size(); ++i) {
      const FunctionArgument& argument = function_.arguments[i];
      if (i != 0) text_ += ", ";
      text_ += name_argument(*argument.value) + ": " + argument.value->type->text();
      spaced_dictionary(argument.attributes);
    }
    text_ += ')';
  }

  void results() {
    if (function_.results.empty()) return;
    text_ += " -> (";
    for (size_t i = 0; i < function_.results.size(); ++i) {
      const FunctionResult& result = function_.results[i];
      if (i != 0) text_ += ", ";
      text_ += result.type->text();
      spaced_dictionary(result.attributes);
    }
    text_ += ')';
  }

  const std::string& name_argument(const Value& value) {
    return names_[value.id] = "%arg" + std::to_string(next_argument_++);
  }

  void spaced_dictionary(const Dictionary& dictionary) {
    std::string attributes;
    append_dictionary(attributes, dictionary);
    if (!attributes.empty()) text_ += ' ';
    text_ += attributes;
  }

  void indent(int depth) { text_.append(static_cast<size_t>(depth) * 2, ' '); }

  void operations(const Block& block, int depth) {
    for (const Operation* op : block.operations) operation(*op, depth);
  }

  void operation(const Operation& op, int depth) {
    indent(depth);
    result_names(op);
    if (op.op == Operator::kReturn) {
      terminator(op);
    } else if (op.op == Operator::kCall) {
      call(op);
    } else if (op.op == Operator::kConstant && dialect_attributes(op).empty()) {
      text_ += "stablehlo.constant ";
      append_attribute(text_, op.attribute("value"));
    } else if (is_short(op)) {
      short_form(op);
    } else {
      generic_form(op, depth);
    }
    text_ += '\n';
  }

  void result_names(const Operation& op) {
    if (op.results.empty()) return;
    const std::string base = '%' + std::to_string(next_result_++);
    const bool is_one = op.results.size() == 1;
    for (size_t i = 0; i < op.results.size(); ++i) {
      names_[op.results[i]->id] = is_one ? base : base + "#" + std::to_string(i);
    }
    text_ += base;
    if (!is_one) text_ += ':' + std::to_string(op.results.size());
    text_ += " = ";
  }

  static Dictionary dialect_attributes(const Operation& op) {
    Dictionary found;
    std::ranges::copy_if(op.attributes, std::back_inserter(found), [&](const NamedAttribute& attribute) {
      return find_attribute(op.row(), attribute.name) == nullptr;
    });
    return found;
  }

  // True if it has nothing but values of one type.
  static bool is_short(const Operation& op) {
    if (!op.row().has(kSameTypes) || op.row().has(kIdentity) || !op.regions.empty() || op.results.size() != 1) {
      return false;
    }
    std::string attributes;
    append_operator_attributes(attributes, op);
    const Type& type = *op.results.front()->type;
    return attributes.empty() && std::ranges::all_of(op.operands, [&](const Value* v) { return *v->type == type; });
  }

  void operands(const Operation& op) {
    for (size_t i = 0; i < op.operands.size(); ++i) {
      if (i != 0) text_ += ", ";
      text_ += names_[op.operands[i]->id];
    }
  }

  void types(const std::vector<const Value*>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (i != 0) text_ += ", ";
      text_ += values[i]->type->text();
    }
  }

  void signature(const Operation& op) {
    text_ += " : (";
    types(op.operands);
    text_ += ") -> ";
    const bool parentheses = op.results.size() != 1;
    if (parentheses) text_ += '(';
    types(op.results);
    if (parentheses) text_ += ')';
  }

  void dialects(const Operation& op) { spaced_dictionary(dialect_attributes(op)); }

  void terminator(const Operation& op) {
    const Operation* owner = op.block->region->owner;
    const bool is_sdy = owner != nullptr &&
                        (owner->op == Operator::kSdyManualComputation || owner->op == Operator::kSdyNamedComputation);
    text_ += owner == nullptr ? "return" : is_sdy ? "sdy.return" : "stablehlo.return";
    if (!op.operands.empty()) text_ += ' ';
    operands(op);
    dialects(op);
    if (op.operands.empty()) return;
    text_ += " : ";
    types(op.operands);
  }

  void call(const Operation& op) {
    text_ += "func.call ";
    append_symbol(text_, op.string("callee"));
    text_ += '(';
    operands(op);
    text_ += ')';
    dialects(op);
    signature(op);
  }

  void short_form(const Operation& op) {
    text_ += std::string(op.name()) + " ";
    operands(op);
    dialects(op);
    text_ += " : " + op.results.front()->type->text();
  }

  void generic_form(const Operation& op, int depth) {
    text_ += '"' + std::string(op.name()) + "\"(";
    operands(op);
    text_ += ')';
    std::string attributes;
    append_operator_attributes(attributes, op);
    if (!attributes.empty()) text_ += " <{" + attributes + "}>";
    if (!op.regions.empty()) regions(op, depth);
    dialects(op);
    signature(op);
  }

  void regions(const Operation& op, int depth) {
    text_ += " (";
    for (size_t i = 0; i < op.regions.size(); ++i) {
      text_ += i == 0 ? "{\n" : ", {\n";
      const Region& region = *op.regions[i];
      if (!region.blocks.empty()) {
        block_arguments(region.body(), depth);
        operations(region.body(), depth + 1);
      }
      indent(depth);
      text_ += '}';
    }
    text_ += ')';
  }

  void block_arguments(const Block& block, int depth) {
    if (block.arguments.empty()) return;
    indent(depth);
    text_ += "^bb0(";
    for (size_t i = 0; i < block.arguments.size(); ++i) {
      if (i != 0) text_ += ", ";
      text_ += name_argument(*block.arguments[i]) + ": " + block.arguments[i]->type->text();
    }
    text_ += "):\n";
  }

  std::string& text_;
  const Function& function_;
  std::vector<std::string> names_;  // of values, by their ids
  size_t next_argument_ = 0, next_result_ = 0;
};

}  // namespace

std::string print(const Attribute& attribute) {
  std::string text;
  append_attribute(text, attribute);
  return text;
}

std::string print(const Module& module) {
  std::string text = "module";
  if (!module.name().empty()) {
    text += ' ';
    append_symbol(text, module.name());
  }
  if (!module.attributes().empty()) {
    text += " attributes ";
    append_dictionary(text, module.attributes());
  }
  text += " {\n";
  for (const auto& [name, mesh] : module.meshes()) {
    text += "  sdy.mesh ";
    append_symbol(text, name);
    // "#sdy.mesh<...>" without its first word.
    text += " = " + print(Attribute{mesh}).substr(std::string_view("#sdy.mesh").size()) + "\n";
  }
  for (const Function* function : module.functions()) FunctionPrinter(text, *function).print();
  return text + "}\n";
}

}  // namespace mydev::stablehlo
