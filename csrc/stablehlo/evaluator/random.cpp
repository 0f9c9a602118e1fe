// rng_bit_generator and rng.
//
// Philox 4x32-10 and Threefry 2x32 are those of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
// 1, 2, 3" (2011).
#include <array>
#include <bit>
#include <cstring>
#include <mutex>
#include <random>

#include "stablehlo/evaluator/evaluators.h"
#include "stablehlo/evaluator/shapes.h"

namespace mydev::stablehlo {

namespace {

uint32_t low(uint64_t value) noexcept {
  return static_cast<uint32_t>(value);
}
uint32_t high(uint64_t value) noexcept {
  return static_cast<uint32_t>(value >> 32);
}

using PhiloxBlock = std::array<uint32_t, 4>;

// The counter's 128 bits, of which the low half comes first.
PhiloxBlock philox(uint64_t key, uint64_t counter_low, uint64_t counter_high) noexcept {
  constexpr uint64_t kFirst = 0xD2511F53, kSecond = 0xCD9E8D57;
  constexpr uint32_t kFirstStep = 0x9E3779B9, kSecondStep = 0xBB67AE85;
  constexpr int kRounds = 10;
  PhiloxBlock x = {low(counter_low), high(counter_low), low(counter_high), high(counter_high)};
  uint32_t a = low(key), b = high(key);
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t p = kFirst * x[0], q = kSecond * x[2];
    x = {high(q) ^ x[1] ^ a, low(q), high(p) ^ x[3] ^ b, low(p)};
    a += kFirstStep;
    b += kSecondStep;
  }
  return x;
}

std::array<uint32_t, 2> threefry(uint64_t key, uint64_t counter) noexcept {
  constexpr uint32_t kParity = 0x1BD11BDA;
  constexpr std::array<std::array<int, 4>, 2> kRotations = {{{13, 15, 26, 6}, {17, 29, 16, 24}}};
  const std::array<uint32_t, 3> keys = {low(key), high(key), low(key) ^ high(key) ^ kParity};
  uint32_t x = low(counter) + keys[0], y = high(counter) + keys[1];
  for (uint32_t group = 0; group < 5; ++group) {
    for (const int rotation : kRotations[group % 2]) {
      x += y;
      y = std::rotl(y, rotation) ^ x;
    }
    x += keys[(group + 1) % 3];
    y += keys[(group + 2) % 3] + group + 1;
  }
  return {x, y};
}

// Gives 32 bits at a time, from a state that is advanced by the blocks that were begun.
class Bits {
 public:
  Bits(RngAlgorithm algorithm, std::vector<uint64_t> state) : algorithm_(algorithm), state_(std::move(state)) {}

  uint32_t next() {
    const size_t per_block = algorithm_ == RngAlgorithm::kThreeFry ? 2 : 4;
    if (used_ % per_block == 0) refill();
    return block_[used_++ % per_block];
  }
  const std::vector<uint64_t>& state() const noexcept { return state_; }

 private:
  void refill() {
    if (algorithm_ == RngAlgorithm::kThreeFry) {
      const auto words = threefry(state_[0], state_[1]);
      block_ = {words[0], words[1], 0, 0};
    } else {
      // If the state has two words, the key is the counter's high half too, as in XLA.
      block_ = philox(state_[0], state_[1], state_.size() > 2 ? state_[2] : state_[0]);
    }
    if (++state_[1] == 0 && state_.size() > 2) ++state_[2];
  }

  RngAlgorithm algorithm_;
  std::vector<uint64_t> state_;
  PhiloxBlock block_{};
  size_t used_ = 0;
};

}  // namespace

Evaluation evaluate_rng_bit_generator(const Operation& op) {
  const Type &state = *op.operand(0).type, &output = *op.result(1).type;
  const auto algorithm = op.get<RngAlgorithm>("rng_algorithm");
  const int64_t words = state.bytes() / static_cast<int64_t>(sizeof(uint64_t));
  return [&output, algorithm, words](auto operands, auto results) {
    std::vector<uint64_t> given(static_cast<size_t>(words));
    std::memcpy(given.data(), operands[0], given.size() * sizeof(uint64_t));
    Bits bits(algorithm, std::move(given));
    for (int64_t i = 0; i < output.element_count(); ++i) {
      uint64_t value = bits.next();
      if (element_bytes(output.element) == 8) value |= static_cast<uint64_t>(bits.next()) << 32;
      store(output.element, {.integer = static_cast<int64_t>(value)}, results[1] + i * element_bytes(output.element));
    }
    std::memcpy(results[0], bits.state().data(), static_cast<size_t>(words) * sizeof(uint64_t));
  };
}

// Numbers that differ at each run, from one generator of the process.
Evaluation evaluate_rng(const Operation& op) {
  const bool is_normal = op.get<RngDistribution>("rng_distribution") == RngDistribution::kNormal;
  return [&op, is_normal](auto operands, auto results) {
    static std::mutex mutex;
    static std::mt19937_64 generator{std::random_device{}()};
    const Type& type = *op.result().type;
    const Number first = element(*op.operand(0).type, operands[0], 0),
                 second = element(*op.operand(1).type, operands[1], 0);
    const bool is_float = kind_of(type.element) == ElementKind::kFloat;
    const std::lock_guard lock(mutex);
    for (int64_t i = 0; i < type.element_count(); ++i) {
      Number number;
      if (is_normal) {
        number.real = std::normal_distribution<double>(first.real, second.real)(generator);
      } else if (is_float) {
        const double drawn = std::uniform_real_distribution<double>(first.real, second.real)(generator);
        // Rounding may reach the end, which does not belong to the interval.
        number.real = rounded(type.element, {.real = drawn}).real < second.real ? drawn : first.real;
      } else {
        const int64_t last = second.integer > first.integer ? second.integer - 1 : first.integer;
        number.integer = std::uniform_int_distribution<int64_t>(first.integer, last)(generator);
      }
      set_element(type, results[0], i, number);
    }
  };
}

}  // namespace mydev::stablehlo
