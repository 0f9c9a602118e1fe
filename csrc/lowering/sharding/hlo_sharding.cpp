#include "lowering/sharding/hlo_sharding.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "runtime/base/status.h"
#include "runtime/base/text_scanner.h"

namespace mydev::lowering {

namespace {

using Numbers = std::vector<int64_t>;

constexpr int64_t kMostDevices = int64_t{1} << 20;

class Parser final : public TextScanner {
 public:
  explicit Parser(std::string_view text) : TextScanner(text, " ") {}

  std::vector<HloSharding> all() {
    std::vector<HloSharding> shardings;
    expect("{");
    const bool is_tuple = at("{") || at("}");
    if (!is_tuple) {
      shardings.push_back(body());
    } else if (!at("}")) {
      do {
        expect("{");
        shardings.push_back(body());
        expect("}");
      } while (take(","));
    }
    expect("}");
    if (!at_end()) fail("nothing more");
    return shardings;
  }

 private:
  [[noreturn]] void fail(std::string_view expected) const {
    mydev::detail::raise_formatted(MYDEV_INVALID_ARGUMENT, "the sharding '", text_, "': expected ", expected,
                                   " at character ", position_ + 1);
  }

  [[noreturn]] void fail_expecting(const std::string& expected) override { fail(expected); }
  std::string_view kind() { return advance(next_word().size()); }
  int64_t number() {
    const int64_t value = integer("a number");
    if (value < 0) fail("no negative number before this");
    return value;
  }
  Numbers numbers() {
    Numbers values = {number()};
    while (take(",")) values.push_back(number());
    return values;
  }

  HloSharding body() {
    HloSharding sharding;
    const std::string_view kind = this->kind();
    if (kind == "manual") {
      sharding.kind = HloSharding::Kind::kManual;
    } else if (kind == "unknown") {
      sharding.kind = HloSharding::Kind::kUnknown;
    } else if (kind == "maximal") {
      sharding.kind = HloSharding::Kind::kMaximal;
      expect("device=");
      sharding.devices = {number()};
    } else if (kind == "devices") {
      sharding.kind = HloSharding::Kind::kTiled;
      read_tiles(sharding);
    } else if (kind != "replicated") {
      mydev::detail::raise_formatted(MYDEV_UNIMPLEMENTED, "the sharding '", text_, "': '", kind,
                                     "' is not known; replicated, manual, unknown, maximal and devices are");
    }
    read_past_hints();
    return sharding;
  }

  // How many devices the sizes are of. Raises where there are none, or more than there can be.
  int64_t count_of(const Numbers& sizes) {
    int64_t count = 1;
    for (const int64_t size : sizes) {
      if (size < 1 || size > kMostDevices / count) fail("sizes of at least one and at most 2^20 devices before this");
      count *= size;
    }
    return count;
  }

  void read_tiles(HloSharding& sharding) {
    expect("=[");
    sharding.tile = numbers();
    expect("]");
    const int64_t count = count_of(sharding.tile);
    sharding.devices = take("<=") ? iota(count) : numbers();
    Numbers sorted = sharding.devices;
    std::ranges::sort(sorted);
    for (int64_t i = 0; i < count; ++i) {
      if (static_cast<int64_t>(sorted.size()) != count || sorted[static_cast<size_t>(i)] != i) {
        fail("each of " + std::to_string(count) + " devices once before this");
      }
    }
    if (take("last_tile_dim_replicate")) {
      sharding.subgroups = {HloSharding::Subgroup::kReplicated};
    } else if (take("last_tile_dims=")) {
      expect("{");
      do sharding.subgroups.push_back(subgroup());
      while (take(","));
      expect("}");
    }
    if (sharding.subgroups.size() > sharding.tile.size()) fail("fewer subgroups before this");
  }

  // Reads devices from 0 on, in an array of these sizes whose dimensions are then transposed: "[2,2]T(1,0)".
  Numbers iota(int64_t count) {
    expect("[");
    const Numbers sizes = numbers();
    expect("]");
    if (count_of(sizes) != count) fail(std::to_string(count) + " devices before this");
    Numbers order(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    if (take("T")) {
      expect("(");
      order = numbers();
      expect(")");
      Numbers sorted = order;
      std::ranges::sort(sorted);
      for (size_t d = 0; d < sorted.size(); ++d) {
        if (sorted.size() != sizes.size() || sorted[d] != static_cast<int64_t>(d)) fail("each dimension before this");
      }
    }
    Numbers strides(sizes.size(), 1), devices;
    for (size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i, device = 0;
      for (size_t k = order.size(); k-- > 0;) {
        const auto d = static_cast<size_t>(order[k]);
        device += rest % sizes[d] * strides[d];
        rest /= sizes[d];
      }
      devices.push_back(device);
    }
    return devices;
  }

  HloSharding::Subgroup subgroup() {
    const std::string_view name = kind();
    if (name == "manual") return HloSharding::Subgroup::kManual;
    if (name == "replicated") return HloSharding::Subgroup::kReplicated;
    if (name == "unreduced") return HloSharding::Subgroup::kUnreduced;
    mydev::detail::raise_formatted(MYDEV_UNIMPLEMENTED, "the sharding '", text_, "': subgroups that are '", name,
                                   "' are not known; replicated, manual and unreduced ones are");
  }

  void read_past_hints() {
    while (!at("}") && position_ < text_.size()) {
      if (take("shard_as") || take("shard_like")) {
        number();
      } else if (take("metadata=")) {
        read_past_braces();
      } else {
        fail("'}'");
      }
    }
  }

  void read_past_braces() {
    expect("{");
    for (int depth = 1; depth > 0; ++position_) {
      if (position_ == text_.size()) fail("'}'");
      if (text_[position_] == '{') ++depth;
      if (text_[position_] == '}') --depth;
    }
  }
};

}  // namespace

std::vector<HloSharding> parse_hlo_sharding(std::string_view text) {
  return Parser(text).all();
}

}  // namespace mydev::lowering
