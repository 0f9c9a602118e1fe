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
  bool contains(const void* data) const {
    const auto address = reinterpret_cast<uintptr_t>(data);
    const auto after = ranges_.upper_bound(address);
    return after != ranges_.begin() && address - std::prev(after)->first < std::prev(after)->second.size;
  }

  // Pairs of address and Range, by address.
  auto begin() const { return ranges_.begin(); }
  auto end() const { return ranges_.end(); }

 private:
  std::map<uintptr_t, Range> ranges_;
};

}  // namespace mydev
