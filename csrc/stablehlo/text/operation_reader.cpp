#include "stablehlo/text/operation_reader.h"

#include <algorithm>
#include <array>

#include "stablehlo/ir/limits.h"

namespace mydev::stablehlo {

namespace {

// A part of an operator's short form: "keyword = value", or "keyword = value x value".
struct Clause {
  Operator op;
  std::string_view keyword, attribute, second = "";
};

constexpr std::array kClauses = {
    Clause{Operator::kBroadcast, "sizes", "broadcast_sizes"},
    Clause{Operator::kBroadcastInDim, "dims", "broadcast_dimensions"},
    Clause{Operator::kCholesky, "lower", "lower"},
    Clause{Operator::kConcatenate, "dim", "dimension"},
    Clause{Operator::kDot, "precision", "precision_config"},
    Clause{Operator::kDotGeneral, "batching_dims", "lhs_batching_dimensions", "rhs_batching_dimensions"},
    Clause{Operator::kDotGeneral, "contracting_dims", "lhs_contracting_dimensions", "rhs_contracting_dimensions"},
    Clause{Operator::kDotGeneral, "precision", "precision_config"},
    Clause{Operator::kDynamicBroadcastInDim, "dims", "broadcast_dimensions"},
    Clause{Operator::kDynamicIota, "dim", "iota_dimension"},
    Clause{Operator::kDynamicSlice, "sizes", "slice_sizes"},
    Clause{Operator::kFft, "length", "fft_length"},
    Clause{Operator::kFft, "type", "fft_type"},
    Clause{Operator::kGetDimensionSize, "dim", "dimension"},
    Clause{Operator::kIota, "dim", "iota_dimension"},
    Clause{Operator::kPad, "high", "edge_padding_high"},
    Clause{Operator::kPad, "interior", "interior_padding"},
    Clause{Operator::kPad, "low", "edge_padding_low"},
    Clause{Operator::kReverse, "dims", "dimensions"},
    Clause{Operator::kRng, "distribution", "rng_distribution"},
    Clause{Operator::kRngBitGenerator, "algorithm", "rng_algorithm"},
    Clause{Operator::kSetDimensionSize, "dim", "dimension"},
    Clause{Operator::kTranspose, "dims", "permutation"},
};

}  // namespace

// --- values ---

void TextOperationReader::bind(const std::string& name, const Value* value) {
  const Value*& place = values_[name];
  hidden_.emplace_back(name, place);
  place = value;
}

const Value* TextOperationReader::used(std::string_view name) {
  const auto found = values_.find(name);
  if (found == values_.end() || found->second == nullptr) {
    scanner_.fail_about("there is no value " + std::string(name) + " here");
  }
  return found->second;
}

Value* TextOperationReader::define(const std::string& name, const Type* type) {
  Value* value = &contents_.values.emplace_back();
  value->type = type;
  value->id = function_.value_count++;
  bind(name, value);
  return value;
}

// --- regions ---

const Region* TextOperationReader::read_body() {
  Region& region = contents_.regions.emplace_back();
  region.function = &function_;
  Block& block = contents_.blocks.emplace_back();
  block.region = &region;
  region.blocks.push_back(&block);
  for (const FunctionArgument& argument : function_.arguments) {
    const_cast<Value*>(argument.value)->block = &block;
    block.arguments.push_back(argument.value);
  }
  read_operations(block, region);
  return &region;
}

const Region* TextOperationReader::read_region(const Operation* owner, const std::vector<Argument>& arguments) {
  if (++depth_ > kMostNesting) {
    scanner_.fail_about("regions are nested more than " + std::to_string(kMostNesting) + " deep");
  }
  Region& region = contents_.regions.emplace_back();
  region.owner = owner;
  region.function = &function_;
  scanner_.expect("{");
  const size_t outer = hidden_.size();
  Block& block = contents_.blocks.emplace_back();
  block.region = &region;
  region.blocks.push_back(&block);
  for (const Argument& argument : arguments) add_argument(block, argument);
  if (arguments.empty() && scanner_.peek() == '^') read_block_arguments(block);
  read_operations(block, region);
  while (hidden_.size() > outer) {
    values_[hidden_.back().first] = hidden_.back().second;
    hidden_.pop_back();
  }
  --depth_;
  return &region;
}

TextOperationReader::Argument TextOperationReader::read_argument() {
  Argument argument;
  argument.name = scanner_.value_name();
  scanner_.expect(":");
  argument.type = attributes_.type();
  return argument;
}

void TextOperationReader::add_argument(Block& block, const Argument& argument) {
  Value* value = define(argument.name, argument.type);
  value->block = &block;
  value->index = static_cast<uint32_t>(block.arguments.size());
  block.arguments.push_back(value);
}

// ^bb0(%a: tensor<f32>, %b: tensor<f32>):
void TextOperationReader::read_block_arguments(Block& block) {
  scanner_.expect("^");
  scanner_.word("the name of a block");
  if (scanner_.take("(")) {
    do add_argument(block, read_argument());
    while (scanner_.take(","));
    scanner_.expect(")");
  }
  scanner_.expect(":");
}

void TextOperationReader::read_operations(Block& block, Region& region) {
  while (!scanner_.take("}")) {
    if (scanner_.peek() == '\0') scanner_.fail("'}' at the end of a region");
    read_operation(block);
  }
  if (block.operations.empty() || !block.operations.back()->row().has(kTerminator)) {
    scanner_.fail_about("a region of function '" + region.function->name + "' does not end with a return");
  }
}

// --- operations ---

std::vector<TextOperationReader::ResultNames> TextOperationReader::read_result_names() {
  std::vector<ResultNames> names;
  if (scanner_.peek() != '%') return names;
  do {
    ResultNames& result = names.emplace_back();
    result.name = scanner_.value_name();
    if (scanner_.take(":")) result.count = static_cast<size_t>(std::max<int64_t>(scanner_.integer("how many"), 0));
  } while (scanner_.take(","));
  scanner_.expect("=");
  return names;
}

const OperatorRow& TextOperationReader::read_operator_name() {
  std::string name = scanner_.peek() == '"' ? scanner_.string() : std::string(scanner_.word("an operator"));
  if (name == "return" || name == "func.return") name = "stablehlo.return";
  if (name == "call") name = "func.call";
  const OperatorRow* row = find_operator(name);
  if (row == nullptr) {
    scanner_.fail_about("'" + name + "' is no operator of StableHLO 1.13, the newest version that is read");
  }
  return *row;
}

void TextOperationReader::read_operation(Block& block) {
  const std::vector<ResultNames> names = read_result_names();
  const bool is_generic = scanner_.peek() == '"';
  const OperatorRow& row = read_operator_name();
  Operation& op = contents_.operations.emplace_back();
  op.op = row.op;
  op.index = function_.operation_count++;
  op.function = &function_;
  op.block = &block;
  if (is_generic) {
    read_generic(op);
  } else {
    read_short(op);
  }
  const std::vector<const Type*> types = read_signature(op);
  if (op.regions.empty() && op.op == Operator::kReduce) read_reducer(op);
  if (op.regions.empty() && op.op == Operator::kWhile) read_loop(op);
  add_results(op, names, types);
  complete_attributes(op, attributes_);
  block.operations.push_back(&op);
}

// "name"(%a, %b) <{attributes}> ({regions}) {attributes of dialects}
void TextOperationReader::read_generic(Operation& op) {
  scanner_.expect("(");
  read_operands(op);
  scanner_.expect(")");
  read_properties(op);
  if (scanner_.peek() == '(') read_regions(op);
  read_dialect_attributes(op);
}

void TextOperationReader::read_regions(Operation& op) {
  scanner_.expect("(");
  do op.regions.push_back(read_region(&op));
  while (scanner_.take(","));
  scanner_.expect(")");
}

void TextOperationReader::read_operands(Operation& op) {
  while (scanner_.peek() == '%') {
    op.operands.push_back(used(scanner_.value_name()));
    if (!scanner_.take(",")) return;
  }
}

void TextOperationReader::read_properties(Operation& op) {
  if (!scanner_.take("<{")) return;
  if (!scanner_.take("}>")) {
    do {
      const std::string_view name = scanner_.word("the name of an attribute");
      if (scanner_.take("=")) {
        attributes_.operator_attribute(name, op.row(), op.attributes);
      } else {
        op.attributes.push_back({contents_.add_string(name), attributes_.add(Unit{})});
      }
    } while (scanner_.take(","));
    scanner_.expect("}>");
  }
}

void TextOperationReader::read_dialect_attributes(Operation& op) {
  if (!scanner_.take("{")) return;
  if (scanner_.take("}")) return;
  do {
    const std::string name =
        scanner_.peek() == '"' ? scanner_.string() : std::string(scanner_.word("the name of an attribute"));
    if (!scanner_.take("=")) {
      op.attributes.push_back({contents_.add_string(name), attributes_.add(Unit{})});
      continue;
    }
    attributes_.operator_attribute(name, op.row(), op.attributes);
  } while (scanner_.take(","));
  scanner_.expect("}");
}

void TextOperationReader::read_short(Operation& op) {
  const OperatorRow& row = op.row();
  const bool has_short_form = row.regions == 0 || op.op == Operator::kWhile || op.op == Operator::kReduce;
  if (!has_short_form) {
    scanner_.fail_about("the short form of " + std::string(row.name) + " is not read; write it as \"" +
                        std::string(row.name) + "\"(...)");
  }
  switch (op.op) {
    case Operator::kConstant:
      if (!scanner_.take_word("dense")) scanner_.fail("dense<...>");
      op.attributes.push_back({"value", attributes_.literal()});
      return;
    case Operator::kCall:
      return read_call(op, "callee");
    case Operator::kCustomCall:
      return read_call(op, "call_target_name");
    case Operator::kSlice:
      return read_slice(op);
    case Operator::kConvolution:
      return read_convolution(op);
    case Operator::kReduce:
      return read_reduce(op);
    case Operator::kWhile:
      return read_while(op);
    default:
      read_clauses(op);
      read_dialect_attributes(op);
  }
}

// @name(%a, %b) {attributes}
void TextOperationReader::read_call(Operation& op, std::string_view symbol_attribute) {
  op.attributes.push_back({symbol_attribute, attributes_.add(scanner_.symbol())});
  scanner_.expect("(");
  read_operands(op);
  scanner_.expect(")");
  read_dialect_attributes(op);
}

// %a [1:3, 0:8:2]
void TextOperationReader::read_slice(Operation& op) {
  read_operands(op);
  std::array<std::vector<int64_t>, 3> numbers;
  scanner_.expect("[");
  if (scanner_.peek() != ']') {
    do {
      numbers[0].push_back(scanner_.integer("a start"));
      scanner_.expect(":");
      numbers[1].push_back(scanner_.integer("a limit"));
      numbers[2].push_back(scanner_.take(":") ? scanner_.integer("a stride") : 1);
    } while (scanner_.take(","));
  }
  scanner_.expect("]");
  constexpr std::array kNames = {"start_indices", "limit_indices", "strides"};
  for (size_t i = 0; i < 3; ++i) op.attributes.push_back({kNames[i], attributes_.integers(numbers[i])});
  read_dialect_attributes(op);
}

void TextOperationReader::read_clauses(Operation& op) {
  if (op.op == Operator::kCompare) {
    const AttributeRow& row = *find_attribute(op.row(), "comparison_direction");
    op.attributes.push_back({row.name, attributes_.short_attribute(row)});
    scanner_.expect(",");
  }
  if (op.op == Operator::kComposite) op.attributes.push_back({"name", attributes_.add(scanner_.string())});
  read_operands(op);
  if (op.op == Operator::kGetTupleElement && scanner_.take("[")) {
    op.attributes.push_back({"index", attributes_.integer(scanner_.integer("an index"), ElementType::kS32)});
    scanner_.expect("]");
  }
  if (op.op == Operator::kCompare && scanner_.peek() != ':' && scanner_.peek() != '{') {
    const AttributeRow& row = *find_attribute(op.row(), "compare_type");
    op.attributes.push_back({row.name, attributes_.short_attribute(row)});
  }
  while (read_clause(op) && scanner_.take(",")) continue;
}

// format = e5m10
void TextOperationReader::read_format(Operation& op) {
  scanner_.word("a keyword");
  scanner_.expect("=");
  const std::string_view word = scanner_.word("a format of floats");
  const size_t middle = word.find('m');
  const auto bits = [&](std::string_view digits) {
    const auto value = number_of<int64_t>(digits);
    if (!value) scanner_.fail_about("'" + std::string(word) + "' is no format of floats, as e5m10 is");
    return *value;
  };
  const bool is_format = word.starts_with('e') && middle != std::string_view::npos;
  const int64_t exponent = bits(is_format ? word.substr(1, middle - 1) : "");
  const int64_t mantissa = bits(word.substr(middle + 1));
  op.attributes.push_back({"exponent_bits", attributes_.integer(exponent, ElementType::kS32)});
  op.attributes.push_back({"mantissa_bits", attributes_.integer(mantissa, ElementType::kS32)});
}

bool TextOperationReader::read_clause(Operation& op) {
  const std::string_view word = scanner_.next_word();
  if (op.op == Operator::kDotGeneral && word == "algorithm") {
    scanner_.word("a keyword");
    scanner_.expect("=");
    attributes_.dot_algorithm(op.row(), op.attributes);
    return true;
  }
  if (op.op == Operator::kReducePrecision && word == "format") {
    read_format(op);
    return true;
  }
  const auto clause = std::ranges::find_if(
      kClauses, [&](const Clause& candidate) { return candidate.op == op.op && candidate.keyword == word; });
  if (clause == kClauses.end()) return false;
  scanner_.word("a keyword");
  scanner_.expect("=");
  const auto read = [&](std::string_view name) {
    op.attributes.push_back({name, attributes_.short_attribute(*find_attribute(op.row(), name))});
  };
  read(clause->attribute);
  if (!clause->second.empty()) {
    scanner_.expect("x");
    read(clause->second);
  }
  return true;
}

// Reads the types that are written, and returns those of the results.
std::vector<const Type*> TextOperationReader::read_signature(const Operation& op) {
  if (op.row().results.empty() && op.operands.empty()) {
    if (scanner_.take(":")) attributes_.type();
    return {};
  }
  // The type of a constant is that of its literal.
  if (op.op == Operator::kConstant && scanner_.peek() != ':') return {op.literal("value").type};
  scanner_.expect(":");
  std::vector<const Type*> listed;
  if (scanner_.peek() == '(') {
    const std::vector<const Type*> inputs = attributes_.types();
    if (scanner_.take("->")) {
      const bool agree = std::ranges::equal(inputs, op.operands,
                                            [](const Type* type, const Value* value) { return *type == *value->type; });
      if (!agree) scanner_.fail_about("the operands of " + std::string(op.name()) + " are of other types");
      return attributes_.types();
    }
    if (inputs.empty()) scanner_.fail("'->' and the types of the results");
    listed = inputs;
  } else {
    do listed.push_back(attributes_.type());
    while (scanner_.take(","));
  }
  if (op.row().results.empty()) {
    const bool agree = std::ranges::equal(listed, op.operands,
                                          [](const Type* type, const Value* value) { return *type == *value->type; });
    if (!agree) scanner_.fail_about("the operands of " + std::string(op.name()) + " are of other types");
    return {};
  }
  if (op.row().has(kResultsAreOperands)) return listed;
  return {listed.back()};
}

void TextOperationReader::add_results(Operation& op, const std::vector<ResultNames>& names,
                                      const std::vector<const Type*>& types) {
  size_t named = 0;
  for (const ResultNames& result : names) {
    for (size_t i = 0; i < result.count; ++i, ++named) {
      if (named == types.size()) break;
      Value* value = define(result.count == 1 ? result.name : result.name + "#" + std::to_string(i), types[named]);
      value->definition = &op;
      value->block = op.block;
      value->index = static_cast<uint32_t>(named);
      op.results.push_back(value);
    }
  }
  size_t wanted = 0;
  for (const ResultNames& result : names) wanted += std::min(result.count, types.size() + 1);
  if (wanted != types.size() && !(names.empty() && op.row().has(kTerminator))) {
    scanner_.fail_about(std::string(op.name()) + " has " + std::to_string(types.size()) + " results");
  }
}

}  // namespace mydev::stablehlo
