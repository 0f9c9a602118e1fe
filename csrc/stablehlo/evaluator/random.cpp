// rng_bit_generator and rng.
//
// Philox 4x32-10 and Threefry 2x32 are those of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
// 1, 2, 3" (2011).
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <mutex>
#include <random>
#include <span>

#include "stablehlo/evaluator/evaluation.h"
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

// The words of a block, counted from a state.
PhiloxBlock words_of(RngAlgorithm algorithm, std::span<const uint64_t> state, uint64_t block) {
  const uint64_t counter = state[1] + block;
  if (algorithm == RngAlgorithm::kThreeFry) {
    const auto words = threefry(state[0], counter);
    return {words[0], words[1], 0, 0};
  }
  // If the state has two words, the key is the counter's high half too, as in XLA.
  return philox(state[0], counter, (state.size() > 2 ? state[2] : state[0]) + (counter < state[1] ? 1 : 0));
}

}  // namespace

std::array<int64_t, 3> threefry_shape(const Type& output) {
  const std::vector<int64_t>& dims = output.dims;
  const auto even = std::ranges::find_if(dims, [](int64_t size) { return size % 2 == 0; });
  const auto split = even != dims.end() ? even : std::ranges::max_element(dims);
  std::array<int64_t, 3> shape = {1, split == dims.end() ? 1 : *split, 1};
  for (auto size = dims.begin(); size != dims.end(); ++size) {
    if (size != split) shape[size < split ? 0 : 2] *= *size;
  }
  return shape;
}

Evaluation evaluate_rng_bit_generator(const Operation& op) {
  const Type &state = *op.operand(0).type, &output = *op.result(1).type;
  const auto algorithm = op.get<RngAlgorithm>("rng_algorithm");
  const int64_t words = state.bytes() / static_cast<int64_t>(sizeof(uint64_t)), bytes = element_bytes(output.element);
  return [&output, algorithm, words, bytes](auto operands, auto results) {
    std::vector<uint64_t> given(static_cast<size_t>(words));
    std::memcpy(given.data(), operands[0], given.size() * sizeof(uint64_t));
    const int64_t count = output.element_count(), per_element = bytes == 8 ? 2 : 1;
    const int64_t per_block = algorithm == RngAlgorithm::kThreeFry ? 2 : 4;
    const auto [outer, size, inner] = threefry_shape(output);
    const bool in_pairs = algorithm == RngAlgorithm::kThreeFry && bytes != 8;
    const int64_t pairs = (size + 1) / 2;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = i / inner, along = row % size;
      int64_t block = i * per_element / per_block, word = i * per_element % per_block;
      if (in_pairs) {
        block = (row / size * pairs + along / 2) * inner + i % inner;
        word = along % 2;
      }
      const PhiloxBlock drawn = words_of(algorithm, given, static_cast<uint64_t>(block));
      uint64_t value = drawn[static_cast<size_t>(word)];
      if (bytes == 8) value |= static_cast<uint64_t>(drawn[static_cast<size_t>(word) + 1]) << 32;
      store(output.element, {.integer = static_cast<int64_t>(value)}, results[1] + i * bytes);
    }
    const int64_t begun = in_pairs ? outer * pairs * inner : (count * per_element + per_block - 1) / per_block;
    const uint64_t counter = given[1];
    given[1] += static_cast<uint64_t>(begun);
    if (given[1] < counter && words > 2) ++given[2];
    std::memcpy(results[0], given.data(), given.size() * sizeof(uint64_t));
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
