// Python numbers, c10::Scalar and CPU scalars as attributes of kernels.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/frame/frame.h"

namespace mydev {

// Order of promotion: bool 0, integer 1, floating 2, complex 3.
int promotion_kind(c10::ScalarType type);
int promotion_kind(const mydev_attribute& number);

// Whether an attribute can hold the number: all can but integers from 2^63 on.
bool has_attribute(const c10::Scalar& number);
mydev_attribute number_attribute(const char* name, const c10::Scalar& number);
c10::Scalar to_scalar(const mydev_attribute& number);

// The value of a 0-dim CPU tensor, as an attribute without a name; false for types that have no attribute.
bool read_number(const at::Tensor& tensor, mydev_attribute& number);

// Whether the number has a value in `type` (a floating number in an integral type: its integer part). With `round`, a
// number for a half precision type is rounded to it; without, it may be any that f32 holds, in which such types
// compute.
bool fit_number(mydev_attribute& number, c10::ScalarType type, bool round);

// A number as the kernel of a type sees it: of the type's kind, whatever the number was given as.
mydev_scalar scalar_value(const mydev_attribute& number, c10::ScalarType type);
// Makes an attribute INT for integral types and bool, FLOAT for floating ones, COMPLEX for complex ones.
void fit_kind(mydev_attribute& number, c10::ScalarType type);

}  // namespace mydev
