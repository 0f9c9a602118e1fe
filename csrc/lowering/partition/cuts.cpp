#include "lowering/partition/cuts.h"

#include <algorithm>
#include <map>

namespace mydev::lowering {

namespace {

// Which of the parts of all cuts the device has, as one number.
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

Cuts cuts_of(const Sharding& sharding, size_t rank) {
  Cuts cuts(rank);
  for (size_t d = 0; d < rank; ++d) {
    if (sharding.parts()[d] == 1) continue;
    for (int64_t device = 0; device < sharding.devices(); ++device) cuts[d].push_back(sharding.place(device)[d]);
  }
  return cuts;
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

Sizes part_sizes(const Sizes& sizes, const Cuts& cuts) {
  Sizes part = sizes;
  for (size_t d = 0; d < cuts.size(); ++d) part[d] /= parts_of(cuts[d]);
  return part;
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

std::vector<std::vector<int64_t>> groups_over(std::span<const Cut> summed, std::span<const Cut> others,
                                              int64_t devices) {
  // By the parts of the others, then the number among those of the same parts, which each part of `summed` counts.
  std::map<std::pair<int64_t, int64_t>, std::vector<int64_t>> groups;
  std::map<std::pair<int64_t, int64_t>, int64_t> counts;
  for (int64_t device = 0; device < devices; ++device) {
    const int64_t other = place_of(others, static_cast<size_t>(device));
    const int64_t number = counts[{other, place_of(summed, static_cast<size_t>(device))}]++;
    groups[{other, number}].push_back(device);
  }
  std::vector<std::vector<int64_t>> listed;
  listed.reserve(groups.size());
  for (auto& [key, group] : groups) listed.push_back(std::move(group));
  return listed;
}

}  // namespace mydev::lowering
