// Computes operations on the host: for operators, types and forms that have no kernel.
//
// An Evaluation takes dense row-major tensors in host memory and fills in the results, which overlap nothing. It is
// plain and exact rather than fast. It does not change, and any number of threads may run it at a time; it refers to
// the module.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "runtime/base/api.h"
#include "stablehlo/ir/module.h"

namespace mydev::stablehlo {

// One pointer for each operand, and for each result.
using Evaluation = std::function<void(std::span<const std::byte* const>, std::span<std::byte* const>)>;

// The target of the custom call that is computed here.
inline constexpr std::string_view kApproxTopK = "ApproxTopK";
// This target's call: the first elements along a dimension in the order of a comparator, exactly. approx_top_k_of()
// raises INVALID_ARGUMENT if the call does not say so.
struct ApproxTopK {
  const Function* comparator;
  int64_t dimension;
};
MYDEV_API ApproxTopK approx_top_k_of(const Module& module, const Operation& op);

// The operation must pass verify(). Its types must be static, and its regions, if it has any, bodies of scalars. Raises
// UNIMPLEMENTED, with the operation, for those that are not computed here: control flow, calls, collectives.
MYDEV_API Evaluation make_evaluation(const Module& module, const Operation& op);

// Returns how rng_bit_generator sees its output with Threefry, as XLA does: [o, n, i], along whose n two elements have
// the words of one block.
MYDEV_API std::array<int64_t, 3> threefry_shape(const Type& output);

// Computes a custom call to one of XLA's own targets: Qr, ProductOfElementaryHouseholderReflectors, Eigh. Elements of a
// tuple are results of their own. Empty for other targets. Raises UNIMPLEMENTED if the operands' number or kind is not
// supported, INVALID_ARGUMENT if sizes or results do not fit the target.
MYDEV_API Evaluation make_evaluation_of_target(const Operation& op);

}  // namespace mydev::stablehlo
