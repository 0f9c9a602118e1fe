// Constants in a program's text: the contents of the brackets of dense<...>.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "stablehlo/ir/type.h"
#include "stablehlo/text/scanner.h"

namespace mydev::stablehlo {

// Elements as they are written; their type comes later in the text.
struct WrittenElements {
  std::vector<std::string_view> numbers;  // views into the text; two for a complex number
  std::vector<int64_t> sizes;             // of the nested lists; empty: one element
  std::string bytes;                      // where they are written as one: "0x0000803F"
};
WrittenElements read_elements(ModuleScanner& scanner);

// The bytes of one number; appends to `bytes`. Raises at the scanner's place if it is no number of the type.
void append_number(std::vector<std::byte>& bytes, ElementType type, std::string_view number, ModuleScanner& scanner);
// The bits of a number of a float's type, rounded to nearest even.
uint64_t bits_of_float(ElementType type, std::string_view number, ModuleScanner& scanner);

}  // namespace mydev::stablehlo
