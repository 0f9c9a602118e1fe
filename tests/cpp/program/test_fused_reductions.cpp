// Fused steps with reductions and with steps of several dimensions: what goes with what, and what it gives.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/registry/kernel_registry.h"
#include "program/transform/fusible_run.h"
#include "program/transform/fusion.h"
#include "program/transform/reshape.h"
#include "program_fixture.h"
#include "runtime/command/launch.h"

namespace mydev::program {
namespace {

// --- what goes with what ---------------------------------------------------------------------------------------------

TEST(Reshape, FindsTheCoarsestSizesOfBoth) {
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(common_refinement({8192}, {64, 1, 128}), Sizes({64, 128}));
  EXPECT_EQ(common_refinement({4, 6}, {2, 12}), Sizes({2, 2, 6}));
  EXPECT_EQ(common_refinement({}, {1, 1}), Sizes());
  EXPECT_EQ(common_refinement({0, 4}, {0, 1, 4}), Sizes({0, 4}));
  EXPECT_EQ(common_refinement({4, 6}, {6, 4}), std::nullopt);
  EXPECT_EQ(common_refinement({4, 6}, {4, 3}), std::nullopt);
  EXPECT_EQ(common_refinement({0, 4}, {4, 0}), std::nullopt);
}

TEST(Reshape, SplitsAnyStride) {
  Operand view;
  view.kind = Operand::kView;
  view.sizes = {6, 1, 4};
  view.strides = {-10, 77, 0};
  EXPECT_EQ(reshaped(view, {2, 3, 2, 2}).strides, std::vector<int64_t>({-30, -10, 0, 0}));
  view.strides = {8, 77, 2};
  EXPECT_EQ(flattened(view).sizes, std::vector<int64_t>({24}));
  EXPECT_EQ(flattened(view).strides, std::vector<int64_t>({2}));
}

struct Row {
  const char *what, *text;
  size_t steps;  // of the fused program
};
class Fused : public testing::TestWithParam<Row> {};

TEST_P(Fused, IsWhatGoesTogether) {
  const SharedProgram fused = fuse_runs(parsed(GetParam().text));
  EXPECT_EQ(fused->steps().size(), GetParam().steps) << print(*fused);
}

constexpr Row kRows[] = {
    {"OneShapeInOtherDimensions",
     R"(program p(x: f32[64,128], w: f32[128]) -> (y: f32[64,128]) {
  temporary t: f32[8192]
  temporary u: f32[64,128]
  t = launch mydev.exp(x f32[8192])
  u = launch mydev.mul(t f32[64,128], w f32[64,128]{0,1})
  y f32[32,2,128] = launch mydev.neg(u f32[32,2,128])
})",
     1},
    {"SoftmaxInPrimitives",
     R"(program p(x: f32[64,128]) -> (y: f32[64,128]) {
  temporary m: f32[64]
  temporary d: f32[64,128]
  temporary e: f32[8192]
  temporary s: f32[64]
  m f32[64,128]{1,0} = launch mydev.amax(x)
  d = launch mydev.sub(x, m f32[64,128]{1,0}; alpha=1.0)
  e = launch mydev.exp(d f32[8192])
  s f32[64,128]{1,0} = launch mydev.sum(e f32[64,128])
  y = launch mydev.div(e f32[64,128], s f32[64,128]{1,0})
})",
     1},
    {"WhatIsReducedIsAShapeToo",
     R"(program p(x: f32[64,128]) -> (y: f32[64], z: f32[64,128]) {
  temporary s: f32[64]
  s f32[64,128]{1,0} = launch mydev.sum(x)
  y f32[8,8] = launch mydev.mul(s f32[8,8], f32[8,8] 0.5)
  z = launch mydev.sub(x, y f32[64,128]{1,0}; alpha=1.0)
})",
     1},
    {"SeveralLastDimensions",
     R"(program p(x: f32[16,4,8]) -> (y: f32[16]) {
  temporary t: f32[512]
  t = launch mydev.exp(x f32[512])
  y f32[16,4,8]{1,0,0} = launch mydev.sum(t f32[16,4,8])
})",
     1},
    {"AllOfLittle",
     R"(program p(x: f32[16,8]) -> (y: f32[]) {
  temporary t: f32[128]
  t = launch mydev.exp(x f32[128])
  y f32[16,8]{0,0} = launch mydev.mean(t f32[16,8])
})",
     1},
    {"VarianceWithoutItsMean",
     R"(program p(x: f32[16,8]) -> (y: f32[16]) {
  temporary v: f32[16]
  v f32[16,8]{1,0}, none = launch mydev.variance(x; correction=1.0, take_root=false)
  y = launch mydev.sqrt(v)
})",
     1},
    {"NotOtherDimensions",
     R"(program p(x: f32[16,16,4]) -> (y: f32[16]) {
  temporary t: f32[16,16]
  t f32[16,16,4]{16,1,0} = launch mydev.sum(x)
  y f32[16,16]{1,0} = launch mydev.sum(t)
})",
     2},
    {"NotTheFirstDimensions",
     R"(program p(x: f32[16,64]) -> (y: f32[64]) {
  temporary t: f32[16,64]
  t = launch mydev.exp(x)
  y f32[16,64]{0,1} = launch mydev.sum(t)
})",
     2},
    {"NotFewLongRows",
     R"(program p(x: f32[8,4096]) -> (y: f32[8]) {
  temporary t: f32[8,4096]
  t = launch mydev.exp(x)
  y f32[8,4096]{1,0} = launch mydev.sum(t)
})",
     2},
    {"NotRowsThatNoCacheHolds",
     R"(program p(x: f32[16,32768]) -> (y: f32[16]) {
  temporary t: f32[16,32768]
  t = launch mydev.exp(x)
  y f32[16,32768]{1,0} = launch mydev.sum(t)
})",
     2},
    {"NotRowsWithGaps",
     R"(program p(x: f32[64,16]) -> (y: f32[16], z: f32[16]) {
  y f32[16,64]{1,0} = launch mydev.sum(x f32[16,64]{1,16})
  z = launch mydev.exp(y)
})",
     2},
    {"NotPositions",
     R"(program p(x: f32[16,8]) -> (i: s64[16], j: s64[16]) {
  none, i s64[16,8]{1,0} = launch mydev.max_with_index(x)
  j = launch mydev.neg(i)
})",
     2},
    {"NotWhatIsReadOtherwiseThanReduced",
     R"(program p(x: f32[16,16]) -> (z: f32[16,16]) {
  temporary s: f32[16]
  s f32[16,16]{1,0} = launch mydev.sum(x)
  z = launch mydev.sub(x, s f32[16,16]{0,1}; alpha=1.0)
})",
     2},
};
INSTANTIATE_TEST_SUITE_P(Program, Fused, testing::ValuesIn(kRows),
                         [](const auto& info) { return std::string(info.param.what); });

TEST(FusedReductions, AreOneLaunch) {
  if (resolve_kernel(device(0), "mydev.fused") == nullptr) GTEST_SKIP() << "needs the kernel mydev.fused";
  const SharedProgram program = fuse_runs(parsed(kRows[1].text));
  Executor executor = executor_of(program);
  EXPECT_EQ(executor.plan().arena_bytes, 0U);
  const Floats x(std::vector<float>(8192, 1)), y(std::vector<float>(8192, 0));
  const uint64_t before = launch_count();
  executor.run(default_stream(0), std::vector{x.binding()}, std::vector{y.binding()});
  EXPECT_EQ(y.read(), std::vector<float>(8192, 1.0F / 128));
  EXPECT_EQ(launch_count() - before, 1U);
}

TEST(FusedReductions, GiveTheSameForResultsBeyondTheCaches) {
  if (resolve_kernel(device(0), "mydev.fused") == nullptr) GTEST_SKIP() << "needs the kernel mydev.fused";
  const SharedProgram program = parsed(R"(program p(x: f32[2100,1024]) -> (y: f32[2100,1024]) {
  temporary m: f32[2100]
  temporary d: f32[2100,1024]
  temporary e: f32[2100,1024]
  temporary s: f32[2100]
  m f32[2100,1024]{1,0} = launch mydev.amax(x)
  d = launch mydev.sub(x, m f32[2100,1024]{1,0}; alpha=1.0)
  e = launch mydev.exp(d)
  s f32[2100,1024]{1,0} = launch mydev.sum(e)
  y = launch mydev.div(e, s f32[2100,1024]{1,0})
})");
  constexpr size_t kCount = size_t{2100} * 1024;
  std::vector<float> x(kCount);
  for (size_t i = 0; i < kCount; ++i) x[i] = static_cast<float>(i * 7919 % 1000) / 250 - 2;
  expect_same_values(run_once(fuse_runs(program), {x}, kCount), run_once(program, {x}, kCount));
}

TEST(FusedReductions, GiveAVarianceWithoutItsMean) {
  if (resolve_kernel(device(0), "mydev.fused") == nullptr) GTEST_SKIP() << "needs the kernel mydev.fused";
  const SharedProgram program = parsed(R"(program p(x: f32[40,24]) -> (y: f32[40]) {
  temporary v: f32[40]
  v f32[40,24]{1,0}, none = launch mydev.variance(x; correction=0.0, take_root=false)
  y = launch mydev.rsqrt(v)
})");
  std::vector<float> x(size_t{40} * 24);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 1000) / 250 - 2;
  expect_same_values(run_once(fuse_runs(program), {x}, 40), run_once(program, {x}, 40));
}

class FusedRows : public testing::TestWithParam<int64_t> {};

TEST_P(FusedRows, GiveTheSameAtEachLength) {
  if (resolve_kernel(device(0), "mydev.fused") == nullptr) GTEST_SKIP() << "needs the kernel mydev.fused";
  const std::string n = std::to_string(GetParam()), whole = "f32[37," + n + "]", rows = whole + "{1,0}";
  const SharedProgram program = parsed("program p(x: " + whole + ") -> (y: " + whole + R"() {
  temporary m: f32[37]
  temporary c: )" + whole + R"(
  temporary q: )" + whole + R"(
  temporary v: f32[37]
  temporary e: )" + whole + R"(
  temporary s: f32[37]
  m )" + rows + R"( = launch mydev.mean(x)
  c = launch mydev.sub(x, m )" + rows + R"(; alpha=1.0)
  q = launch mydev.mul(c, c)
  v )" + rows + R"( = launch mydev.mean(q)
  c = launch mydev.div(c, v )" + rows + R"()
  q = launch mydev.mul(c, )" + whole + R"( 0.125)
  e = launch mydev.exp(q)
  s )" + rows + R"( = launch mydev.sum(e)
  c = launch mydev.mul(e, q)
  y = launch mydev.div(c, s )" + rows + R"()
})");
  std::vector<float> x(static_cast<size_t>(37 * GetParam()));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 1000) / 250 - 2;
  expect_same_values(run_once(fuse_runs(program), {x}, x.size()), run_once(program, {x}, x.size()));
}
INSTANTIATE_TEST_SUITE_P(Program, FusedRows, testing::Values(63, 64, 65, 100, 255, 1000, 1023, 1024, 1025, 3000));

}  // namespace
}  // namespace mydev::program
