// The short forms of loops, reductions and convolutions, which are unlike those of other operators.

#include "stablehlo/text/operation_reader.h"

namespace mydev::stablehlo {

// (%a = %x, %b = %y) : types, and then read_loop().
void TextOperationReader::read_while(Operation& op) {
  loop_names_.clear();
  scanner_.expect("(");
  if (scanner_.peek() != ')') {
    do {
      loop_names_.emplace_back(scanner_.value_name());
      scanner_.expect("=");
      op.operands.push_back(used(scanner_.value_name()));
    } while (scanner_.take(","));
  }
  scanner_.expect(")");
}

// [attributes {...}] cond { ... } do { ... }
void TextOperationReader::read_loop(Operation& op) {
  std::vector<Argument> arguments;
  arguments.reserve(loop_names_.size());
  for (size_t i = 0; i < loop_names_.size(); ++i) arguments.push_back({loop_names_[i], op.operands[i]->type});
  if (scanner_.take_word("attributes")) read_dialect_attributes(op);
  for (const char* keyword : {"cond", "do"}) {
    if (!scanner_.take_word(keyword)) scanner_.fail("'" + std::string(keyword) + " {'");
    op.regions.push_back(read_region(&op, arguments));
  }
}

// (%x init: %v), (%y init: %w) applies stablehlo.add across dimensions = [1] : types. If it names no operator to apply,
// read_reducer() follows.
void TextOperationReader::read_reduce(Operation& op) {
  std::vector<const Value*> initial;
  do {
    scanner_.expect("(");
    op.operands.push_back(used(scanner_.value_name()));
    if (!scanner_.take_word("init")) scanner_.fail("'init: '");
    scanner_.expect(":");
    initial.push_back(used(scanner_.value_name()));
    scanner_.expect(")");
  } while (scanner_.take(","));
  op.operands.insert(op.operands.end(), initial.begin(), initial.end());
  if (scanner_.take_word("applies")) add_reducer(op, read_operator_name());
  if (!scanner_.take_word("across") || !scanner_.take_word("dimensions")) scanner_.fail("'across dimensions = '");
  scanner_.expect("=");
  op.attributes.push_back({"dimensions", attributes_.integers(attributes_.integer_list())});
  read_dialect_attributes(op);
}

// A region that is one operation of two elements.
void TextOperationReader::add_reducer(Operation& op, const OperatorRow& row) {
  const Type* operand = op.operands.front()->type;
  if (row.operands != "lhs rhs" || !row.has(kSameTypes) || op.operands.size() != 2 || !operand->is_tensor()) {
    scanner_.fail_about(std::string(row.name) + " does not make one element of two");
  }
  Type element;
  element.kind = TypeKind::kTensor;
  element.element = operand->element;
  const Type* type = contents_.add(std::move(element));
  Region& region = contents_.regions.emplace_back();
  region.owner = &op;
  region.function = &function_;
  Block& block = contents_.blocks.emplace_back();
  block.region = &region;
  region.blocks.push_back(&block);
  const auto new_value = [&](std::vector<const Value*>& list, const Operation* definition) {
    Value& value = contents_.values.emplace_back();
    value.type = type;
    value.definition = definition;
    value.block = &block;
    value.index = static_cast<uint32_t>(list.size());
    value.id = function_.value_count++;
    list.push_back(&value);
  };
  const auto new_operation = [&](Operator kind) -> Operation& {
    Operation& made = contents_.operations.emplace_back();
    made.op = kind;
    made.index = function_.operation_count++;
    made.function = &function_;
    made.block = &block;
    block.operations.push_back(&made);
    return made;
  };
  new_value(block.arguments, nullptr);
  new_value(block.arguments, nullptr);
  Operation& applied = new_operation(row.op);
  applied.operands = block.arguments;
  new_value(applied.results, &applied);
  new_operation(Operator::kReturn).operands = applied.results;
  op.regions.push_back(&region);
}

// reducer(%a: type, %b: type) (%c: type, %d: type) { ... }: for each operand, the value so far and the next element.
// The region takes all of the former, then all of the latter.
void TextOperationReader::read_reducer(Operation& op) {
  std::vector<Argument> before, next;
  if (!scanner_.take_word("reducer")) scanner_.fail("'reducer('");
  do {
    scanner_.expect("(");
    before.push_back(read_argument());
    scanner_.expect(",");
    next.push_back(read_argument());
    scanner_.expect(")");
  } while (scanner_.peek() == '(');
  before.insert(before.end(), next.begin(), next.end());
  op.regions.push_back(read_region(&op, before));
}

// (%x, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [2], ...} {attributes}
void TextOperationReader::read_convolution(Operation& op) {
  scanner_.expect("(");
  read_operands(op);
  scanner_.expect(")");
  if (!scanner_.take_word("dim_numbers")) scanner_.fail("'dim_numbers = '");
  scanner_.expect("=");
  attributes_.convolution_numbers(op.attributes);
  scanner_.expect(",");
  if (!scanner_.take_word("window")) scanner_.fail("'window = '");
  scanner_.expect("=");
  read_window(op);
  read_dialect_attributes(op);
}

void TextOperationReader::read_window(Operation& op) {
  scanner_.expect("{");
  if (scanner_.take("}")) return;
  do {
    const std::string_view word = scanner_.word("a part of a window");
    scanner_.expect("=");
    if (word == "stride" || word == "lhs_dilate" || word == "rhs_dilate") {
      const char* name = word == "stride" ? "window_strides" : word == "lhs_dilate" ? "lhs_dilation" : "rhs_dilation";
      op.attributes.push_back({name, attributes_.integers(attributes_.integer_list())});
    } else if (word == "pad") {
      op.attributes.push_back({"padding", attributes_.pair_list()});
    } else if (word == "reverse") {
      op.attributes.push_back({"window_reversal", attributes_.boolean_list()});
    } else {
      scanner_.fail_about("a window has no part '" + std::string(word) + "'");
    }
  } while (scanner_.take(","));
  scanner_.expect("}");
}

}  // namespace mydev::stablehlo
