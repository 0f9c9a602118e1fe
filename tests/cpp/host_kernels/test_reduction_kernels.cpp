// The reduction kernels against reference loops in double, over the ways in which dimensions can lie in memory.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel_fixture.h"

namespace mydev::kernels {
namespace {

using ReductionKernels = KernelTest;

// Sizes, the input's strides, and which dimensions are reduced.
struct Layout {
  std::vector<int64_t> sizes, strides;
  std::vector<bool> reduced;
};
const Layout kLayouts[] = {
    {{7}, {1}, {true}},
    {{5000}, {3}, {true}},
    {{40, 300}, {300, 1}, {false, true}},
    {{300, 40}, {40, 1}, {true, false}},
    {{300, 2}, {2, 1}, {true, false}},
    {{9, 700, 5}, {3500, 5, 1}, {true, false, true}},
    {{9, 70, 50}, {1, 9, 630}, {false, true, false}},
    {{3, 4, 5, 6}, {120, 30, 6, 1}, {false, false, false, false}},
    {{200000}, {1}, {true}},
    {{3, 60000}, {60000, 1}, {false, true}},
    {{60000, 3}, {3, 1}, {true, false}},
};

struct Case {
  Operand<float> in, out;
  std::vector<int64_t> out_strides;

  explicit Case(const Layout& layout) : in(layout.sizes, MYDEV_F32), out(outer_sizes(layout), MYDEV_F32) {
    in.strides = layout.strides;
    int64_t last = 0;
    for (size_t d = 0; d < layout.sizes.size(); ++d) last += (layout.sizes[d] - 1) * layout.strides[d];
    in.values.resize(static_cast<size_t>(last + 1));
    in.fill(11);
    for (size_t d = 0; d < layout.sizes.size(); ++d) out_strides.push_back(layout.reduced[d] ? 0 : out.strides[d]);
  }
  static std::vector<int64_t> outer_sizes(const Layout& layout) {
    std::vector<int64_t> sizes = layout.sizes;
    for (size_t d = 0; d < sizes.size(); ++d) sizes[d] = layout.reduced[d] ? 1 : sizes[d];
    return sizes;
  }
  mydev_buffer out_buffer() {
    return {out.values.data(), in.sizes.data(), out_strides.data(), static_cast<int32_t>(in.sizes.size()), MYDEV_F32};
  }
  // Calls body(position in out, element, index along the reduced dimensions) for every element, in order.
  template <typename Body>
  void for_each(const Body& body) const {
    int64_t total = 1;
    for (const int64_t size : in.sizes) total *= size;
    for (int64_t i = 0; i < total; ++i) {
      int64_t rest = i, from = 0, to = 0;
      for (size_t d = in.sizes.size(); d-- > 0;) {
        from += rest % in.sizes[d] * in.strides[d];
        to += rest % in.sizes[d] * out_strides[d];
        rest /= in.sizes[d];
      }
      body(static_cast<size_t>(to), static_cast<double>(in.values[static_cast<size_t>(from)]));
    }
  }
};

struct Operation {
  const char* kernel;
  double identity;
  double (*combine)(double, double);
  double (*finish)(double, double count);
};
const Operation kOperations[] = {
    {"mydev.sum", 0, [](double a, double b) { return a + b; }, [](double a, double) { return a; }},
    {"mydev.mean", 0, [](double a, double b) { return a + b; }, [](double a, double n) { return a / n; }},
    {"mydev.amax", -1e9, [](double a, double b) { return std::max(a, b); }, [](double a, double) { return a; }},
    {"mydev.amin", 1e9, [](double a, double b) { return std::min(a, b); }, [](double a, double) { return a; }},
    {"mydev.norm1", 0, [](double a, double b) { return a + std::abs(b); }, [](double a, double) { return a; }},
    {"mydev.norm2", 0, [](double a, double b) { return a + b * b; }, [](double a, double) { return std::sqrt(a); }},
    {"mydev.norm_inf", 0, [](double a, double b) { return std::max(a, std::abs(b)); },
     [](double a, double) { return a; }},
};

TEST_P(ReductionKernels, AgreeWithALoopInEveryLayout) {
  for (const Layout& layout : kLayouts) {
    for (const Operation& operation : kOperations) {
      Case c(layout);
      SCOPED_TRACE(std::string(operation.kernel) + ", layout " + std::to_string(&layout - kLayouts));
      std::vector<double> expected(c.out.values.size(), operation.identity), count(expected.size(), 0);
      c.for_each([&](size_t to, double x) {
        expected[to] = operation.combine(expected[to], x);
        count[to] += 1;
      });
      ASSERT_EQ(run(operation.kernel, {c.out_buffer(), c.in.buffer()}, 1), MYDEV_OK);
      for (size_t i = 0; i < expected.size(); ++i) {
        const double value = operation.finish(expected[i], count[i]);
        ASSERT_NEAR(c.out.values[i], value, 1e-6 * std::max(1.0, std::abs(value))) << i;
      }
    }
  }
}

TEST_P(ReductionKernels, NanWinsAnywhere) {
  for (const char* kernel : {"mydev.amax", "mydev.amin", "mydev.sum"}) {
    for (const int64_t where : {0, 63, 64, 999}) {
      Operand<float> in({1000}, MYDEV_F32), out({1}, MYDEV_F32);
      in.fill(1).values[static_cast<size_t>(where)] = std::numeric_limits<float>::quiet_NaN();
      out.strides = {0};
      out.sizes = {1000};
      ASSERT_EQ(run(kernel, {out.buffer(), in.buffer()}, 1), MYDEV_OK);
      EXPECT_TRUE(std::isnan(out.values[0])) << kernel << " at " << where;
    }
  }
}

TEST_P(ReductionKernels, ReducingNothingGivesTheIdentity) {
  Operand<float> in({0, 3}, MYDEV_F32), out({1, 3}, MYDEV_F32);
  const std::vector<int64_t> strides = {0, 1};
  out.fill(1);
  const mydev_buffer buffer{out.values.data(), in.sizes.data(), strides.data(), 2, MYDEV_F32};
  ASSERT_EQ(run("mydev.sum", {buffer, in.buffer()}, 1), MYDEV_OK);
  EXPECT_EQ(out.values, (std::vector<float>{0, 0, 0}));
  ASSERT_EQ(run("mydev.prod", {buffer, in.buffer()}, 1), MYDEV_OK);
  EXPECT_EQ(out.values, (std::vector<float>{1, 1, 1}));
}

TEST_P(ReductionKernels, IntegersAreExactAndMayWrap) {
  Operand<int64_t> in({3}, MYDEV_S64), out({1}, MYDEV_S64);
  in.values = {std::numeric_limits<int64_t>::max(), 5, -7};
  out.sizes = {3};
  out.strides = {0};
  ASSERT_EQ(run("mydev.sum", {out.buffer(), in.buffer()}, 1), MYDEV_OK);
  EXPECT_EQ(out.values[0], std::numeric_limits<int64_t>::max() - 2);
}

TEST_P(ReductionKernels, TheFirstOfEqualExtremaCounts) {
  Operand<float> in({5000}, MYDEV_F32), value({1}, MYDEV_F32);
  Operand<int64_t> index({1}, MYDEV_S64);
  in.values[1500] = in.values[4000] = 2;
  value.sizes = index.sizes = {5000};
  value.strides = index.strides = {0};
  ASSERT_EQ(run("mydev.max_with_index", {value.buffer(), index.buffer(), in.buffer()}, 2), MYDEV_OK);
  EXPECT_EQ(value.values[0], 2);
  EXPECT_EQ(index.values[0], 1500);
  in.values[3000] = std::numeric_limits<float>::quiet_NaN();
  ASSERT_EQ(run("mydev.min_with_index", {absent_operand(MYDEV_F32), index.buffer(), in.buffer()}, 2), MYDEV_OK);
  EXPECT_EQ(index.values[0], 3000);
}

TEST_P(ReductionKernels, ComplexIsNotForThem) {
  Operand<double> in({4}, MYDEV_C64), out({1}, MYDEV_C64);
  out.sizes = {4};
  out.strides = {0};
  EXPECT_EQ(run("mydev.sum", {out.buffer(), in.buffer()}, 1), MYDEV_UNIMPLEMENTED);
}

MYDEV_INSTANTIATE_FOR_INSTRUCTION_SETS(ReductionKernels);

}  // namespace
}  // namespace mydev::kernels
