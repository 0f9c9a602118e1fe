// How tensors are spread over devices while a program is partitioned: each dimension is cut by itself, in equal parts,
// and the tensor may be the sum of several.
//
// A cut says for each device which part of the dimension it has, so cuts by Shardy's axes, by parts of its axes, and by
// GSPMD are the same thing. Summands are numbered in the order of the first devices that have them, so the summands of
// two tensors are equal if the same devices have the same one. Values; any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lowering/sharding/sharding.h"
#include "runtime/base/api.h"

namespace mydev::lowering {

using Cut = std::vector<int64_t>;                  // by device; empty: each has the whole dimension
using Cuts = std::vector<Cut>;                     // by dimension
using Groups = std::vector<std::vector<int64_t>>;  // of devices, all of one size

// The shards of a tensor that devices have.
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
// `apart`: devices with different parts in these cuts have shards of different tensors.
Sharding sharding_of(const Cuts& cuts, int64_t devices, const Cuts& apart = {});
Sharding sharding_of(const Spread& spread, int64_t devices);
// The sizes of a device's shard of a tensor of these sizes, which the numbers of parts divide.
Sizes shard_sizes(const Sizes& sizes, const Cuts& cuts);
// Whether the parts of one cut say nothing about those of the others, so that one tensor can have all these cuts.
MYDEV_API bool are_independent(std::span<const Cut> cuts);
MYDEV_API bool are_independent(const Spread& spread);
// Groups of devices, each with every part of `summed` once, and with the same parts of the others.
MYDEV_API Groups groups_over(std::span<const Cut> summed, std::span<const Cut> others, int64_t devices);

// --- summands --------------------------------------------------------------------------------------------------------

// One summand for each combination of parts.
MYDEV_API Cut summands_of(std::span<const Cut> cuts, int64_t devices);
// The finest summands to which both can be reduced: each is a sum of summands of `a`, and also one of summands of `b`.
MYDEV_API Cut common_summands(const Cut& a, const Cut& b);

// Sums within groups that leave each device with a part. `groups`: their members have the parts in this order. `left`:
// groups of devices with the same part, in which it is still to be summed.
struct Scatter {
  Groups groups, left;
};
// nullopt: the new parts do not cut the old ones further, or a group does not have each of them equally often.
MYDEV_API std::optional<Scatter> scatter(const Groups& groups, const Cut& from, const Cut& to);

// How shards become summands: a device of summand 0 here puts its shard in its place among zeros, others have zeros
// only.
MYDEV_API Sharding places_of_summands(const Spread& from, const Spread& to, int64_t devices);
// Whether shards become summands along a dimension that is cut in this way: the summand says which part a device has.
MYDEV_API bool become_summands(const Cut& from, const Cut& to, const Cut& summands);

}  // namespace mydev::lowering
