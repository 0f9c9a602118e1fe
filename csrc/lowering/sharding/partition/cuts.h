// How tensors are spread over devices while a program is partitioned: each dimension by itself, in equal parts, and the
// tensor as the sum of several.
//
// A cut says for each device which part of the dimension it has, so those of Shardy, of parts of its axes, and of GSPMD
// are the same thing. Summands are numbered in the order of the first devices that have them, so those of two tensors
// are equal where the same devices have the same one. Values; any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lowering/sharding/sharding.h"

namespace mydev::lowering {

using Cut = std::vector<int64_t>;                  // by device; empty: each has the whole dimension
using Cuts = std::vector<Cut>;                     // by dimension
using Groups = std::vector<std::vector<int64_t>>;  // of devices, all of one size

// What devices have of a tensor.
struct Spread {
  Cuts cuts;
  Cut summands = {};  // by device, of which summand it has a part; empty: of the tensor itself
  bool operator==(const Spread&) const = default;
  auto operator<=>(const Spread&) const = default;
};

int64_t parts_of(const Cut& cut) noexcept;
bool is_whole(const Cuts& cuts) noexcept;
bool is_whole(const Spread& spread) noexcept;  // each device has all of the tensor itself
Spread whole_spread(size_t rank);
Spread spread_of(const Sharding& sharding, size_t rank);
// `apart`: devices of other parts there have parts of other tensors.
Sharding sharding_of(const Cuts& cuts, int64_t devices, const Cuts& apart = {});
Sharding sharding_of(const Spread& spread, int64_t devices);
// What a device has of a tensor of these sizes, which the parts divide.
Sizes part_sizes(const Sizes& sizes, const Cuts& cuts);
// Whether the parts of one say nothing about those of the others, so that one tensor can have them all.
bool are_independent(std::span<const Cut> cuts);
bool are_independent(const Spread& spread);
// Groups of devices, each with every part of `summed` once, and with the same parts of the others.
Groups groups_over(std::span<const Cut> summed, std::span<const Cut> others, int64_t devices);

// --- summands --------------------------------------------------------------------------------------------------------

// One for each combination of parts.
Cut summands_of(std::span<const Cut> cuts, int64_t devices);
// The most summands of which both are: sums within each of them make one from the other.
Cut common_summands(const Cut& a, const Cut& b);

// Sums within groups of which each device is left with a part: groups whose members have the parts in this order, then
// groups of those that have the same part, in which it is still to be summed.
struct Scatter {
  Groups groups, left;
};
// nullopt: the parts are none of those before, or a group does not have each equally often.
std::optional<Scatter> scatter(const Groups& groups, const Cut& from, const Cut& to);

// How parts become summands: a device of summand 0 here puts its part in its place among zeros, others have zeros only.
Sharding places_of_summands(const Spread& from, const Spread& to, int64_t devices);
// Whether they do so along a dimension that is cut in this way: the summand says which part it has.
bool become_summands(const Cut& from, const Cut& to, const Cut& summands);

}  // namespace mydev::lowering
