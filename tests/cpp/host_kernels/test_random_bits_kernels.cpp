// The kernels of random bits: known answers of Threefry 2x32-20, layouts of keys and counters, and generators with a
// state.
#include <array>
#include <limits>

#include "kernel_fixture.h"
#include "runtime/base/philox.h"

namespace mydev::kernels {
namespace {

constexpr uint64_t kLast = std::numeric_limits<uint64_t>::max();

class RandomBits : public KernelTest {
 protected:
  using Words = std::array<uint32_t, 2>;

  static Words threefry(uint64_t key, uint64_t counter) {
    Operand<uint32_t> operands[] = {{{}, MYDEV_U32}, {{}, MYDEV_U32}, {{}, MYDEV_U32},
                                    {{}, MYDEV_U32}, {{}, MYDEV_U32}, {{}, MYDEV_U32}};
    operands[2].values = {static_cast<uint32_t>(key)};
    operands[3].values = {static_cast<uint32_t>(key >> 32)};
    operands[4].values = {static_cast<uint32_t>(counter)};
    operands[5].values = {static_cast<uint32_t>(counter >> 32)};
    std::vector<mydev_buffer> buffers;
    for (auto& operand : operands) buffers.push_back(operand.buffer());
    EXPECT_EQ(run("mydev.threefry2x32", buffers, 2), MYDEV_OK);
    return {operands[0].values[0], operands[1].values[0]};
  }
  // The words of the blocks from `counter` on, in order.
  static std::vector<uint32_t> words(bool is_threefry, uint64_t key, uint64_t counter, uint64_t high, size_t count) {
    std::vector<uint32_t> all;
    for (uint64_t block = counter; all.size() < count; ++block) {
      const uint64_t carried = high + (block < counter ? 1 : 0);
      if (is_threefry) {
        const Words two = threefry(key, block);
        all.insert(all.end(), two.begin(), two.end());
      } else {
        const auto four = philox4x32_10(key, block, carried);
        all.insert(all.end(), four.begin(), four.end());
      }
    }
    all.resize(count);
    return all;
  }
  template <typename T>
  void expect_words(std::vector<uint64_t> state, int64_t count, mydev_dtype dtype) {
    for (const bool is_threefry : {false, true}) {
      SCOPED_TRACE(is_threefry ? "threefry" : "philox");
      const bool carries = state.size() == 3;
      Operand<uint64_t> given({static_cast<int64_t>(state.size())}, MYDEV_U64), advanced(given);
      given.values = state;
      Operand<T> out({1, count, 1}, dtype);
      ASSERT_EQ(run("mydev.rng_bit_generator", {advanced.buffer(), out.buffer(), given.buffer()}, 2,
                    {bool_attribute("threefry", is_threefry)}),
                MYDEV_OK);
      const size_t per_element = sizeof(T) == 8 ? 2 : 1, per_block = is_threefry ? 2 : 4;
      const size_t used = static_cast<size_t>(count) * per_element;
      const std::vector<uint32_t> expected =
          words(is_threefry, state[0], state[1], carries ? state[2] : state[0], used);
      for (size_t i = 0; i < out.values.size(); ++i) {
        uint64_t element = expected[i * per_element];
        if (per_element == 2) element |= uint64_t{expected[2 * i + 1]} << 32;
        ASSERT_EQ(out.values[i], static_cast<T>(element)) << i;
      }
      std::vector<uint64_t> next = state;
      next[1] += (used + per_block - 1) / per_block;
      if (carries && next[1] < state[1]) ++next[2];
      EXPECT_EQ(advanced.values, next);
    }
  }
};

// The vectors that come with Random123: all zeros, all ones, and digits of pi.
TEST_P(RandomBits, ThreefryGivesTheKnownAnswers) {
  EXPECT_EQ(threefry(0, 0), (Words{0x6b200159, 0x99ba4efe}));
  EXPECT_EQ(threefry(kLast, kLast), (Words{0x1cb996fc, 0xbb002be7}));
  EXPECT_EQ(threefry(0x0370734413198a2e, 0x85a308d3243f6a88), (Words{0xc4923a9c, 0x483df7a0}));
}

TEST_P(RandomBits, ThreefryTakesAKeyPerRowAndAnyStrides) {
  constexpr int64_t kRows = 37, kColumns = 70;  // of which no chunk is a multiple
  Operand<uint32_t> x({kRows, kColumns}, MYDEV_U32), y({kColumns, kRows}, MYDEV_U32);
  Operand<uint32_t> key0({kRows, 1}, MYDEV_U32), key1({}, MYDEV_U32), low({kRows, 2 * kColumns}, MYDEV_U32),
      high({1, kColumns}, MYDEV_U32);
  for (size_t i = 0; i < key0.values.size(); ++i) key0.values[i] = static_cast<uint32_t>(i * 0x10001);
  key1.values = {0xdeadbeef};
  for (size_t i = 0; i < low.values.size(); ++i) low.values[i] = static_cast<uint32_t>(i);
  for (size_t i = 0; i < high.values.size(); ++i) high.values[i] = static_cast<uint32_t>(~i);
  y.sizes = key0.sizes = key1.sizes = low.sizes = high.sizes = {kRows, kColumns};
  y.strides = {1, kRows};
  key0.strides = {1, 0};
  key1.strides = {0, 0};
  low.strides = {2 * kColumns, 2};
  high.strides = {0, 1};
  ASSERT_EQ(
      run("mydev.threefry2x32", {x.buffer(), y.buffer(), key0.buffer(), key1.buffer(), low.buffer(), high.buffer()}, 2),
      MYDEV_OK);
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t c = 0; c < kColumns; ++c) {
      const uint64_t key = uint64_t{key1.values[0]} << 32 | key0.values[r];
      const Words expected = threefry(key, uint64_t{high.values[c]} << 32 | low.values[(r * kColumns + c) * 2]);
      ASSERT_EQ((Words{x.values[r * kColumns + c], y.values[c * kRows + r]}), expected) << r << ", " << c;
    }
  }
}

TEST_P(RandomBits, ThreefryOfNothingIsNothing) {
  Operand<uint32_t> none({0}, MYDEV_U32);
  EXPECT_EQ(run("mydev.threefry2x32", std::vector(6, none.buffer()), 2), MYDEV_OK);
}

TEST_P(RandomBits, GeneratorsGiveBlockAfterBlock) {
  for (const int64_t count : {0, 1, 7, 512, 5003}) {
    SCOPED_TRACE(count);
    expect_words<uint8_t>({3, 5}, count, MYDEV_U8);
    expect_words<uint16_t>({3, 5, 7}, count, MYDEV_U16);
    expect_words<uint32_t>({0x123456789abcdef0, 0xfffffff0}, count, MYDEV_U32);
    expect_words<uint64_t>({kLast, 5, kLast}, count, MYDEV_U64);
  }
}

TEST_P(RandomBits, TwoElementsAlongTheMiddleHaveTheWordsOfABlock) {
  for (const auto& [outer, size, inner] : {std::array<int64_t, 3>{3, 5, 1}, {2, 7, 300}, {4, 6, 5}, {1, 1, 9}}) {
    SCOPED_TRACE(size);
    Operand<uint64_t> state({2}, MYDEV_U64), advanced({2}, MYDEV_U64);
    state.values = {11, 5};
    Operand<uint16_t> out({outer, size, inner}, MYDEV_U16);
    ASSERT_EQ(run("mydev.rng_bit_generator", {advanced.buffer(), out.buffer(), state.buffer()}, 2,
                  {bool_attribute("threefry", true)}),
              MYDEV_OK);
    const int64_t pairs = (size + 1) / 2;
    for (int64_t i = 0; i < outer * size * inner; ++i) {
      const int64_t row = i / inner, along = row % size;
      const int64_t block = (row / size * pairs + along / 2) * inner + i % inner;
      const Words expected = threefry(11, 5 + static_cast<uint64_t>(block));
      ASSERT_EQ(out.values[static_cast<size_t>(i)], static_cast<uint16_t>(expected[static_cast<size_t>(along % 2)]))
          << i;
    }
    EXPECT_EQ(advanced.values, (std::vector<uint64_t>{11, 5 + static_cast<uint64_t>(outer * pairs * inner)}));
  }
}

TEST_P(RandomBits, TheCounterWrapsRound) {
  expect_words<uint32_t>({9, kLast - 3}, 100, MYDEV_U32);
  expect_words<uint64_t>({9, kLast - 3, 4}, 100, MYDEV_U64);
  expect_words<uint32_t>({9, kLast - 3, kLast}, 5000, MYDEV_U32);
}

TEST_P(RandomBits, AStateHasTwoOrThreeWords) {
  for (const int64_t size : {0, 1, 4}) {
    Operand<uint64_t> state({size}, MYDEV_U64);
    Operand<uint32_t> out({1, 4, 1}, MYDEV_U32);
    EXPECT_EQ(run("mydev.rng_bit_generator", {state.buffer(), out.buffer(), state.buffer()}, 2,
                  {bool_attribute("threefry", true)}),
              MYDEV_INVALID_ARGUMENT);
  }
}

MYDEV_INSTANTIATE_FOR_INSTRUCTION_SETS(RandomBits);

}  // namespace
}  // namespace mydev::kernels
