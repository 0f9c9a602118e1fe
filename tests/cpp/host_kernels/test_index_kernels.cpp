// Kernels that read and write where indices say, and those that go along one dimension, against plain loops.
#include <algorithm>
#include <array>
#include <complex>
#include <cstdint>
#include <numeric>
#include <string>

#include "kernel_fixture.h"

namespace mydev::kernels {
namespace {

using IndexKernels = KernelTest;

uint32_t next(uint32_t& seed) {
  seed = seed * 1664525U + 1013904223U;
  return seed >> 8;
}

Operand<int64_t> indices(std::vector<int64_t> sizes, int64_t limit, uint32_t seed = 5) {
  Operand<int64_t> index(std::move(sizes), MYDEV_S64);
  for (int64_t& value : index.values) value = static_cast<int64_t>(next(seed)) % limit;
  return index;
}

struct RowCase {
  int64_t outer, places, inner, count;
};
// The last two are shared by threads, in either way.
constexpr RowCase kRowCases[] = {{1, 5, 3, 7}, {2, 4, 1, 9}, {1, 3, 2, 0}, {1, 300, 5, 40000}, {64, 7, 3, 500}};

// --- rows ------------------------------------------------------------------------------------------------------------

TEST_P(IndexKernels, AddRowsInTheOrderOfIndices) {
  for (const RowCase& shape : kRowCases) {
    Operand<float> out({shape.outer, shape.places, shape.inner}, MYDEV_F32);
    Operand<float> rows({shape.outer, shape.count, shape.inner}, MYDEV_F32);
    Operand<int64_t> index = indices({shape.count}, shape.places);
    out.fill(1);
    rows.fill(2);
    std::vector<float> expected = out.values;
    for (int64_t o = 0; o < shape.outer; ++o) {
      for (int64_t n = 0; n < shape.count; ++n) {
        for (int64_t i = 0; i < shape.inner; ++i) {
          const int64_t to = (o * shape.places + index.values[static_cast<size_t>(n)]) * shape.inner + i;
          expected[static_cast<size_t>(to)] +=
              rows.values[static_cast<size_t>((o * shape.count + n) * shape.inner + i)];
        }
      }
    }
    ASSERT_EQ(run("mydev.index_add", {out.buffer(), index.buffer(), rows.buffer()}, 1), MYDEV_OK);
    EXPECT_EQ(out.values, expected);
  }
}

TEST_P(IndexKernels, AddRowsOfComplexNumbers) {
  using Complex = std::complex<float>;
  Operand<Complex> out({2, 3, 2}, MYDEV_C64), rows({2, 4, 2}, MYDEV_C64);
  Operand<int64_t> index = indices({4}, 3);
  float value = 0;
  for (Complex& row : rows.values) {
    value += 1;
    row = {value, -value};
  }
  std::vector<Complex> expected(out.values.size());
  for (size_t o = 0; o < 2; ++o) {
    for (size_t n = 0; n < 4; ++n) {
      for (size_t i = 0; i < 2; ++i) {
        expected[(o * 3 + static_cast<size_t>(index.values[n])) * 2 + i] += rows.values[(o * 4 + n) * 2 + i];
      }
    }
  }
  ASSERT_EQ(run("mydev.index_add", {out.buffer(), index.buffer(), rows.buffer()}, 1), MYDEV_OK);
  EXPECT_EQ(out.values, expected);
}

TEST_P(IndexKernels, HalfPrecisionIsAddedInFloat) {
  constexpr uint16_t kOne = 0x3F80, kThousand = 0x447A;  // of bf16; 256 + 1 is 256 there
  Operand<uint16_t> out({1, 1, 1}, MYDEV_BF16), rows({1, 1000, 1}, MYDEV_BF16), weight({1, 1}, MYDEV_BF16);
  Operand<uint16_t> grads({1000, 1}, MYDEV_BF16);
  Operand<int64_t> index({1000}, MYDEV_S64);
  std::fill(rows.values.begin(), rows.values.end(), kOne);
  grads.values = rows.values;
  ASSERT_EQ(run("mydev.index_add", {out.buffer(), index.buffer(), rows.buffer()}, 1), MYDEV_OK);
  EXPECT_EQ(out.values[0], kThousand);
  const std::vector<mydev_attribute> attributes = {int_attribute("padding_idx", -1),
                                                   bool_attribute("scale_by_frequency", false)};
  ASSERT_EQ(run("mydev.embedding_backward", {weight.buffer(), grads.buffer(), index.buffer()}, 1, attributes),
            MYDEV_OK);
  EXPECT_EQ(weight.values[0], kThousand);
}

TEST_P(IndexKernels, LastOfTheRowsForOnePlaceStays) {
  for (const RowCase& shape : kRowCases) {
    Operand<int32_t> out({shape.outer, shape.places, shape.inner}, MYDEV_S32);
    Operand<int32_t> rows({shape.outer, shape.count, shape.inner}, MYDEV_S32);
    Operand<int64_t> index = indices({shape.count}, shape.places);
    std::iota(rows.values.begin(), rows.values.end(), 1);
    std::vector<int32_t> expected = out.values;
    for (size_t at = 0; at < rows.values.size(); ++at) {
      const auto inner = static_cast<size_t>(shape.inner), row = at / inner;
      const size_t o = row / static_cast<size_t>(shape.count), n = row % static_cast<size_t>(shape.count);
      expected[(o * static_cast<size_t>(shape.places) + static_cast<size_t>(index.values[n])) * inner + at % inner] =
          rows.values[at];
    }
    ASSERT_EQ(run("mydev.index_copy", {out.buffer(), index.buffer(), rows.buffer()}, 1), MYDEV_OK);
    EXPECT_EQ(out.values, expected);
  }
}

TEST_P(IndexKernels, NothingIsWrittenWhereAnIndexIsOutOfRange) {
  for (const char* kernel : {"mydev.index_add", "mydev.index_copy"}) {
    for (const int64_t bad : {int64_t{-1}, int64_t{3}, INT64_MIN, INT64_MAX}) {
      Operand<float> out({1, 3, 2}, MYDEV_F32), rows({1, 2, 2}, MYDEV_F32);
      Operand<int64_t> index({2}, MYDEV_S64);
      index.values = {1, bad};
      rows.fill(2);
      EXPECT_EQ(run(kernel, {out.buffer(), index.buffer(), rows.buffer()}, 1), MYDEV_OUT_OF_RANGE);
      EXPECT_EQ(out.values, std::vector<float>(6));
    }
  }
}

// --- elements --------------------------------------------------------------------------------------------------------

TEST_P(IndexKernels, ScatterAlongAnyDimension) {
  const std::vector<int64_t> shapes[] = {{6, 5, 4}, {30000, 3, 1}, {2, 3, 20000}, {70000, 1, 1}, {1, 1, 70000}};
  for (const auto& sizes : shapes) {
    for (int64_t dim = 0; dim < 3; ++dim) {
      const int64_t limit = 3;
      std::vector<int64_t> kept = sizes;
      kept[static_cast<size_t>(dim)] = limit;
      Operand<double> written(kept, MYDEV_F64), added(kept, MYDEV_F64), src(sizes, MYDEV_F64);
      Operand<int64_t> index = indices(sizes, limit);
      src.fill(3);
      std::vector<double> last = written.values, sums = added.values;
      for (int64_t at = 0; at < static_cast<int64_t>(src.values.size()); ++at) {
        std::vector<int64_t> position = {at / sizes[2] / sizes[1], at / sizes[2] % sizes[1], at % sizes[2]};
        position[static_cast<size_t>(dim)] = index.values[static_cast<size_t>(at)];
        const int64_t to = (position[0] * kept[1] + position[1]) * kept[2] + position[2];
        last[static_cast<size_t>(to)] = src.values[static_cast<size_t>(at)];
        sums[static_cast<size_t>(to)] += src.values[static_cast<size_t>(at)];
      }
      const std::vector<mydev_attribute> attributes = {int_attribute("dim", dim)};
      ASSERT_EQ(run("mydev.scatter", {written.buffer(), index.buffer(), src.buffer()}, 1, attributes), MYDEV_OK);
      ASSERT_EQ(run("mydev.scatter_add", {added.buffer(), index.buffer(), src.buffer()}, 1, attributes), MYDEV_OK);
      EXPECT_EQ(written.values, last);
      EXPECT_EQ(added.values, sums);
    }
  }
}

TEST_P(IndexKernels, ScatterRefusesAnIndexOutOfRange) {
  for (const int64_t bad : {int64_t{-1}, int64_t{3}, INT64_MIN, INT64_MAX}) {
    Operand<float> out({3, 3}, MYDEV_F32), src({1, 3}, MYDEV_F32);
    Operand<int64_t> index({1, 3}, MYDEV_S64);
    index.values = {0, bad, 1};
    for (const int64_t dim : {0, 1}) {
      EXPECT_EQ(run("mydev.scatter", {out.buffer(), index.buffer(), src.buffer()}, 1, {int_attribute("dim", dim)}),
                MYDEV_INVALID_ARGUMENT);
    }
  }
}

// --- positions -------------------------------------------------------------------------------------------------------

TEST_P(IndexKernels, FlatIndexCountsNegativeIndicesFromTheEnd) {
  Operand<int64_t> out({2, 3}, MYDEV_S64), outer({2, 3}, MYDEV_S64);
  Operand<int32_t> index({2, 3}, MYDEV_S32);
  outer.values = {0, 1, 2, 3, 4, 5};
  index.values = {0, -1, 6, -7, 3, 2};
  const std::vector<mydev_attribute> attributes = {int_attribute("size", 7), int_attribute("dim", 1)};
  ASSERT_EQ(run("mydev.flat_index", {out.buffer(), outer.buffer(), index.buffer()}, 1, attributes), MYDEV_OK);
  EXPECT_EQ(out.values, (std::vector<int64_t>{0, 13, 20, 21, 31, 37}));
  const mydev_buffer absent = absent_operand(MYDEV_S64);
  ASSERT_EQ(run("mydev.flat_index", {out.buffer(), absent, index.buffer()}, 1, attributes), MYDEV_OK);
  EXPECT_EQ(out.values, (std::vector<int64_t>{0, 6, 6, 0, 3, 2}));
  for (const int32_t bad : {7, -8, INT32_MIN, INT32_MAX}) {
    index.values[4] = bad;
    EXPECT_EQ(run("mydev.flat_index", {out.buffer(), absent, index.buffer()}, 1, attributes), MYDEV_OUT_OF_RANGE);
  }
}

TEST_P(IndexKernels, NonzeroFindsPlacesInOrder) {
  for (const int64_t count : {1, 100, 16384, 100001}) {
    Operand<float> in({count}, MYDEV_F32);
    uint32_t seed = 7;
    std::vector<int64_t> expected;
    for (int64_t i = 0; i < count; ++i) {
      if (next(seed) % 3 != 0) continue;
      in.values[static_cast<size_t>(i)] = -0.5F;
      expected.push_back(i);
    }
    if (count > 2) in.values[1] = -0.0F;
    std::erase(expected, 1);
    Operand<int64_t> out({static_cast<int64_t>(expected.size()) + 2}, MYDEV_S64);
    expected.insert(expected.end(), 2, count);  // there are fewer
    ASSERT_EQ(run("mydev.nonzero", {out.buffer(), in.buffer()}, 1), MYDEV_OK);
    EXPECT_EQ(out.values, expected);
  }
}

// --- along dimensions ------------------------------------------------------------------------------------------------

TEST_P(IndexKernels, CumulativeSumsAlongAnyDimension) {
  const std::vector<int64_t> shapes[] = {{6, 5, 4}, {30000, 3, 1}, {2, 3, 20000}, {3, 2, 700}, {1, 70000, 1}};
  for (const auto& sizes : shapes) {
    for (int64_t dim = 0; dim < 3; ++dim) {
      Operand<double> in(sizes, MYDEV_F64), out(sizes, MYDEV_F64);
      in.fill(4);
      std::vector<double> expected = in.values;
      const auto stride = static_cast<size_t>(in.strides[static_cast<size_t>(dim)]);
      const auto size = static_cast<size_t>(sizes[static_cast<size_t>(dim)]);
      for (size_t at = 0; at < expected.size(); ++at) {
        if (at / stride % size != 0) expected[at] += expected[at - stride];
      }
      ASSERT_EQ(run("mydev.cumsum", {out.buffer(), in.buffer()}, 1, {int_attribute("dim", dim)}), MYDEV_OK);
      EXPECT_EQ(out.values, expected);
      ASSERT_EQ(run("mydev.cumsum", {in.buffer(), in.buffer()}, 1, {int_attribute("dim", dim)}), MYDEV_OK);
      EXPECT_EQ(in.values, expected);
    }
  }
}

TEST_P(IndexKernels, IntegerSumsAndProductsWrapRound) {
  Operand<int8_t> in({4}, MYDEV_S8), out({4}, MYDEV_S8);
  in.values = {100, 100, -1, 3};
  ASSERT_EQ(run("mydev.cumsum", {out.buffer(), in.buffer()}, 1, {int_attribute("dim", 0)}), MYDEV_OK);
  EXPECT_EQ(out.values, (std::vector<int8_t>{100, -56, -57, -54}));
  ASSERT_EQ(run("mydev.cumprod", {out.buffer(), in.buffer()}, 1, {int_attribute("dim", 0)}), MYDEV_OK);
  EXPECT_EQ(out.values, (std::vector<int8_t>{100, 16, -16, -48}));
}

TEST_P(IndexKernels, LargestAndSmallestUpToEach) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  Operand<float> in({6}, MYDEV_F32), out({6}, MYDEV_F32);
  in.values = {-kInfinity, 2, 1, kInfinity, kNan, 3};
  ASSERT_EQ(run("mydev.cummax", {out.buffer(), in.buffer()}, 1, {int_attribute("dim", 0)}), MYDEV_OK);
  EXPECT_EQ(std::vector<float>(out.values.begin(), out.values.begin() + 4),
            (std::vector<float>{-kInfinity, 2, 2, kInfinity}));
  EXPECT_TRUE(std::isnan(out.values[4]) && std::isnan(out.values[5]));
  in.values = {kInfinity, 2, 3, -kInfinity, 1, kNan};
  ASSERT_EQ(run("mydev.cummin", {out.buffer(), in.buffer()}, 1, {int_attribute("dim", 0)}), MYDEV_OK);
  EXPECT_EQ(std::vector<float>(out.values.begin(), out.values.begin() + 5),
            (std::vector<float>{kInfinity, 2, 2, -kInfinity, -kInfinity}));
  EXPECT_TRUE(std::isnan(out.values[5]));

  Operand<int64_t> integers({4}, MYDEV_S64), result({4}, MYDEV_S64);
  integers.values = {INT64_MIN, -1, INT64_MAX, 0};
  ASSERT_EQ(run("mydev.cummax", {result.buffer(), integers.buffer()}, 1, {int_attribute("dim", 0)}), MYDEV_OK);
  EXPECT_EQ(result.values, (std::vector<int64_t>{INT64_MIN, -1, INT64_MAX, INT64_MAX}));
  integers.values = {INT64_MAX, INT64_MAX - 1, -1, INT64_MIN};
  ASSERT_EQ(run("mydev.cummin", {result.buffer(), integers.buffer()}, 1, {int_attribute("dim", 0)}), MYDEV_OK);
  EXPECT_EQ(result.values, integers.values);
}

TEST_P(IndexKernels, LogarithmsOfSumsOfExponentialsUpToEach) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Operand<double> in({6}, MYDEV_F64), out({6}, MYDEV_F64);
  in.values = {-kInfinity, -kInfinity, 1000, 1000, -1000, 2000};
  ASSERT_EQ(run("mydev.logcumsumexp", {out.buffer(), in.buffer()}, 1, {int_attribute("dim", 0)}), MYDEV_OK);
  const double twice = 1000 + std::log(2.0);
  EXPECT_EQ(out.values, (std::vector<double>{-kInfinity, -kInfinity, 1000, twice, twice, 2000}));
  in.values = {0, kInfinity, 1, kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()};
  ASSERT_EQ(run("mydev.logcumsumexp", {out.buffer(), in.buffer()}, 1, {int_attribute("dim", 0)}), MYDEV_OK);
  EXPECT_EQ(std::vector<double>(out.values.begin(), out.values.begin() + 5),
            (std::vector<double>{0, kInfinity, kInfinity, kInfinity, kInfinity}));
  EXPECT_TRUE(std::isnan(out.values[5]));
  Operand<int32_t> integers({2}, MYDEV_S32);
  EXPECT_EQ(run("mydev.logcumsumexp", {integers.buffer(), integers.buffer()}, 1, {int_attribute("dim", 0)}),
            MYDEV_UNIMPLEMENTED);
}

TEST_P(IndexKernels, TrianglesOfAnyDiagonal) {
  for (const int64_t diagonal : {int64_t{0}, int64_t{1}, int64_t{-1}, int64_t{9}, int64_t{-9}, INT64_MIN, INT64_MAX}) {
    for (const bool upper : {false, true}) {
      Operand<float> in({2, 3, 5}, MYDEV_F32), out({2, 3, 5}, MYDEV_F32);
      in.fill(6);
      std::vector<float> expected = in.values;
      for (int64_t at = 0; at < 30; ++at) {
        const int64_t i = at / 5 % 3, j = at % 5;
        if (upper ? j - i < diagonal : j - i > diagonal) expected[static_cast<size_t>(at)] = 0;
      }
      const std::vector<mydev_attribute> attributes = {int_attribute("diagonal", diagonal),
                                                       bool_attribute("upper", upper)};
      ASSERT_EQ(run("mydev.triangle", {out.buffer(), in.buffer()}, 1, attributes), MYDEV_OK);
      EXPECT_EQ(out.values, expected);
      ASSERT_EQ(run("mydev.triangle", {in.buffer(), in.buffer()}, 1, attributes), MYDEV_OK);
      EXPECT_EQ(in.values, expected);
    }
  }
}

// --- slices ----------------------------------------------------------------------------------------------------------

// Some starts are beyond either end, and two are the same.
constexpr int64_t kStarts[] = {1, -3, 2, 99, 1, 0};

Operand<int32_t> starts() {
  Operand<int32_t> index({6, 1}, MYDEV_S32);
  std::ranges::copy(kStarts, index.values.begin());
  return index;
}

TEST_P(IndexKernels, GatherSlicesThatLieWithin) {
  // Parts of [5, 3, 2] from [5, 4, 3], which lies transposed: along the middle dimension.
  Operand<float> in({5, 4, 3}, MYDEV_F32), out({6, 5, 3, 2}, MYDEV_F32);
  Operand<int32_t> index = starts();
  in.fill(1);
  in.strides = {1, 15, 5};
  const std::array<int64_t, 1> dims = {1};
  ASSERT_EQ(
      run("mydev.gather_slices", {out.buffer(), in.buffer(), index.buffer()}, 1, {int_array_attribute("dims", dims)}),
      MYDEV_OK);
  for (int64_t at = 0; at < 6 * 30; ++at) {
    const int64_t n = at / 30, a = at / 6 % 5, b = at / 2 % 3, c = at % 2;
    const int64_t from = a + (std::clamp<int64_t>(kStarts[n], 0, 1) + b) * 15 + c * 5;
    EXPECT_EQ(out.values[static_cast<size_t>(at)], in.values[static_cast<size_t>(from)]) << at;
  }
}

TEST_P(IndexKernels, ScatterSlicesInOrderAndLeaveOutOrMoveOthers) {
  for (const bool clamp : {false, true}) {
    for (const char* kernel : {"mydev.scatter_slices", "mydev.scatter_slices_add", "mydev.scatter_slices_mul",
                               "mydev.scatter_slices_max", "mydev.scatter_slices_min"}) {
      Operand<float> in({5, 3}, MYDEV_F32), out({5, 3}, MYDEV_F32), values({6, 3, 3}, MYDEV_F32);
      Operand<int32_t> index = starts();
      in.fill(1);
      values.fill(2);
      std::vector<float> expected = in.values;
      for (int64_t at = 0; at < 6 * 9; ++at) {
        int64_t start = kStarts[at / 9];
        if (clamp) start = std::clamp<int64_t>(start, 0, 2);
        if (start < 0 || start > 2) continue;
        float& place = expected[static_cast<size_t>(start * 3 + at % 9)];
        const float value = values.values[static_cast<size_t>(at)];
        const std::string name = kernel;
        place = name.ends_with("add")   ? place + value
                : name.ends_with("mul") ? place * value
                : name.ends_with("max") ? std::max(place, value)
                : name.ends_with("min") ? std::min(place, value)
                                        : value;
      }
      const std::array<int64_t, 1> dims = {0};
      const std::vector<mydev_attribute> attributes = {int_array_attribute("dims", dims),
                                                       bool_attribute("clamp", clamp)};
      ASSERT_EQ(run(kernel, {out.buffer(), in.buffer(), index.buffer(), values.buffer()}, 1, attributes), MYDEV_OK);
      EXPECT_EQ(out.values, expected) << kernel;
      ASSERT_EQ(run(kernel, {in.buffer(), in.buffer(), index.buffer(), values.buffer()}, 1, attributes), MYDEV_OK);
      EXPECT_EQ(in.values, expected) << kernel << " in place";
    }
  }
}

// More than the kernels compute places of at a time; components lie apart, and each is outside now and then.
TEST_P(IndexKernels, ReadAndAddManySingleElements) {
  constexpr int64_t kParts = 1300;
  Operand<double> in({7, 11}, MYDEV_F64), read({kParts, 1, 1}, MYDEV_F64), sums({7, 11}, MYDEV_F64);
  Operand<int64_t> index({kParts, 2}, MYDEV_S64);
  index.strides = {1, kParts};
  in.fill(1);
  for (int64_t i = 0; i < kParts; ++i) {
    index.values[static_cast<size_t>(i)] = i % 9 - 1;
    index.values[static_cast<size_t>(kParts + i)] = i % 13 - 1;
  }
  const std::array<int64_t, 2> dims = {0, 1};
  ASSERT_EQ(
      run("mydev.gather_slices", {read.buffer(), in.buffer(), index.buffer()}, 1, {int_array_attribute("dims", dims)}),
      MYDEV_OK);
  std::vector<double> expected = in.values;
  for (int64_t i = 0; i < kParts; ++i) {
    const int64_t row = i % 9 - 1, column = i % 13 - 1;
    const double value =
        in.values[static_cast<size_t>(std::clamp<int64_t>(row, 0, 6) * 11 + std::clamp<int64_t>(column, 0, 10))];
    EXPECT_EQ(read.values[static_cast<size_t>(i)], value) << i;
    if (row >= 0 && row < 7 && column >= 0 && column < 11) expected[static_cast<size_t>(row * 11 + column)] += value;
  }
  ASSERT_EQ(run("mydev.scatter_slices_add", {sums.buffer(), in.buffer(), index.buffer(), read.buffer()}, 1,
                {int_array_attribute("dims", dims), bool_attribute("clamp", false)}),
            MYDEV_OK);
  EXPECT_EQ(sums.values, expected);
}

// A bit for each component of the index: the first counts from the end where it is negative, the second does not.
TEST_P(IndexKernels, CountNegativeIndicesFromTheEndWhereAsked) {
  const std::vector<int32_t> rows = {-1, -4, -5, 3, 4, 0}, columns = {-1, 0, 1, 2, 3, 1};
  Operand<float> in({4, 3}, MYDEV_F32), read({6, 1, 1}, MYDEV_F32), sums({4, 3}, MYDEV_F32);
  Operand<int32_t> index({6, 2}, MYDEV_S32);
  in.fill(1);
  for (size_t i = 0; i < 6; ++i) {
    index.values[2 * i] = rows[i];
    index.values[2 * i + 1] = columns[i];
  }
  const std::array<int64_t, 2> dims = {0, 1};
  ASSERT_EQ(run("mydev.gather_slices", {read.buffer(), in.buffer(), index.buffer()}, 1,
                {int_array_attribute("dims", dims), int_attribute("from_end", 1)}),
            MYDEV_OK);
  const std::vector<size_t> clamped = {9, 0, 1, 11, 11, 1};
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(read.values[i], in.values[clamped[i]]) << i;
  ASSERT_EQ(run("mydev.scatter_slices_add", {sums.buffer(), in.buffer(), index.buffer(), read.buffer()}, 1,
                {int_array_attribute("dims", dims), bool_attribute("clamp", false), int_attribute("from_end", 1)}),
            MYDEV_OK);
  std::vector<float> expected = in.values;
  for (const size_t i : {1, 3, 5}) expected[clamped[i]] += read.values[i];  // the others lie outside
  EXPECT_EQ(sums.values, expected);
}

// There are so many parts that threads share the places. Sums of one place are in the order of the parts all the same.
TEST_P(IndexKernels, AddManyPartsInOrder) {
  constexpr int64_t kParts = 6000, kRows = 37, kWidth = 41;
  Operand<float> in({kRows, kWidth}, MYDEV_F32), values({kParts, 1, kWidth}, MYDEV_F32);
  Operand<float> sums({kRows, kWidth}, MYDEV_F32);
  Operand<int32_t> index({kParts, 1}, MYDEV_S32);
  in.fill(1);
  values.fill(2);
  for (float& value : values.values) value /= 3;
  for (int64_t i = 0; i < kParts; ++i) index.values[static_cast<size_t>(i)] = static_cast<int32_t>(i * 7 % 40 - 1);
  std::vector<float> expected = in.values;
  for (int64_t at = 0; at < kParts * kWidth; ++at) {
    const int64_t row = index.values[static_cast<size_t>(at / kWidth)];
    if (row < 0 || row >= kRows) continue;
    expected[static_cast<size_t>(row * kWidth + at % kWidth)] += values.values[static_cast<size_t>(at)];
  }
  const std::array<int64_t, 1> dims = {0};
  const std::vector<mydev_attribute> attributes = {int_array_attribute("dims", dims), bool_attribute("clamp", false)};
  ASSERT_EQ(
      run("mydev.scatter_slices_add", {sums.buffer(), in.buffer(), index.buffer(), values.buffer()}, 1, attributes),
      MYDEV_OK);
  EXPECT_EQ(sums.values, expected);
}

TEST_P(IndexKernels, RefuseADimensionOfSlicesTwice) {
  Operand<float> in({4, 3}, MYDEV_F32), out({1, 1, 1}, MYDEV_F32);
  Operand<int32_t> index({1, 2}, MYDEV_S32);
  const std::array<int64_t, 2> dims = {0, 0};
  EXPECT_EQ(
      run("mydev.gather_slices", {out.buffer(), in.buffer(), index.buffer()}, 1, {int_array_attribute("dims", dims)}),
      MYDEV_INVALID_ARGUMENT);
}

TEST_P(IndexKernels, RefuseSlicesLargerThanTheTensor) {
  Operand<float> in({2}, MYDEV_F32), out({1, 3}, MYDEV_F32);
  Operand<int32_t> index({1, 1}, MYDEV_S32);
  const std::array<int64_t, 1> dims = {0};
  EXPECT_EQ(
      run("mydev.gather_slices", {out.buffer(), in.buffer(), index.buffer()}, 1, {int_array_attribute("dims", dims)}),
      MYDEV_INVALID_ARGUMENT);
}

MYDEV_INSTANTIATE_FOR_INSTRUCTION_SETS(IndexKernels);

}  // namespace
}  // namespace mydev::kernels
