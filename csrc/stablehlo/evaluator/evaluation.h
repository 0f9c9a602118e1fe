// What an operation computes, on the host: for operators, types and forms that have no kernel.
//
// An Evaluation takes dense row-major tensors in host memory and fills in the results, which overlap nothing. Plain and
// exact rather than fast. It does not change, and any number of threads may run it at a time; it refers to the module.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "stablehlo/ir/module.h"

namespace mydev::stablehlo {

// One pointer for each operand, and for each result.
using Evaluation = std::function<void(std::span<const std::byte* const>, std::span<std::byte* const>)>;

// The target of the custom call that is computed here.
inline constexpr std::string_view kApproxTopK = "ApproxTopK";

// Of an operation that passes verify(), whose types are static and whose regions, if it has any, are bodies of scalars.
// Raises UNIMPLEMENTED, with the operation, for those that are not computed here: control flow, calls, collectives.
Evaluation make_evaluation(const Module& module, const Operation& op);

// Of a custom call to one of XLA's own targets: Qr, ProductOfElementaryHouseholderReflectors, Eigh. Elements of a tuple
// are results of their own. Empty for other targets; raises UNIMPLEMENTED for operands that these do not take.
Evaluation make_evaluation_of_target(const Operation& op);

}  // namespace mydev::stablehlo
