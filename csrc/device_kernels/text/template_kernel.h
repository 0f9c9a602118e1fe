// Kernels that are written once in the language, as templates (templates/*.inc), with macros for dtypes and variants.
//
// A template defines the function FUNCTION by the header KERNEL(FUNCTION, <parameters>) { and a body, which begins with
// the pointers of the parameters; these are added here. It includes the text that it shares with others. A use defines
// words for it:
//
//   T, U, ...        types in memory; LOAD_T(x) is the value of an element of T, STORE_T(x) what is stored for a value
//   C, C_(name)      the type that is computed in, and a function of the language for it: C_(exp)
//   NUMBER(x), VALUE(x)  a parameter that is a real number of the domain, and its value as one of C
//   FIRST_max        no value is less
//
// No text undefines its words, since each function has a module of its own (portable_kernel.h).
//
// Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "device_kernels/base/bound_frame.h"
#include "device_kernels/base/portable_kernel.h"
#include "device_kernels/base/value_types.h"

namespace mydev::device_kernels {

class TemplateUse {
 public:
  // `text`: of the template; `name`: of the function, without the parts that dtypes and variants add.
  TemplateUse(const Request& request, const char* text, std::string name)
      : request_(request), text_(text), name_(std::move(name)) {}

  // The types that letters stand for. The domain is that of the first one, unless compute_in() says another. Declines
  // what the device does not compute in.
  TemplateUse& type(char letter, mydev_dtype dtype);
  TemplateUse& compute_in(Domain domain);
  // A word that chooses a variant.
  TemplateUse& choose(const char* word, int64_t value);
  Domain domain() const noexcept { return domain_; }

  // The memory of a parameter, in place of an operand's of that name.
  TemplateUse& place(const char* parameter, Call::Memory memory);

  // The function's launch, whose numbers are to be given in the order of its parameters, and before them its memory.
  // With a frame, its memory is given: a parameter has that of the result or operand of its name. One that is absent
  // has that of the parameter before, or of the first one that is there, and the function is not to touch it.
  Call call(const mydev_geometry& geometry) const;
  Call call(const BoundFrame& frame, const mydev_geometry& geometry) const;
  // Gives a call a number that was declared as NUMBER(x).
  void give_number(Call& call, double number) const;

 private:
  void check(Domain domain) const;
  std::string function_name() const;
  std::string source() const;

  const Request& request_;
  const char* text_;
  std::string name_;
  std::map<std::string, int64_t> choices_;
  std::map<std::string, Call::Memory, std::less<>> placed_;
  std::vector<std::pair<char, mydev_dtype>> types_;
  Domain domain_ = Domain::kF32;
  bool has_domain_ = false;  // of its own, whatever the types
};

}  // namespace mydev::device_kernels
