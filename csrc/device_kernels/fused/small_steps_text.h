// Steps of `mydev.small_steps` that no expression says: slices at positions that are computed, and products. Texts in
// the kernels' language, of statements for the element `e` of a step. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "device_kernels/base/bound_frame.h"
#include "device_kernels/base/portable_kernel.h"
#include "kernels/spec/small_body.h"

namespace mydev::device_kernels {

using SmallView = kernels::SmallBody::View;
// The text of an element of a view, as of that type, at a place in elements.
using SmallElement =
    std::function<std::string(const SmallView& view, const std::string& type, const std::string& place, bool writes)>;

// The place of the element of number `index` in a view of these sizes, in elements.
std::string place_in(std::span<const int64_t> sizes, std::span<const int64_t> strides, const std::string& index);

// mydev.gather_slices: of an element of the result.
std::string gathered(const kernels::SmallBody::Step& step, const BoundFrame& frame, const SmallElement& element);
// mydev.scatter_slices: of an element of the part of number `part`, a name; what it overwrites is there already.
std::string scattered(const kernels::SmallBody::Step& step, const BoundFrame& frame, const SmallElement& element,
                      const std::string& part);
// mydev.matmul: of an element of the result. Declines complex numbers.
std::string multiplied(const Request& request, const kernels::SmallBody::Step& step, const BoundFrame& frame,
                       const SmallElement& element);

}  // namespace mydev::device_kernels
