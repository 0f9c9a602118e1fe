// Prints the expression of a contract (kernels/spec/expression.h) in the kernels' language, in one domain.
//
// Each node becomes a variable, once, in the order in which it is needed. Nodes of which the value is known, such as
// attributes that choose between formulas, are not printed.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "device_kernels/base/value_types.h"
#include "kernels/spec/contract.h"

namespace mydev::device_kernels {

// A value in the language.
struct Printed {
  std::string text;
  bool is_truth = false;           // of type bool
  std::optional<double> constant;  // its value, if it is known
};

class ExpressionText {
 public:
  // `dtype`: of the contract's first variable.
  ExpressionText(const Expression& expression, Domain domain, mydev_dtype dtype)
      : expression_(expression), domain_(domain), dtype_(dtype) {}

  Domain domain() const noexcept { return domain_; }
  // Says the value of a name of the expression.
  void bind(const std::string& name, Printed value) { names_[name] = std::move(value); }
  // The name's own statement, printed where the name is first needed.
  void bind_late(const std::string& name, std::string statement, Printed value) {
    late_[name] = std::move(statement);
    bind(name, std::move(value));
  }
  // Says the value of a node: of a reduction that was computed before.
  void know(int32_t node, Printed value) { known_[node] = std::move(value); }
  // Forgets the variables that were printed: what is printed from now on stands in another block.
  void begin_block();

  // Prints what a node needs, and returns its value; of the domain, or a truth value. Raises UNIMPLEMENTED for a
  // function that the domain does not have.
  Printed print(int32_t node);
  std::string value(const Printed& printed) const;  // as a value of the domain
  std::string truth(const Printed& printed) const;  // as one of type bool
  // The statements that were printed in this block.
  const std::string& statements() const noexcept { return statements_; }

  // The node of a result; that of the only formula if there are no names.
  int32_t node_of(const std::string& result) const;
  // Reductions that the node needs, those that others need first.
  std::vector<int32_t> reductions_of(int32_t node);

 private:
  Printed print_function(const Expression::Node& node);
  Printed of_reals(const std::string& name, const std::vector<Printed>& arguments, const Expression::Node& node);
  Printed of_integers(const std::string& name, const std::vector<Printed>& arguments);
  Printed of_complex(const std::string& name, const std::vector<Printed>& arguments);
  // The value of a node that attributes decide.
  std::optional<double> constant_of(int32_t node) const;
  std::string call(const std::string& function, const std::vector<Printed>& arguments) const;
  std::string variable(const std::string& type, const std::string& text);
  bool needs(int32_t node, std::vector<int32_t>& found);

  const Expression& expression_;
  Domain domain_;
  mydev_dtype dtype_;
  std::map<std::string, Printed> names_;
  std::map<std::string, std::string> late_;
  std::map<std::string, bool> placed_;
  std::map<int32_t, Printed> known_, printed_;
  std::string statements_;
  int variables_ = 0;
};

}  // namespace mydev::device_kernels
