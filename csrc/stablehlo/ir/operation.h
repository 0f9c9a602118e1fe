// Operations, the values that they take and give, and the blocks and regions that they are in.
//
// Static single assignment: a value is the result of one operation or an argument of one block, and is used by
// operations after it in its block and in regions within. The objects belong to a Module (module.h), which never moves
// them: pointers stay good as long as it lives. A lowering sees them const; readers build them.
//
// The accessors of attributes check: they raise INVALID_ARGUMENT with the operation and its location if the attribute
// is missing or of another kind.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/api.h"
#include "runtime/base/status.h"
#include "stablehlo/ir/attribute.h"
#include "stablehlo/ir/operator.h"
#include "stablehlo/ir/type.h"

namespace mydev::stablehlo {

struct Block;
struct Function;
struct Operation;
struct Region;

struct Value {
  const Type* type = nullptr;
  const Operation* definition = nullptr;  // nullptr: it is an argument of `block`
  const Block* block = nullptr;           // where it is defined
  uint32_t index = 0;                     // among the results, or the arguments
  // Its number within its function, from 0 to Function::value_count: for tables by value.
  uint32_t id = 0;
};

struct MYDEV_API Operation {
  Operator op = Operator::kReturn;
  uint32_t index = 0;     // in its function, in the order of the text; for messages
  uint32_t location = 0;  // for Module::location_text
  const Function* function = nullptr;
  const Block* block = nullptr;
  std::vector<const Value*> operands;
  std::vector<const Value*> results;
  // The operator's attributes, then those of dialects ("mhlo.sharding"), which have a dot in their names.
  Dictionary attributes;
  std::vector<const Region*> regions;

  const OperatorRow& row() const noexcept { return operator_row(op); }
  std::string_view name() const noexcept { return row().name; }

  const Value& operand(size_t i) const;
  const Value& result(size_t i = 0) const;
  const Region& region(size_t i = 0) const;
  // The operands of a group of the operator's row: operand_group("init_values").
  std::span<const Value* const> operand_group(std::string_view group) const noexcept;

  // nullptr if there is none.
  const Attribute* find(std::string_view attribute) const noexcept { return stablehlo::find(attributes, attribute); }
  const Attribute& attribute(std::string_view name) const;

  int64_t integer(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t otherwise) const;  // if there is none
  bool boolean(std::string_view name) const;
  bool boolean(std::string_view name, bool otherwise) const;
  double floating(std::string_view name) const;
  const std::string& string(std::string_view name) const;  // or the path of a symbol
  // The numbers of a tensor literal or an array, of integers or booleans. Two-dimensional ones (padding,
  // replica_groups) are in row-major order; literal() has their shape.
  std::vector<int64_t> integers(std::string_view name) const;
  std::vector<int64_t> integers_or_none(std::string_view name) const;  // empty if there is none
  const TensorLiteral& literal(std::string_view name) const;

  // Any alternative of an attribute: get<ComparisonDirection>("comparison_direction").
  template <typename T>
  const T& get(std::string_view name) const {
    const Attribute& found = attribute(name);
    if (const T* value = found.get_if<T>()) return *value;
    fail_attribute(name, found);
  }
  template <typename T>
  const T* get_if(std::string_view name) const noexcept {
    const Attribute* found = find(name);
    return found != nullptr ? found->get_if<T>() : nullptr;
  }

  // The types of the results; a tuple is replaced by its elements.
  std::vector<const Type*> result_types() const;

  // "stablehlo.add (operation 3 of function 'main', at "model.py":12:3)".
  std::string describe() const;
  // Raises an error that begins with describe(): op.fail(MYDEV_UNIMPLEMENTED, "a rank of ", rank).
  template <typename... Parts>
  [[noreturn]] [[gnu::cold]] void fail(mydev_code code, const Parts&... parts) const {
    mydev::detail::raise_formatted(code, describe(), ": ", parts...);
  }

 private:
  [[noreturn]] void fail_attribute(std::string_view name, const Attribute& found) const;
};

struct Block {
  const Region* region = nullptr;
  std::vector<const Value*> arguments;
  std::vector<const Operation*> operations;  // the last one is the terminator

  const Operation& terminator() const noexcept { return *operations.back(); }
};

struct Region {
  const Operation* owner = nullptr;  // nullptr: it is the body of `function`
  const Function* function = nullptr;
  std::vector<const Block*> blocks;  // one, where anything is run

  const Block& body() const noexcept { return *blocks.front(); }
  std::span<const Value* const> arguments() const noexcept { return body().arguments; }
  // The values that the terminator returns.
  std::span<const Value* const> results() const noexcept { return body().terminator().operands; }
};

}  // namespace mydev::stablehlo
