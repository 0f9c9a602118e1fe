// How tensors are split while a program is partitioned: each dimension by itself, in equal parts.
//
// A cut says for each device which part of the dimension it has, so those of Shardy, of parts of its axes, and of GSPMD
// are the same thing. Values; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lowering/sharding.h"

namespace mydev::lowering {

using Cut = std::vector<int64_t>;  // by device; empty: each has the whole dimension
using Cuts = std::vector<Cut>;     // by dimension

int64_t parts_of(const Cut& cut) noexcept;
bool is_whole(const Cuts& cuts) noexcept;
Cuts cuts_of(const Sharding& sharding, size_t rank);
// `apart`: devices of other parts there have parts of other tensors.
Sharding sharding_of(const Cuts& cuts, int64_t devices, const Cuts& apart = {});
// What a device has of a tensor of these sizes, which the parts divide.
Sizes part_sizes(const Sizes& sizes, const Cuts& cuts);
// Whether the parts of one say nothing about those of the others, so that one tensor can have them all.
bool are_independent(std::span<const Cut> cuts);
// Groups of devices, each with every part of `summed` once, and with the same parts of the others.
std::vector<std::vector<int64_t>> groups_over(std::span<const Cut> summed, std::span<const Cut> others,
                                              int64_t devices);

}  // namespace mydev::lowering
