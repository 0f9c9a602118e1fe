// bitcast_convert between types of which one has fewer than eight bits. Elements of others are moved, not computed.
#include <algorithm>
#include <cstring>

#include "stablehlo/evaluator/evaluators.h"

namespace mydev::stablehlo {

namespace {

// An array as a row of bits, the lowest of each element first. Elements of fewer than eight bits have a byte each.
struct BitRow {
  explicit BitRow(ElementType type) : bits(element_row(type).bits), bytes(element_bytes(type)) {}
  int64_t byte(int64_t place) const noexcept { return place / bits * bytes + place % bits / 8; }
  int shift(int64_t place) const noexcept { return static_cast<int>(place % bits % 8); }

  int64_t bits, bytes;
};

}  // namespace

Evaluation evaluate_bitcast_convert(const Operation& op) {
  return [&op](auto operands, auto results) {
    const Type &from = *op.operand(0).type, &to = *op.result().type;
    const BitRow source(from.element), target(to.element);
    const int64_t piece = std::min({source.bits, target.bits, int64_t{8}});
    const unsigned ones = (1U << piece) - 1;
    std::memset(results[0], 0, static_cast<size_t>(to.bytes()));
    const int64_t all = from.bytes() / source.bytes * source.bits;
    for (int64_t place = 0; place < all; place += piece) {
      const unsigned read = std::to_integer<unsigned>(operands[0][source.byte(place)]) >> source.shift(place) & ones;
      results[0][target.byte(place)] |= std::byte(read << target.shift(place));
    }
    if (element_row(to.element).kind != ElementKind::kSigned || target.bits >= 8) return;
    for (int64_t i = 0; i < to.bytes(); ++i) {
      const unsigned value = std::to_integer<unsigned>(results[0][i]);
      if ((value >> (target.bits - 1) & 1) != 0) results[0][i] |= std::byte(0xFF << target.bits & 0xFF);
    }
  };
}

}  // namespace mydev::stablehlo
