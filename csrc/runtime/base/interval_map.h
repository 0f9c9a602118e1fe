// Ranges of addresses that do not overlap, each with a value: a range is found by any address in it, and taken out by
// its first. The owner guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <variant>

namespace mydev {

template <typename Value = std::monostate>
class IntervalMap {
 public:
  struct Range {
    size_t size;
    Value value;
  };

  // No other range begins there.
  void insert(const void* begin, size_t size, Value value = {}) {
    ranges_.emplace(reinterpret_cast<uintptr_t>(begin), Range{size, std::move(value)});
  }
  // The value of the range that begins there; a default one if none does.
  Value extract(const void* begin) {
    auto node = ranges_.extract(reinterpret_cast<uintptr_t>(begin));
    return node.empty() ? Value{} : std::move(node.mapped().value);
  }
  bool contains(const void* data) const { return find(reinterpret_cast<uintptr_t>(data)) != ranges_.end(); }

  // Pairs of address and Range, by address.
  auto begin() const { return ranges_.begin(); }
  auto end() const { return ranges_.end(); }
  size_t size() const { return ranges_.size(); }

  // The range that the address lies in; end() if none.
  auto find(uintptr_t address) const {
    const auto after = ranges_.upper_bound(address);
    if (after == ranges_.begin()) return ranges_.end();
    const auto before = std::prev(after);
    return address - before->first < before->second.size ? before : ranges_.end();
  }
  // The first range that ends behind the address, which may lie in it; end() if none.
  auto first_behind(uintptr_t address) { return first_behind_in(ranges_, address); }
  auto first_behind(uintptr_t address) const { return first_behind_in(ranges_, address); }
  // Cuts the range that the address lies in, but does not begin, in two of the same value.
  void split(uintptr_t address) {
    const auto range = first_behind(address);
    if (range == ranges_.end() || range->first >= address) return;
    const size_t head = address - range->first;
    ranges_.emplace(address, Range{range->second.size - head, range->second.value});
    range->second.size = head;
  }
  auto erase(typename std::map<uintptr_t, Range>::iterator range) { return ranges_.erase(range); }
  void clear() { ranges_.clear(); }

 private:
  template <typename Ranges>
  static auto first_behind_in(Ranges& ranges, uintptr_t address) {
    const auto after = ranges.upper_bound(address);
    if (after == ranges.begin()) return after;
    const auto before = std::prev(after);
    return address - before->first < before->second.size ? before : after;
  }

  std::map<uintptr_t, Range> ranges_;
};

}  // namespace mydev
