// The common part of kernels that are printed of a contract's expression: which names the expression speaks of,
// as numbers of a call or as elements of buffers. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "device_kernels/base/bound_frame.h"
#include "device_kernels/text/expression_text.h"
#include "device_kernels/text/function_text.h"

namespace mydev::device_kernels {

// A kernel's operands with their dtypes, and the attributes that choose between formulas: what a function is made for,
// beside its loop.
struct ExpressionForm {
  const KernelContract* contract;
  std::vector<BoundOperand> operands;     // results, then operands
  mydev_dtype dtype;                      // of the contract's first variable; f32 if it has none
  Domain domain;                          // in which the expression is computed
  std::map<std::string, double> choices;  // attributes that are integers or truth values
  int64_t count;                          // of the elements of the largest operand; in a reduction, of one result's
  bool has_f64;                           // on the device
  std::string numbers = "n_";             // what the names of numbers begin with

  // The form of a frame. Declines dtypes that the device or the language does not compute with, and integers that are
  // divided by the number 0.
  ExpressionForm(const Request& request, const BoundFrame& frame);
  std::string function_name() const;  // "add_f32"
  // Tells modules from each other, beside the loop's form.
  std::string key() const;

  // Declares numbers: attributes and operands that are one number; binds the names to them.
  void declare_numbers(FunctionText& function) const;
  void bind_numbers(ExpressionText& text) const;
  void give_numbers(Call& call, const BoundFrame& frame) const;
  // Binds the names of numbers to the numbers themselves, in place of all this.
  void bind_literals(ExpressionText& text, const BoundFrame& frame) const;

 private:
  void bind_known(ExpressionText& text, const std::string& known_count) const;
};

// Whether a kernel's expression may stand among others. One that refuses elements out of a range looks at them all
// first.
bool is_fusible(const KernelContract& contract);

// Gives the statement that loads an element of the operand, and the value that the operand then has.
std::pair<std::string, Printed> load(const BoundOperand& operand, const std::string& element, Domain domain);
// Gives the text that is stored for a result.
std::string stored(const ExpressionText& text, const Printed& result, mydev_dtype dtype);

// The function of a form. `text` writes it.
std::shared_ptr<const CompiledKernel> expression_function(
    const Request& request, const ExpressionForm& form, const std::string& loop,
    const std::function<std::pair<std::string, KernelParameters>()>& text);

// The plan of the kernels that are printed of expressions, for all tensors of a list one after another. It consists of
// loops that compute element by element, or of reductions.
Work plan_expression(const Request& request);
void add_pointwise(const Request& request, const BoundFrame& frame, const ExpressionForm& form, Work& work);
void add_reduction(const Request& request, const BoundFrame& frame, ExpressionForm form, Work& work);

}  // namespace mydev::device_kernels
