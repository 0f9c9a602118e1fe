// sort and topk against the standard library's stable sort, in each instruction set: lines of any stride, ties, NaN,
// lengths beyond a chunk.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernel_fixture.h"

namespace mydev::kernels {
namespace {

struct Shape {
  int64_t outer, count, inner;
};
constexpr Shape kShapes[] = {{1, 1, 1}, {3, 17, 4}, {1, 2500, 2}, {40, 64, 1}, {1, 40000, 1}};

template <typename T>
bool before(T a, T b, bool descending) {
  if (a != a || b != b) return descending ? a != a && b == b : a == a && b != b;
  return descending ? a > b : a < b;
}

class SortKernels : public KernelTest {
 protected:
  // `kept`: of each line.
  template <typename T>
  static void check(const char* kernel, mydev_dtype dtype, const Shape& s, int64_t kept, bool descending,
                    bool with_nan) {
    Operand<T> in({s.outer, s.count, s.inner}, dtype), values({s.outer, kept, s.inner}, dtype);
    Operand<int64_t> indices({s.outer, kept, s.inner}, MYDEV_S64);
    in.strides = {1, s.outer, s.outer * s.count};
    in.fill(static_cast<uint32_t>(s.count));
    if (with_nan) in.values[0] = in.values[in.values.size() / 2] = std::numeric_limits<T>::quiet_NaN();
    ASSERT_EQ(run(kernel, {values.buffer(), indices.buffer(), in.buffer()}, 2, {bool_attribute("order", descending)}),
              MYDEV_OK);
    for (int64_t line = 0; line < s.outer * s.inner; ++line) {
      const int64_t o = line / s.inner, i = line % s.inner;
      const auto value = [&](int64_t d) {
        return in.values[static_cast<size_t>(o + d * s.outer + i * s.outer * s.count)];
      };
      std::vector<int64_t> order(static_cast<size_t>(s.count));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](int64_t a, int64_t b) { return before(value(a), value(b), descending); });
      for (int64_t d = 0; d < kept; ++d) {
        const auto at = static_cast<size_t>((o * kept + d) * s.inner + i);
        const T expected = value(order[static_cast<size_t>(d)]);
        if (kernel == std::string("mydev.sort")) {
          ASSERT_EQ(indices.values[at], order[static_cast<size_t>(d)]);
        }
        for (const T actual : {values.values[at], value(indices.values[at])}) {
          ASSERT_TRUE(actual == expected || (actual != actual && expected != expected)) << actual << ", " << expected;
        }
      }
    }
  }
};

TEST_P(SortKernels, SortLinesAndKeepEqualElementsInOrder) {
  for (const Shape& shape : kShapes) {
    for (const bool descending : {false, true}) {
      check<float>("mydev.sort", MYDEV_F32, shape, shape.count, descending, true);
      check<double>("mydev.sort", MYDEV_F64, shape, shape.count, descending, true);
      check<int32_t>("mydev.sort", MYDEV_S32, shape, shape.count, descending, false);
    }
  }
}

TEST_P(SortKernels, FindTheFirst) {
  for (const Shape& shape : kShapes) {
    for (const bool largest : {false, true}) {
      for (const int64_t kept :
           {int64_t{1}, std::min<int64_t>(7, shape.count), std::max<int64_t>(shape.count / 3, 1), shape.count - 1}) {
        check<float>("mydev.sort", MYDEV_F32, shape, kept, largest, true);
        check<float>("mydev.topk", MYDEV_F32, shape, kept, largest, true);
        check<int64_t>("mydev.topk", MYDEV_S64, shape, kept, largest, false);
      }
    }
  }
}

// Most elements differ in bits far below those of the greatest: a line is sorted by some bits, and then by the others.
TEST_P(SortKernels, SortByAllBits) {
  for (const int64_t count : {int64_t{50}, int64_t{3000}, int64_t{40000}}) {
    for (const bool descending : {false, true}) {
      Operand<int64_t> in({1, count, 1}, MYDEV_S64), values({1, count, 1}, MYDEV_S64),
          indices({1, count, 1}, MYDEV_S64);
      for (int64_t i = 0; i < count; ++i) in.values[static_cast<size_t>(i)] = (i * 7919) % (count / 2) - 100;
      in.values[3] = std::numeric_limits<int64_t>::max();
      in.values[5] = std::numeric_limits<int64_t>::min();
      in.values[7] = int64_t{1} << 40;
      std::vector<int64_t> order(static_cast<size_t>(count));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return before(in.values[static_cast<size_t>(a)], in.values[static_cast<size_t>(b)], descending);
      });
      ASSERT_EQ(run("mydev.sort", {values.buffer(), indices.buffer(), in.buffer()}, 2,
                    {bool_attribute("descending", descending)}),
                MYDEV_OK);
      ASSERT_EQ(indices.values, order);
    }
  }
}

// Zeros of both signs are equal, and so are all NaN: each keeps its bits and its place among its like.
TEST_P(SortKernels, KeepBits) {
  const std::vector<uint32_t> bits = {0x80000000, 0,          0xFFC00001, 0x3F800000,
                                      0x7FC00002, 0x80000000, 0xFF800000, 0x7F800000};
  const std::vector<int64_t> ascending = {6, 0, 1, 5, 3, 7, 2, 4}, descending = {2, 4, 7, 3, 0, 1, 5, 6};
  for (const bool down : {false, true}) {
    Operand<uint32_t> in({1, 8, 1}, MYDEV_F32), values({1, 8, 1}, MYDEV_F32);
    Operand<int64_t> indices({1, 8, 1}, MYDEV_S64);
    in.values = bits;
    ASSERT_EQ(
        run("mydev.sort", {values.buffer(), indices.buffer(), in.buffer()}, 2, {bool_attribute("descending", down)}),
        MYDEV_OK);
    ASSERT_EQ(indices.values, down ? descending : ascending);
    for (size_t i = 0; i < 8; ++i) ASSERT_EQ(values.values[i], bits[static_cast<size_t>(indices.values[i])]);
  }
}

MYDEV_INSTANTIATE_FOR_INSTRUCTION_SETS(SortKernels);

}  // namespace
}  // namespace mydev::kernels
