// Views in other dimensions, over the same elements in the same order. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "program/ir/program.h"
#include "runtime/base/api.h"

namespace mydev::program {

std::vector<int64_t> without_ones(const std::vector<int64_t>& sizes);
// Returns the product of the sizes; 1 if there are none.
MYDEV_API int64_t count_elements(const std::vector<int64_t>& sizes);

// Returns the coarsest sizes that both can be split into: [64,128] for [8192] and [64,1,128]. None is 1. Returns
// nothing if there are no such sizes, as for [4,6] and [6,4], or if shapes without elements are not the same.
MYDEV_API std::optional<std::vector<int64_t>> common_refinement(const std::vector<int64_t>& a,
                                                                const std::vector<int64_t>& b);

// Returns the operand with sizes that its own can be split into. An absent operand stays absent.
MYDEV_API Operand reshaped(const Operand& operand, const std::vector<int64_t>& sizes);
// Returns the operand with the fewest dimensions: operands that see the same elements in the same order become the
// same.
MYDEV_API Operand flattened(const Operand& operand);

}  // namespace mydev::program
