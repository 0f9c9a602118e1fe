// Attributes as text, appended to a string.
#pragma once

#include <string>
#include <string_view>

#include "stablehlo/ir/attribute.h"
#include "stablehlo/ir/operation.h"

namespace mydev::stablehlo {

void append_attribute(std::string& text, const Attribute& attribute);
// {name = value, ...}, without attributes that are not known; nothing if there are none.
void append_dictionary(std::string& text, const Dictionary& dictionary);
// @name, quoted if it has to be.
void append_symbol(std::string& text, std::string_view path);
void append_string(std::string& text, std::string_view string);
// 1, 2, 3
void append_numbers(std::string& text, const std::vector<int64_t>& numbers);
// name = value of StableHLO's own attributes of an operation, in their structured form: "a = 1 : i64, b = ...". Raises
// INVALID_ARGUMENT if an attribute is of another kind than the form needs.
void append_operator_attributes(std::string& text, const Operation& op);
// name =
void append_name(std::string& text, std::string_view name);

}  // namespace mydev::stablehlo
