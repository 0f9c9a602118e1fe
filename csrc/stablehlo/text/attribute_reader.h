// Types, attributes and literals of a program's text. Not thread-safe: of one call of read_text().
#pragma once

#include <string_view>
#include <vector>

#include "stablehlo/ir/module.h"
#include "stablehlo/text/scanner.h"

namespace mydev::stablehlo {

class TextAttributeReader {
 public:
  TextAttributeReader(ModuleScanner& scanner, Module::Contents& contents) : scanner_(scanner), contents_(contents) {}

  const Type* type();
  // One type, or some in parentheses.
  std::vector<const Type*> types();
  const Attribute* attribute();
  // {name = value, ...}, whose brace has been taken.
  Dictionary dictionary();
  // Reads the value of an attribute of an operator, which may be written short: [1, 2] and 3 without their types. A
  // structured one stands for several: they are appended under the names that operations have here.
  void operator_attribute(std::string_view name, const OperatorRow& row, Dictionary& attributes);
  // <lhs_precision_type = bf16, ...>
  void dot_algorithm(const OperatorRow& row, Dictionary& attributes);
  // [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]
  void convolution_numbers(Dictionary& attributes);
  // An attribute in an operator's short form: [1, 2], 3, true, THREE_FRY.
  const Attribute* short_attribute(const AttributeRow& row);

  const Attribute* add(Attribute::Value value) { return contents_.add(Attribute{std::move(value)}); }
  const Attribute* integer(int64_t value, ElementType type = ElementType::kS64);
  const Attribute* integers(const std::vector<int64_t>& values);
  const Attribute* zeros(Type type);    // a literal
  const Attribute* literal();           // dense<...> : type, whose word has been taken
  std::vector<int64_t> integer_list();  // [1, 2]
  const Attribute* boolean_list();      // [true, false]
  const Attribute* pair_list();         // [[1, 2], [3, 4]]

 private:
  const Type* element_type(ElementType element);
  const Type* tensor_type();
  const Attribute* number();
  const Attribute* array_literal();  // array<i64: 1, 2>, whose word has been taken
  TensorLiteral make_literal(const Type* type, std::vector<std::byte> bytes, bool is_splat);
  const Attribute* dialect_attribute();
  const Attribute* enumeration(std::string_view kind);
  const Attribute* result_accuracy();
  const Attribute* output_operand_alias();
  void structured(Dictionary& attributes, const OperatorRow& row);

  ModuleScanner& scanner_;
  Module::Contents& contents_;
  int depth_ = 0;
};

}  // namespace mydev::stablehlo
