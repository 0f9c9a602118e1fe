// Views in other dimensions, over the same elements in the same order. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "program/ir/program.h"

namespace mydev::program {

std::vector<int64_t> without_ones(const std::vector<int64_t>& sizes);
// The product; of no sizes 1.
int64_t count_elements(const std::vector<int64_t>& sizes);

// The coarsest sizes that both can be split into: [64,128] of [8192] and [64,1,128]. None is 1. Nothing where there are
// no such sizes, as for [4,6] and [6,4], and where shapes without elements are not the same.
std::optional<std::vector<int64_t>> common_refinement(const std::vector<int64_t>& a, const std::vector<int64_t>& b);

// The operand with sizes that its own can be split into. An absent one stays so.
Operand reshaped(const Operand& operand, const std::vector<int64_t>& sizes);
// The operand with the fewest dimensions: operands that see the same elements in the same order become the same.
Operand flattened(const Operand& operand);

}  // namespace mydev::program
