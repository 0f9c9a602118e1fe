// Elements of tensors as bytes and as numbers.
#pragma once

#include <complex>
#include <cstdint>
#include <string>

#include "mydev/custom_call.h"

namespace mydev::conform {

// The value of an element: an integer (or pred), or a number with an imaginary part; of the two, the one that the dtype
// has.
struct Value {
  int64_t integer = 0;
  std::complex<double> number;
};
Value value_of(int64_t integer);
Value value_of(double number);
Value value_of(std::complex<double> number);

// Whether elements of the dtype can be read as numbers: not the narrow floats, nor wide unsigned integers.
bool is_readable(mydev_dtype dtype) noexcept;
// Stores the value, rounded to the dtype. For a dtype that is not readable it stores the integer's low bytes.
void store_element(mydev_dtype dtype, void* to, const Value& value);
// Loads an element of a readable dtype.
Value load_element(mydev_dtype dtype, const void* from);

// How far an element may be from what is expected, in proportion to it or to 1.
double tolerance_of(mydev_dtype dtype) noexcept;
// Whether the element is the expected one, within the tolerance; NaN is NaN, and a pred is 0 or 1. Both have the dtype;
// elements of a dtype that is not readable are compared by bytes.
bool is_near(mydev_dtype dtype, const void* actual, const void* expected);
// "1.5", "-3", "nan", "(1,-0.25)"; bytes in hexadecimal for what is not readable.
std::string element_text(mydev_dtype dtype, const void* element);

}  // namespace mydev::conform
