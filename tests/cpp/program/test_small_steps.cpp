// Steps over a few elements become one launch, whatever their shapes, and compute what the launches compute.
#include "program/transform/small_steps.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "small_steps_fixture.h"

namespace mydev::program {
namespace {

// --- which steps -----------------------------------------------------------------------------------------------------

TEST(SmallSteps, AreGatheredWhateverTheirShapes) {
  const SharedProgram program = parsed(R"(program p(x: f32[6], w: f32[2,3]) -> (y: f32[2]) {
  temporary m: f32[2,3]
  temporary s: f32[2]
  m = launch mydev.mul(x f32[2,3], w)
  s f32[2,3]{1,0} = launch mydev.sum(m)
  y = launch mydev.neg(s f32[2])
}
)");
  const std::string text = print(*fuse(program));
  EXPECT_NE(text.find("fused"), std::string::npos) << text;
}

TEST(SmallSteps, LeaveOneRunToTiles) {
  const SharedProgram program = parsed(R"(program p(x: f32[8]) -> (y: f32[8]) {
  temporary t: f32[8]
  t = launch mydev.exp(x)
  y = launch mydev.neg(t)
}
)");
  EXPECT_EQ(gather_small_steps(program), program);
}

TEST(SmallSteps, LeaveALoopOfOneRunToTiles) {
  const SharedProgram program = parsed(R"(program body(donated y: f32[64], x: f32[64]) -> (y) {
  y = launch mydev.mul(y, x)
  y = launch mydev.neg(y)
}
program p(x: f32[64]) -> (y: f32[64]) {
  y = copy x
  repeat 9 body(y, x)
}
)");
  EXPECT_EQ(gather_small_steps(program), program);
}

TEST(SmallSteps, LeaveLargeOnes) {
  const SharedProgram program = parsed(R"(program p(x: f32[2048]) -> (y: f32[32,64]) {
  temporary t: f32[64,32]
  t = launch mydev.exp(x f32[64,32])
  y = copy t f32[32,64]{1,32}
}
)");
  EXPECT_EQ(gather_small_steps(program), program);
}

// --- values ----------------------------------------------------------------------------------------------------------

class SmallStepsCompute : public testing::TestWithParam<SmallCase> {};

TEST_P(SmallStepsCompute, WhatTheLaunchesCompute) {
  expect_same(GetParam());
  expect_one_launch();
}

const SmallCase kCases[] = {
    {"ViewsWithGapsAndBroadcastOnes",
     R"(program p(x: f32[3,4], w: f32[3]) -> (y: f32[4,3]) {
  temporary t: f32[4,3]
  temporary u: f32[3]
  t = launch mydev.mul(x f32[4,3]{1,4}, w f32[4,3]{0,1})
  u = launch mydev.add(t+4 f32[3], t+8 f32[3]{3}; alpha=2.0)
  y f32[3,4]{1,3} = launch mydev.sub(x, u f32[3,4]{1,0}; alpha=1.0)
}
)",
     {12, 3},
     12},
    {"LoopsAndConditionsInEachOther",
     R"(program add(donated y: f32[3], x: f32[3]) -> (y) {
  y = launch mydev.add(y, x; alpha=1.0)
}
program halve(donated y: f32[3], x: f32[3]) -> (y) {
  y = launch mydev.mul(y, f32[3] 0.5)
}
program never(donated go: pred[]) -> (go) {
  go = launch mydev.bitwise_not(go)
}
program step(donated y: f32[3], donated s: f32[], donated go: pred[], donated no: pred[], x: f32[3]) -> (y, s, go, no) {
  temporary large: pred[]
  repeat 2 add(y, x)
  s f32[3]{0} = launch mydev.amax(y)
  large = launch mydev.gt(s, f32 4.0)
  if large then halve else add(y, x)
  while no never(no)
  go = launch mydev.lt(s, f32 9.5)
}
program p(x: f32[3]) -> (y: f32[4]) {
  temporary go: pred[]
  temporary no: pred[]
  temporary a: f32[3]
  temporary s: f32[]
  a = launch mydev.abs(x)
  y f32[3] = copy a
  s = fill hex "00"
  no = launch mydev.gt(y f32[], f32 1000.0)
  while no never(no)
  go = launch mydev.bitwise_not(no)
  while go step(y f32[3], s, go, no, a)
  y+12 f32[] = copy s
}
)",
     {3},
     4},
    {"LoopsWhoseOperandsMove",
     R"(program row(donated s: f32[], donated out: f32[1], x: f32[3]) -> (s, out) {
  temporary t: f32[]
  t f32[3]{0} = launch mydev.sum(x)
  s = launch mydev.add(s, t; alpha=0.5)
  out = copy s f32[1]
}
program p(x: f32[4,3]) -> (y: f32[4]) {
  temporary s: f32[]
  s = fill hex "00"
  y = fill hex "00"
  repeat 4 row(s, y f32[1] by 4, x f32[3] by 12)
}
)",
     {12},
     4},
    {"LoopsBackwardsInLoops",
     R"(program inner(donated out: f32[1], x: f32[1]) -> (out) {
  out = launch mydev.add(x, out; alpha=1.0)
}
program outer(donated out: f32[1], x: f32[3]) -> (out) {
  temporary t: f32[1]
  repeat 3 inner(out, x+8 f32[1] by -4)
  t = launch mydev.mul(out, f32[1] 0.5)
  out = copy t
}
program p(x: f32[2,3]) -> (y: f32[2]) {
  y = fill hex "00"
  repeat 2 outer(y+4 f32[1] by -4, x f32[3] by 12)
}
)",
     {6},
     2},
    {"ConditionsAndWhileLoops",
     R"(program halve(donated x: f32[], donated go: pred[]) -> (x, go) {
  x = launch mydev.mul(x, f32 0.5)
  go = launch mydev.gt(x, f32 1.0)
}
program grow(donated x: f32[], donated go: pred[]) -> (x, go) {
  constant one: f32[] = hex "0000803f"
  x = launch mydev.add(x, one; alpha=3.0)
  go = launch mydev.lt(x, f32 100.0)
}
program step(donated x: f32[], donated go: pred[], donated n: s32[]) -> (x, go, n) {
  temporary odd: pred[]
  temporary bit: s32[]
  bit = launch mydev.bitwise_and(n, s32 1)
  odd = launch mydev.copy(bit; conj=false, neg=false)
  if odd then grow else halve(x, go)
  n = launch mydev.add(n, s32 1; alpha=1)
  go = launch mydev.lt(n, s32 9)
}
program p(x: f32[]) -> (y: f32[]) {
  temporary go: pred[]
  temporary n: s32[]
  y = copy x
  n = fill hex "00"
  go = fill hex "01"
  while go step(y, go, n)
}
)",
     {1},
     1},
    {"NoElementsAndNoIterations",
     R"(program body(donated y: f32[2]) -> (y) {
  y = launch mydev.add(y, f32[2] 1.0; alpha=1.0)
}
program p(x: f32[2]) -> (y: f32[2]) {
  temporary t: f32[3]
  temporary u: f32[0,3]
  u = launch mydev.neg(x f32[0,3])
  t f32[0,3]{0,1} = launch mydev.sum(u)
  y = launch mydev.add(x, t f32[2]; alpha=1.0)
  repeat 0 body(y)
}
)",
     {2},
     2},
};
INSTANTIATE_TEST_SUITE_P(, SmallStepsCompute, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.what); });

TEST(SmallStepsDeathTest, AreInterpretedWhereNoMemoryMayRun) {
  expect_same_without_executable_memory(kCases);
}

TEST(SmallSteps, PassOnTheFailureOfAKernel) {
  const SharedProgram program = fuse(parsed(R"(program p(x: f32[3]) -> (y: f32[]) {
  temporary i: s32[3]
  temporary q: s32[3]
  temporary s: s32[]
  i = launch mydev.copy(x; conj=false, neg=false)
  q = launch mydev.div_trunc(s32[3] 7, i)
  s s32[3]{0} = launch mydev.sum(q)
  y = launch mydev.copy(s; conj=false, neg=false)
}
)"));
  const Error error = error_of([&] { run_once(program, {{1, 0, 2}}, 1); });
  // A kernel that the driver's compiler made has one error for all numbers in memory that it refuses.
  const bool is_compiled = error.code() == MYDEV_OUT_OF_RANGE;
  expect_error(error, is_compiled ? MYDEV_OUT_OF_RANGE : MYDEV_FAILED_PRECONDITION,
               is_compiled ? "an integer is divided by 0" : "ZeroDivisionError");
  EXPECT_EQ(run_once(program, {{1, 7, 2}}, 1), (Values{11}));
}

// A run of the executor sees other addresses than the run before.
TEST(SmallSteps, RunAgainElsewhere) {
  Executor executor = executor_of(fuse(parsed(R"(program body(donated y: f32[2], x: f32[2]) -> (y) {
  y = launch mydev.add(y, x; alpha=1.0)
}
program p(x: f32[4]) -> (y: f32[2]) {
  y = copy x+8 f32[2]
  repeat 2 body(y, x f32[2] by 8)
}
)")));
  const Floats x({1, 2, 3, 4}), y({0, 0}), z({0, 0}), x2({10, 20, 30, 40});
  executor.run(default_stream(0), std::vector{x.binding()}, std::vector{y.binding()});
  executor.run(default_stream(0), std::vector{x2.binding()}, std::vector{z.binding()});
  EXPECT_EQ(y.read(), (Values{7, 10}));
  EXPECT_EQ(z.read(), (Values{70, 100}));
}

}  // namespace
}  // namespace mydev::program
