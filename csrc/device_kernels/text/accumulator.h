// One reduction of an expression in the kernels' language: what each lane keeps, how an element is added, how the lanes
// are combined, and the value that comes out. Thread-safe.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "device_kernels/text/expression_text.h"

namespace mydev::device_kernels {

class Accumulator {
 public:
  // `function`: of the expression language, "sum", "argmax", … `name`: of its own in the kernel. Declines functions
  // that the domain does not have. Floats are added in f64 where the device has it.
  Accumulator(std::string function, std::string name, Domain domain, bool has_f64);

  // Declarations with so many lanes: "LANES", "BLOCK" or a number.
  std::string declarations(const std::string& lanes) const;
  // Adds an element, whose place among those that are reduced is `place`, to the lane's.
  std::string update(const ExpressionText& text, const Printed& element, const std::string& place) const;
  // The numbers of a lane as they lie in memory between two calls, each by its name and type.
  std::vector<std::pair<std::string, std::string>> fields() const;
  // Writes them to element `at` of memory that has their names behind "m_"; adds those that lie there to the lane's.
  std::string keep(const std::string& lane, const std::string& at) const;
  std::string add_kept(const std::string& at) const;
  // Combines the lanes of a group into the first.
  std::string combination() const;
  // The value that the lane has in the end. `count`: the text of the number of elements.
  Printed value(const std::string& lane, const std::string& count) const;

  // The value is the place of an element: an i64 in any domain.
  bool is_place() const noexcept { return function_ == "argmax" || function_ == "argmin"; }

 private:
  bool is_truth() const noexcept { return function_ == "any" || function_ == "all"; }
  std::string type() const { return is_truth() ? "i32" : domain_type(domain_); }
  std::string first() const;
  std::string added(const std::string& value, const std::string& place) const;
  std::string operation() const;  // of the language, over pairs

  std::string function_, name_;
  Domain domain_;  // that it adds in
};

}  // namespace mydev::device_kernels
