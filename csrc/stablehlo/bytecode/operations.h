// Reads the operations of a program in bytecode into its module. Not thread-safe: of one call of read_bytecode().
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stablehlo/bytecode/attributes.h"
#include "stablehlo/bytecode/cursor.h"
#include "stablehlo/bytecode/sections.h"
#include "stablehlo/ir/module.h"

namespace mydev::stablehlo {

class BytecodeOperations {
 public:
  BytecodeOperations(const BytecodeSections& sections, BytecodeAttributes& attributes, Module::Contents& contents)
      : sections_(sections), attributes_(attributes), contents_(contents) {}

  void read_module();

 private:
  // An operation as it is read, before its meaning is known.
  struct Header {
    std::string_view dialect, name;
    size_t offset = 0;
    uint32_t location = 0;
    const Dictionary* attributes = nullptr;
    const Cursor* properties = nullptr;  // nullptr: it has none
    std::vector<const Type*> result_types;
    std::vector<size_t> operands;  // numbers of values
    size_t regions = 0;
    bool is_isolated = false;
  };
  // Values that an isolated region sees, by number; nullptr until they are defined.
  struct Scope {
    std::vector<const Value*> values;
    std::vector<size_t> next;  // of each region within, the number of the next value
  };

  Header read_header(Cursor& cursor);
  void skip_use_orders(Cursor& cursor, size_t values);
  Cursor properties_of(const Header& header) const;

  void read_module_body(Cursor& cursor);
  void read_mesh(const Header& header);
  void read_function(const Header& header, Cursor& cursor);
  void read_signature(const Header& header, Function& function);
  void add_operator(const Header& header, Cursor& cursor, Block& block);
  void read_cast(const Header& header);
  // The row of an operator and which of VHLO's versions it is.
  std::pair<const OperatorRow*, unsigned> find_row(const Header& header) const;
  Dictionary read_attributes(const Header& header, const OperatorRow& row, unsigned version);

  std::vector<const Region*> read_regions(const Header& header, Cursor& cursor, const Operation* owner);
  const Region* read_region(Cursor& cursor, const Operation* owner);
  void read_block(Cursor& cursor, Block& block, Region& region);
  void read_arguments(Cursor& cursor, Block& block);

  void define(const Value* value, const Cursor& cursor);
  const Value* used(size_t number, size_t offset) const;
  Value* new_value(const Type* type);
  std::string location_suffix(uint32_t location) const;

  const BytecodeSections& sections_;
  BytecodeAttributes& attributes_;
  Module::Contents& contents_;
  Function* function_ = nullptr;  // the one that is being read
  std::vector<Scope> scopes_;
  int depth_ = 0;
};

}  // namespace mydev::stablehlo
