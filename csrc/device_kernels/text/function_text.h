// The text of a function in the kernels' language, put together of its parameters and its body.
#pragma once

#include <string>
#include <vector>

#include "device_kernels/base/portable_kernel.h"
#include "device_kernels/base/value_types.h"
#include "runtime/driver/kernel_module.h"

namespace mydev::device_kernels {

class FunctionText {
 public:
  // Buffers that are written, which come first, and buffers that are read only; by name, of a type in memory.
  void add_result(const std::string& type, const std::string& name) { results_.push_back({type, name}); }
  void add_operand(const std::string& type, const std::string& name) { operands_.push_back({type, name}); }
  // A number of 64 bits, as it is given.
  void add_integer(const std::string& name) {
    numbers_ += 'i';
    declarations_.push_back("i64 " + name);
  }
  // A constant of the domain: given as bits of f32, as f64, or as an i64. Complex ones are two.
  void add_number(const std::string& name, Domain domain);

  KernelParameters parameters() const;
  // The body may hold the language's checks.
  std::string text(const std::string& name, const std::string& body) const;

 private:
  struct Pointer {
    std::string type, name;
  };
  std::vector<Pointer> results_, operands_;
  std::vector<std::string> declarations_;
  std::string numbers_, constants_;
};

// Gives a call the number that add_number declared. `integer` is its value in the domain kI64.
void give_number(Call& call, Domain domain, double real, double imaginary, int64_t integer);

}  // namespace mydev::device_kernels
