// Reads the body of one function of a program's text. Not thread-safe: of one call of read_text().
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stablehlo/ir/module.h"
#include "stablehlo/text/attribute_reader.h"
#include "stablehlo/text/scanner.h"

namespace mydev::stablehlo {

class TextOperationReader {
 public:
  TextOperationReader(ModuleScanner& scanner, TextAttributeReader& attributes, Module::Contents& contents,
                      Function& function)
      : scanner_(scanner), attributes_(attributes), contents_(contents), function_(function) {}

  Value* define(const std::string& name, const Type* type);
  // The body, up to its brace; its arguments are those of the function.
  const Region* read_body();

 private:
  struct ResultNames {
    std::string name;
    size_t count = 1;
  };

  struct Argument {
    std::string name;
    const Type* type = nullptr;
  };

  // Reads a region in braces, with these arguments or, if there are none, those that are written at its beginning.
  const Region* read_region(const Operation* owner, const std::vector<Argument>& arguments = {});
  void read_block_arguments(Block& block);
  void add_argument(Block& block, const Argument& argument);
  Argument read_argument();  // %a: tensor<f32>
  void read_operations(Block& block, Region& region);
  void read_operation(Block& block);
  std::vector<ResultNames> read_result_names();
  const OperatorRow& read_operator_name();
  void read_generic(Operation& op);
  void read_regions(Operation& op);
  void read_short(Operation& op);
  // The short forms of operators with regions: the parts before the types, and after them. region_forms.cpp.
  void read_while(Operation& op);
  void read_reduce(Operation& op);
  void read_convolution(Operation& op);
  void read_window(Operation& op);
  void add_reducer(Operation& op, const OperatorRow& row);
  void read_reducer(Operation& op);
  void read_loop(Operation& op);
  void read_clauses(Operation& op);
  bool read_clause(Operation& op);
  void read_format(Operation& op);
  void read_slice(Operation& op);
  void read_call(Operation& op, std::string_view symbol_attribute);
  void read_operands(Operation& op);  // %a, %b as far as there are any, with a comma that follows them
  void read_properties(Operation& op);
  void read_dialect_attributes(Operation& op);
  std::vector<const Type*> read_signature(const Operation& op);
  void add_results(Operation& op, const std::vector<ResultNames>& names, const std::vector<const Type*>& types);
  void bind(const std::string& name, const Value* value);
  const Value* used(std::string_view name);

  ModuleScanner& scanner_;
  TextAttributeReader& attributes_;
  Module::Contents& contents_;
  Function& function_;
  std::map<std::string, const Value*, std::less<>> values_;
  // The values that names stood for before a region redefined them; nullptr: the name had no value.
  std::vector<std::pair<std::string, const Value*>> hidden_;
  int depth_ = 0;
  std::vector<std::string> loop_names_;  // what the loop whose types are being read calls its values
};

// Adds the attributes that the text of an operation left out; converts those that are written otherwise to their form
// here.
void complete_attributes(Operation& op, TextAttributeReader& attributes);

}  // namespace mydev::stablehlo
