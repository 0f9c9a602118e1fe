// Programs that call programs: once, some times, while a byte is not zero, by one; and host calls, and lanes.
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "program_fixture.h"
#include "runtime/driver/device.h"

namespace mydev::program {
namespace {

using Values = std::vector<float>;
using Bytes = std::vector<uint8_t>;

// y += x, through a temporary and a constant of its own, which is 1.
constexpr char kAccumulate[] = R"(program accumulate(donated y: f32[2], x: f32[2]) -> (y) {
  constant one: f32[2] = hex "0000803f0000803f"
  temporary t: f32[2]
  t = launch mydev.mul(x, one)
  y = launch mydev.add(y, t; alpha=1.0)
}
)";
constexpr char kHalve[] = R"(program halve(donated y: f32[2], x: f32[2]) -> (y) {
  y = launch mydev.mul(y, f32[2] 0.5)
}
)";

SharedProgram with_bodies(const std::string& main) {
  return parsed(std::string(kAccumulate) + kHalve + main);
}

// --- calls
// ------------------------------------------------------------------------------------------------------------

TEST(ProgramCall, BindsOperandsAndResultsAtEachCall) {
  const SharedProgram program = parsed(R"(program body(a: f32[2], b: f32[2]) -> (sum: f32[2], difference: f32[2]) {
  sum = launch mydev.add(a, b; alpha=1.0)
  difference = launch mydev.sub(a, b; alpha=1.0)
}
program p(x: f32[4]) -> (y: f32[4]) {
  temporary s: f32[2]
  temporary d: f32[2]
  s, d = call body(x f32[2], x+8 f32[2])
  y f32[2], y+8 f32[2] = call body(s, d)
})");
  EXPECT_EQ(run_once(program, {{1, 2, 30, 40}}, 4), (Values{2, 4, 60, 80}));
}

TEST(ProgramCall, HasConstantsOfACalledProgramOnce) {
  const SharedProgram program = with_bodies(R"(program p(x: f32[2]) -> (y: f32[2]) {
  y = fill hex "00"
  call accumulate(y, x)
  call accumulate(y, x)
})");
  EXPECT_EQ(executor_of(program).constant_bytes(), 8U);
  EXPECT_EQ(run_once(program, {{1, 5}}, 2), (Values{2, 10}));
}

TEST(ProgramCall, LetsAProgramUseWhatItConsumes) {
  const SharedProgram program = parsed(R"(program body(donated a: f32[2]) -> (b: f32[2]) {
  temporary t: f32[2]
  t = launch mydev.exp(a)
  b = launch mydev.exp(t)
}
program p(x: f32[2]) -> (y: f32[2]) {
  temporary t: f32[4]
  t+4 f32[2] = copy x
  y = call body(t+4 f32[2])
})");
  const Values y = run_once(program, {{0, 1}}, 2);
  EXPECT_FLOAT_EQ(y[0], std::exp(1.F));
  EXPECT_FLOAT_EQ(y[1], std::exp(std::exp(1.F)));
}

// --- loops and conditions
// ---------------------------------------------------------------------------------------------

TEST(ProgramLoop, RepeatsItsBody) {
  const SharedProgram program = with_bodies(R"(program p(x: f32[2]) -> (y: f32[2]) {
  y = fill hex "00"
  repeat 10 accumulate(y, x)
  repeat 0 halve(y, x)
})");
  EXPECT_EQ(run_once(program, {{1, 2}}, 2), (Values{10, 20}));
}

TEST(ProgramLoop, MovesOverItsOperands) {
  // Sums so far of the rows of x, from the last row to the first.
  const SharedProgram program =
      parsed(R"(program body(donated sum: f32[2], row: f32[2], donated out: f32[2]) -> (sum, out) {
  sum = launch mydev.add(sum, row; alpha=1.0)
  out = copy sum
}
program p(x: f32[3,2]) -> (sum: f32[2], y: f32[3,2]) {
  sum = fill hex "00"
  y = fill hex "00"
  repeat 3 body(sum, x+16 f32[2] by -8, y f32[2] by 8)
})");
  Executor executor = executor_of(program);
  const Floats x({1, 2, 10, 20, 100, 200}), sum({0, 0}), y(Values(6, 0));
  for (int run = 0; run < 2; ++run) {
    executor.run(default_stream(0), std::vector{x.binding()}, std::vector{sum.binding(), y.binding()});
    EXPECT_EQ(sum.read(), (Values{111, 222}));
    EXPECT_EQ(y.read(), (Values{100, 200, 110, 220, 111, 222}));
  }
}

TEST(ProgramLoop, MovesInLoopsOfLoops) {
  const SharedProgram program = parsed(R"(program add(donated out: f32[1], x: f32[1]) -> (out) {
  out = launch mydev.add(out, x; alpha=1.0)
}
program row(donated out: f32[1], x: f32[3]) -> (out) {
  repeat 3 add(out, x f32[1] by 4)
}
program p(x: f32[2,3]) -> (y: f32[2]) {
  y = fill hex "00"
  repeat 2 row(y f32[1] by 4, x f32[3] by 12)
})");
  EXPECT_EQ(run_once(program, {{1, 2, 3, 10, 20, 30}}, 2), (Values{6, 60}));
}

TEST(ProgramLoop, MayReadWhatAnEarlierRoundHasWritten) {
  const SharedProgram program = parsed(R"(program next(donated a: f32[1], before: f32[1]) -> (a) {
  a = launch mydev.mul(before, f32[1] 2.0)
}
program p(x: f32[1]) -> (y: f32[5]) {
  y = fill hex "00"
  y f32[1] = copy x
  repeat 4 next(y+4 f32[1] by 4, y f32[1] by 4)
})");
  EXPECT_EQ(run_once(program, {{3}}, 5), (Values{3, 6, 12, 24, 48}));
}

TEST(ProgramLoop, GoesOnWhileAByteIsNotZero) {
  // Doubles y until an element exceeds 100.
  const SharedProgram program = parsed(R"(program body(donated y: f32[1], donated go: pred[1]) -> (y, go) {
  y = launch mydev.mul(y, f32[1] 2.0)
  go = launch mydev.lt(y, f32[1] 100.0)
}
program p(x: f32[1], donated go: pred[1]) -> (y: f32[1]) {
  y = copy x
  while go body(y, go)
})");
  Executor executor = executor_of(program);
  const Floats x({3}), y({0});
  DeviceArray<uint8_t> go({1});
  executor.run(default_stream(0), std::vector{x.binding(), go.binding()}, std::vector{y.binding()});
  EXPECT_EQ(y.read(), (Values{192}));
  EXPECT_EQ(go.read(), (Bytes{0}));
  executor.run(default_stream(0), std::vector{x.binding(), go.binding()}, std::vector{y.binding()});
  EXPECT_EQ(y.read(), (Values{3})) << "not once, where the byte is zero at the beginning";
}

class ProgramCondition : public testing::TestWithParam<uint8_t> {};

TEST_P(ProgramCondition, RunsOneOfTwo) {
  Executor executor = executor_of(with_bodies(R"(program p(x: f32[2], which: u8[]) -> (y: f32[2]) {
  y = copy x
  if which then accumulate else halve(y, x)
})"));
  const Floats x({2, 4}), y({0, 0});
  const DeviceArray<uint8_t> which({GetParam()});
  executor.run(default_stream(0), std::vector{x.binding(), which.binding()}, std::vector{y.binding()});
  EXPECT_EQ(y.read(), GetParam() != 0 ? (Values{4, 8}) : (Values{1, 2}));
}

TEST_P(ProgramCondition, MayHaveNothingToRunOtherwise) {
  Executor executor = executor_of(with_bodies(R"(program p(x: f32[2], which: u8[]) -> (y: f32[2]) {
  y = copy x
  if which then accumulate(y, x)
})"));
  const Floats x({2, 4}), y({0, 0});
  const DeviceArray<uint8_t> which({GetParam()});
  executor.run(default_stream(0), std::vector{x.binding(), which.binding()}, std::vector{y.binding()});
  EXPECT_EQ(y.read(), GetParam() != 0 ? (Values{4, 8}) : (Values{2, 4}));
}

INSTANTIATE_TEST_SUITE_P(Bytes, ProgramCondition, testing::Values(0, 1, 255));

// --- host calls
// -------------------------------------------------------------------------------------------------------

TEST(ProgramHostCall, ComesInTheOrderOfTheStream) {
  if (!device(0).host_accessible()) GTEST_SKIP() << "needs memory that the host reaches";
  std::vector<float> seen;
  ProgramBuilder builder("p");
  const SlotIndex x = builder.parameter(MYDEV_F32, {2}, false, "x"), t = builder.temporary(MYDEV_F32, {2}, "t"),
                  y = builder.temporary(MYDEV_F32, {2}, "y");
  builder.returns(y);
  builder.launch("mydev.neg", {builder.view(t)}, {builder.view(x)});
  builder.host_call("look",
                    [&seen](std::span<const mydev_buffer> buffers) {
                      HostAccess access(device(0));
                      const auto* values = static_cast<const float*>(buffers[1].data);
                      seen.assign(values, values + 2);
                      static_cast<float*>(buffers[0].data)[0] = 7;
                    },
                    {builder.view(t)}, {builder.view(t)});
  builder.copy(builder.view(y), builder.view(t));
  EXPECT_EQ(run_once(std::move(builder).build(), {{1, 2}}, 2), (Values{7, -2}));
  EXPECT_EQ(seen, (Values{-1, -2}));
}

TEST(ProgramHostCall, FailsAsTheStepThatItIs) {
  ProgramBuilder builder("p");
  bool fails = true;
  builder.host_call("check", [&fails](auto) { fails ? throw std::runtime_error("it is not so") : void(); }, {}, {});
  Executor executor = executor_of(std::move(builder).build());
  const auto run = [&] {
    executor.run(default_stream(0), {});
    default_stream(0).synchronize();
  };
  const Error error = error_of(run);
  expect_error(error, MYDEV_INTERNAL, "it is not so");
  expect_error(error, MYDEV_INTERNAL, "step 0 of program 'p' (host check)");
  fails = false;
  EXPECT_EQ(error_of(run).code(), MYDEV_OK);
}

TEST(ProgramHostCall, KeepsWhatItOwnsAsLongAsTheProgram) {
  const auto owned = std::make_shared<int>(1);
  {
    ProgramBuilder builder("p");
    builder.host_call("keep", [owned](std::span<const mydev_buffer>) {}, {}, {});
    const SharedProgram program = std::move(builder).build();
    EXPECT_EQ(owned.use_count(), 2);
    executor_of(program).run(default_stream(0), {});
  }
  EXPECT_EQ(owned.use_count(), 1);
}

// --- lanes
// ------------------------------------------------------------------------------------------------------------

TEST(ProgramLanes, RunInTheOrderOfTheSteps) {
  EXPECT_EQ(run_once(parsed(R"(program p(x: f32[2]) -> (y: f32[2]) {
  temporary a: f32[2]
  temporary b: f32[2]
  0: a = launch mydev.neg(x)
  1: b = launch mydev.exp(x) lane 1
  y = launch mydev.mul(a, b) lane 2 after 0, 1
})"),
                     {{0, 1}}, 2),
            (Values{0, -std::exp(1.F)}));
}

}  // namespace
}  // namespace mydev::program
