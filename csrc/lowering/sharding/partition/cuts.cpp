#include "lowering/sharding/partition/cuts.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace mydev::lowering {

namespace {

// The combination of parts in all cuts that the device has, as one number.
int64_t place_of(std::span<const Cut> cuts, size_t device) {
  int64_t place = 0;
  for (const Cut& cut : cuts) {
    if (!cut.empty()) place = place * parts_of(cut) + cut[device];
  }
  return place;
}

}  // namespace

int64_t parts_of(const Cut& cut) noexcept {
  return cut.empty() ? 1 : *std::ranges::max_element(cut) + 1;
}

bool is_whole(const Cuts& cuts) noexcept {
  return std::ranges::all_of(cuts, &Cut::empty);
}

bool is_whole(const Spread& spread) noexcept {
  return spread.summands.empty() && is_whole(spread.cuts);
}

Spread whole_spread(size_t rank) {
  return {Cuts(rank)};
}

Spread spread_of(const Sharding& sharding, size_t rank) {
  Spread spread = whole_spread(rank);
  for (size_t d = 0; d < rank; ++d) {
    if (sharding.shards()[d] == 1) continue;
    for (int64_t device = 0; device < sharding.devices(); ++device) spread.cuts[d].push_back(sharding.place(device)[d]);
  }
  spread.summands = summands_of({&sharding.summands(), 1}, sharding.devices());
  return spread;
}

Sharding sharding_of(const Cuts& cuts, int64_t devices, const Cuts& apart) {
  Sizes parts;
  std::vector<Sizes> places(static_cast<size_t>(devices));
  std::vector<int64_t> tensors;
  for (const Cut& cut : cuts) parts.push_back(parts_of(cut));
  for (size_t device = 0; device < places.size(); ++device) {
    for (const Cut& cut : cuts) places[device].push_back(cut.empty() ? 0 : cut[device]);
    tensors.push_back(place_of(apart, device));
  }
  return {std::move(parts), std::move(places), std::move(tensors)};
}

Sharding sharding_of(const Spread& spread, int64_t devices) {
  Sharding sharding = sharding_of(spread.cuts, devices);
  sharding.set_summands(spread.summands);
  return sharding;
}

Sizes shard_sizes(const Sizes& sizes, const Cuts& cuts) {
  Sizes shard = sizes;
  for (size_t d = 0; d < cuts.size(); ++d) shard[d] /= parts_of(cuts[d]);
  return shard;
}

bool are_independent(std::span<const Cut> cuts) {
  int64_t places = 1;
  size_t devices = 1;
  for (const Cut& cut : cuts) {
    places *= parts_of(cut);
    devices = std::max(devices, cut.size());
  }
  std::map<int64_t, size_t> holders;
  if (places == 1) return true;
  for (size_t device = 0; device < devices; ++device) ++holders[place_of(cuts, device)];
  return static_cast<int64_t>(holders.size()) == places &&
         std::ranges::all_of(holders, [&](const auto& of) { return of.second == devices / holders.size(); });
}

bool are_independent(const Spread& spread) {
  Cuts all = spread.cuts;
  all.push_back(spread.summands);
  return are_independent(all);
}

Groups groups_over(std::span<const Cut> summed, std::span<const Cut> others, int64_t devices) {
  // The key has the parts of the others, then the device's number among those with the same parts, also of `summed`.
  std::map<std::pair<int64_t, int64_t>, std::vector<int64_t>> groups;
  std::map<std::pair<int64_t, int64_t>, int64_t> counts;
  for (int64_t device = 0; device < devices; ++device) {
    const int64_t other = place_of(others, static_cast<size_t>(device));
    const int64_t number = counts[{other, place_of(summed, static_cast<size_t>(device))}]++;
    groups[{other, number}].push_back(device);
  }
  Groups listed;
  listed.reserve(groups.size());
  for (auto& [key, group] : groups) listed.push_back(std::move(group));
  return listed;
}

// --- summands --------------------------------------------------------------------------------------------------------

Cut summands_of(std::span<const Cut> cuts, int64_t devices) {
  Cut summands;
  std::map<int64_t, int64_t> numbers;
  for (int64_t device = 0; device < devices; ++device) {
    const int64_t place = place_of(cuts, static_cast<size_t>(device));
    summands.push_back(numbers.emplace(place, static_cast<int64_t>(numbers.size())).first->second);
  }
  if (numbers.size() <= 1) summands.clear();
  return summands;
}

Cut common_summands(const Cut& a, const Cut& b) {
  if (a.empty() || b.empty()) return {};
  Cut least(a.size());  // the first device that must be of the same one, as far as it is known
  std::iota(least.begin(), least.end(), 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (const Cut* given : {&a, &b}) {
      std::map<int64_t, int64_t> least_of;
      for (size_t i = 0; i < least.size(); ++i) {
        int64_t& of_summand = least_of.emplace((*given)[i], least[i]).first->second;
        of_summand = std::min(of_summand, least[i]);
      }
      for (size_t i = 0; i < least.size(); ++i) {
        const int64_t of_summand = least_of.at((*given)[i]);
        changed = changed || least[i] != of_summand;
        least[i] = of_summand;
      }
    }
  }
  return summands_of({&least, 1}, static_cast<int64_t>(least.size()));
}

namespace {

int64_t part_at(const Cut& cut, size_t device) noexcept {
  return cut.empty() ? 0 : cut[device];
}

// The number of parts of `fine` in each part of `coarse`; 0: the parts of `coarse` are not cut into those of `fine`.
int64_t pieces(const Cut& coarse, const Cut& fine) {
  const int64_t count = parts_of(fine) / parts_of(coarse);
  if (parts_of(fine) % parts_of(coarse) != 0) return 0;
  for (size_t device = 0; device < fine.size(); ++device) {
    if (fine[device] / count != part_at(coarse, device)) return 0;
  }
  return count;
}

}  // namespace

std::optional<Scatter> scatter(const Groups& groups, const Cut& from, const Cut& to) {
  const int64_t count = pieces(from, to);
  if (count < 2) return std::nullopt;
  Scatter result;
  for (const std::vector<int64_t>& group : groups) {
    Groups by_part(static_cast<size_t>(count));
    for (const int64_t device : group) {
      by_part[static_cast<size_t>(to[static_cast<size_t>(device)] % count)].push_back(device);
    }
    for (const std::vector<int64_t>& devices : by_part) {
      if (devices.size() * by_part.size() != group.size()) return std::nullopt;
      result.left.push_back(devices);
    }
    for (size_t i = 0; i < by_part.front().size(); ++i) {
      std::vector<int64_t>& scattered = result.groups.emplace_back();
      for (const std::vector<int64_t>& devices : by_part) scattered.push_back(devices[i]);
    }
  }
  return result;
}

bool become_summands(const Cut& from, const Cut& to, const Cut& summands) {
  if (summands.empty() || pieces(to, from) < 2) return false;
  std::map<std::pair<int64_t, int64_t>, int64_t> part;  // by the summand and by the part that it is of
  for (size_t device = 0; device < from.size(); ++device) {
    const auto [known, is_new] = part.emplace(std::pair(summands[device], part_at(to, device)), from[device]);
    if (known->second != from[device]) return false;
  }
  return true;
}

Sharding places_of_summands(const Spread& from, const Spread& to, int64_t devices) {
  Sizes counts;
  for (size_t d = 0; d < from.cuts.size(); ++d) counts.push_back(pieces(to.cuts[d], from.cuts[d]));
  std::vector<Sizes> places(static_cast<size_t>(devices));
  // The key has the shard and the summand of a device. The first of the new summands that has both keeps the shard.
  std::map<std::pair<int64_t, int64_t>, int64_t> first;
  std::vector<std::pair<int64_t, int64_t>> have;
  for (size_t device = 0; device < places.size(); ++device) {
    for (size_t d = 0; d < counts.size(); ++d) places[device].push_back(part_at(from.cuts[d], device) % counts[d]);
    have.emplace_back(place_of(from.cuts, device), part_at(from.summands, device));
    int64_t& summand = first.emplace(have.back(), to.summands[device]).first->second;
    summand = std::min(summand, to.summands[device]);
  }
  Cut is_zero;
  for (size_t device = 0; device < places.size(); ++device) {
    is_zero.push_back(first.at(have[device]) == to.summands[device] ? 0 : 1);
  }
  Sharding result(std::move(counts), std::move(places), Sizes(static_cast<size_t>(devices), 0));
  result.set_summands(std::move(is_zero));
  return result;
}

}  // namespace mydev::lowering
