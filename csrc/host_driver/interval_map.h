// Ranges of addresses that do not overlap, each with a value: a range is found by any address in it, and taken out by
// its first. The owner guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace mydev::host_driver {

template <typename Value>
class IntervalMap {
 public:
  struct Range {
    size_t size;
    Value value;
  };

  void insert(const void* begin, size_t size, Value value) {
    ranges_.insert_or_assign(reinterpret_cast<uintptr_t>(begin), Range{size, std::move(value)});
  }
  // The range that begins there, which is then no longer in the map.
  std::optional<Range> extract(const void* begin) {
    auto node = ranges_.extract(reinterpret_cast<uintptr_t>(begin));
    return node.empty() ? std::nullopt : std::optional<Range>(std::move(node.mapped()));
  }
  bool contains(const void* data) const { return find(data) != ranges_.end(); }

  // The range that the address lies in: its first address and itself; end() if none.
  auto find(const void* data) const {
    const auto address = reinterpret_cast<uintptr_t>(data);
    auto range = ranges_.upper_bound(address);
    if (range == ranges_.begin()) return ranges_.end();
    --range;
    return address - range->first < range->second.size ? range : ranges_.end();
  }

  // Pairs of address and Range, by address.
  auto begin() const { return ranges_.begin(); }
  auto end() const { return ranges_.end(); }

 private:
  std::map<uintptr_t, Range> ranges_;
};

}  // namespace mydev::host_driver
