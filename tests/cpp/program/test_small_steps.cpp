// Steps over a few elements become one launch, whatever their shapes, and compute what the launches compute.
#include "program/transform/small_steps.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/registry/kernel_registry.h"
#include "program/transform/fusion.h"
#include "program_fixture.h"
#include "runtime/command/command_hooks.h"
#include "runtime/command/launch.h"

namespace mydev::program {
namespace {

using Values = std::vector<float>;

Values some_values(size_t count) {
  Values values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 7) - 2.5F + 0.01F * static_cast<float>(i);
  return values;
}

bool has_kernel() {
  return resolve_kernel(device(0), "mydev.small_steps") != nullptr;
}

std::vector<std::string>& launched() {
  static std::vector<std::string> names;
  return names;
}

// Runs the program as it is and with its small steps together, and returns the values of the latter, which are those of
// the former to the bit.
Values expect_same(const SharedProgram& program, const std::vector<Values>& parameters, size_t count) {
  const SharedProgram gathered = fuse(program);
  EXPECT_NE(gathered, program) << "no steps are gathered";
  const Values expected = run_once(program, parameters, count);
  launched().clear();
  const int id = add_command_hook({.submitted = [](void*, const CommandRecord& record) {
    if (record.kind == CommandKind::kLaunch) launched().emplace_back(record.name);
  }});
  const Values values = run_once(gathered, parameters, count);
  remove_command_hook(id);
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(expected[i])) << "element " << i;
  }
  return values;
}

void expect_one_launch() {
  if (!has_kernel()) return;
  EXPECT_EQ(std::ranges::count(launched(), "mydev.small_steps"), 1) << launched().size() << " launches";
  EXPECT_EQ(launched().size(), 1U);
}

// --- which steps
// ------------------------------------------------------------------------------------------------------

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

struct Case {
  const char *what, *text;
  std::vector<size_t> parameters;
  size_t count;
  friend void PrintTo(const Case& value, std::ostream* to) { *to << value.what; }
};
class SmallStepsCompute : public testing::TestWithParam<Case> {};

TEST_P(SmallStepsCompute, WhatTheLaunchesCompute) {
  std::vector<Values> parameters;
  for (const size_t count : GetParam().parameters) parameters.push_back(some_values(count));
  expect_same(parsed(GetParam().text), parameters, GetParam().count);
  expect_one_launch();
}

const Case kCases[] = {
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
    {"NumbersAndConversions",
     R"(program p(x: f32[5]) -> (y: f32[5]) {
  temporary p: pred[5]
  temporary i: s32[5]
  temporary h: f16[5]
  temporary s: s32[]
  p = launch mydev.gt(x, f32[5] 0.0)
  i = launch mydev.copy(p; conj=false, neg=false)
  s s32[5]{0} = launch mydev.sum(i)
  h = launch mydev.copy(x; conj=false, neg=true)
  i = launch mydev.mul(i, s s32[5]{0})
  y = launch mydev.copy(i; conj=false, neg=false)
  y+4 f32[2] = launch mydev.copy(h+4 f16[2]; conj=false, neg=false)
}
)",
     {5},
     5},
    {"FillsCopiesAndConcatenations",
     R"(program p(x: f32[4], w: f32[2]) -> (y: f32[8]) {
  temporary c: f32[6]
  c f32[1,6,1] = launch mydev.concatenate(x f32[1,4,1], w f32[1,2,1])
  y = fill hex "0000803f"
  y+8 f32[3] = copy c f32[3]{2}
  y+24 f32[2]{1} = launch mydev.mul(y+24 f32[2], w)
}
)",
     {4, 2},
     8},
    {"ReductionsOfRows",
     R"(program p(x: f32[4,3]) -> (y: f32[32]) {
  temporary n: f32[4,3]
  n = launch mydev.log(x)
  y f32[4,3]{1,0} = launch mydev.sum(x)
  y+16 f32[4,3]{1,0} = launch mydev.amax(n)
  y+32 f32[4,3]{1,0} = launch mydev.amin(n)
  y+48 f32[4,3]{1,0} = launch mydev.prod(x)
  y+64 f32[4,3]{1,0} = launch mydev.mean(x)
  y+80 f32[4,3]{0,0} = launch mydev.norm2(x)
  y+84 f32[4,3]{0,0} = launch mydev.norm1(x)
  y+88 f32[4,3]{0,0} = launch mydev.norm_inf(n)
  y+92 f32[1,1]{0,0} = launch mydev.amax(x+4 f32[1,1])
  y+96 f32[4,2]{1,0} = launch mydev.sum(x f32[4,2]{3,1})
  y+112 f32[3,4]{1,0} = launch mydev.amin(x f32[3,4]{1,3})
  y+124 f32[5]{0} = launch mydev.prod(x f32[5]{0})
}
)",
     {12},
     32},
    {"ReductionsOfWholeNumbersAndTruths",
     R"(program p(x: f32[2,3]) -> (y: f32[11]) {
  temporary i: s32[2,3]
  temporary l: s64[2,3]
  temporary p: pred[2,3]
  temporary si: s32[2]
  temporary sl: s64[4]
  temporary sp: pred[5]
  i = launch mydev.copy(x; conj=false, neg=false)
  l = launch mydev.copy(i; conj=false, neg=false)
  p = launch mydev.gt(x, f32[2,3] -1.0)
  si s32[2,3]{1,0} = launch mydev.amax(i)
  sl s64[2,3]{1,0} = launch mydev.sum(l)
  sl+16 s64[2,3]{1,0} = launch mydev.amin(l)
  sp pred[2,3]{1,0} = launch mydev.any(p)
  sp+2 pred[2,3]{1,0} = launch mydev.all(p)
  sp+4 pred[2,3]{0,0} = launch mydev.all(p)
  y f32[2] = launch mydev.copy(si; conj=false, neg=false)
  y+8 f32[4] = launch mydev.copy(sl; conj=false, neg=false)
  y+24 f32[5] = launch mydev.copy(sp; conj=false, neg=false)
}
)",
     {6},
     11},
    {"TruthsAreCombined",
     R"(program p(x: f32[6], w: f32[6]) -> (y: f32[30]) {
  temporary a: pred[6]
  temporary b: pred[6]
  temporary c: pred[30]
  a = launch mydev.gt(x, f32[6] 0.0)
  b = launch mydev.lt(w, f32[6] 0.0)
  c pred[6] = launch mydev.bitwise_and(a, b)
  c+6 pred[6] = launch mydev.bitwise_or(a, b)
  c+12 pred[6] = launch mydev.bitwise_xor(a, pred[6] 1)
  c+18 pred[6] = launch mydev.bitwise_not(b)
  c+24 pred[6] = launch mydev.where(a, b, c pred[6])
  y = launch mydev.copy(c; conj=false, neg=false)
}
)",
     {6, 6},
     30},
    {"ConcatenationsInTheMiddleAndOfNothing",
     R"(program p(x: f32[2,2,2], w: f32[2,1,2]) -> (y: f32[2,5,2]) {
  temporary s: f32[1]
  temporary c: f32[3]
  s = launch mydev.mul(x f32[1], w f32[1])
  c f32[1,3,1] = launch mydev.concatenate(s f32[1,1,1], x f32[1,0,1], s f32[1,1,1], w f32[1,1,1])
  y = launch mydev.concatenate(x, w, w f32[2,0,2]{0,2,1}, x)
  y f32[3] = launch mydev.add(c, y f32[3]; alpha=1.0)
}
)",
     {8, 4},
     20},
    {"SumsOfScaledValues",
     R"(program p(x: f32[3,3], w: f32[9]) -> (y: f32[24]) {
  y f32[9] = launch mydev.add(x f32[9], w; alpha=0.3)
  y+36 f32[3] = launch mydev.sub(x f32[3], w+12 f32[3]; alpha=1.7)
  y+48 f32[1] = launch mydev.add(x f32[1], w+32 f32[1]; alpha=-2.1)
  y+52 f32[9] = launch mydev.sub(x f32[9], w; alpha=0.1)
  y+88 f32[2] = launch mydev.sub(x f32[2], w+4 f32[2]{0}; alpha=0.7)
}
)",
     {9, 9},
     24},
    {"ReductionsOfFewAndOfZeros",
     R"(program p(x: f32[8]) -> (y: f32[11]) {
  temporary d: f64[8]
  temporary e: f64[4]
  temporary z: f32[8]
  d = launch mydev.copy(x; conj=false, neg=false)
  z = launch mydev.mul(x, f32[8] 0.0)
  y f32[8]{0} = launch mydev.sum(x)
  y+4 f32[7]{0} = launch mydev.sum(x+4 f32[7])
  y+8 f32[5]{0} = launch mydev.amax(x f32[5])
  y+12 f32[8]{0} = launch mydev.amin(x)
  y+16 f32[8]{0} = launch mydev.amax(z)
  y+20 f32[7]{0} = launch mydev.amin(z+4 f32[7])
  y+24 f32[2]{0} = launch mydev.sum(z f32[2])
  e f64[8]{0} = launch mydev.sum(d)
  e+8 f64[4]{0} = launch mydev.amax(d f64[4])
  e+16 f64[3]{0} = launch mydev.amin(d+8 f64[3])
  e+24 f64[3]{0} = launch mydev.sum(d f64[3])
  y+28 f32[4] = launch mydev.copy(e; conj=false, neg=false)
}
)",
     {8},
     11},
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

// Operations that a device may have instructions for, each on numbers of the dtype.
struct Operations {
  const char *dtype, *scale;  // of sums
  std::vector<const char*> of_two, of_one;
};
std::string each_operation(const Operations& operations, int count) {
  const std::string type = std::string(operations.dtype) + "[" + std::to_string(count) + "]";
  const std::string floats = " f32[" + std::to_string(count) + "]", truths = "pred[" + std::to_string(count) + "]";
  std::string temporaries, steps, copies;
  int results = 0;
  const auto add = [&](const std::string& result, const std::string& launch) {
    const std::string name = "r" + std::to_string(results);
    temporaries += "  temporary " + name + ": " + result + "\n";
    steps += "  " + name + " = launch mydev." + launch + "\n";
    copies += "  y+" + std::to_string(4 * count * results++) + floats + " = launch mydev.copy(" + name +
              "; conj=false, neg=false)\n";
  };
  for (const char* sum : {"add", "sub"}) add(type, std::string(sum) + "(a, b; alpha=" + operations.scale + ")");
  for (const char* name : operations.of_two) add(type, std::string(name) + "(a, b)");
  for (const char* name : operations.of_one) add(type, std::string(name) + "(a)");
  for (const char* name : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    add(truths, std::string(name) + "(a, b)");
    add(type, "where(r" + std::to_string(results - 1) + ", a, b)");
  }
  const std::string all = std::to_string(count * results);
  return "program p(x:" + floats + ", w:" + floats + ") -> (y: f32[" + all + "]) {\n  temporary a: " + type +
         "\n  temporary b: " + type + "\n" + temporaries + "  a = launch mydev.copy(x; conj=false, neg=false)\n" +
         "  b = launch mydev.copy(w; conj=false, neg=false)\n" + steps + copies + "}\n";
}
const Operations kOperations[] = {
    {"f32", "1.0", {"mul", "div", "maximum", "minimum"}, {"sqrt", "neg", "abs"}},
    {"f64", "1.0", {"mul", "div", "maximum", "minimum"}, {"sqrt", "neg", "abs"}},
    {"s32", "1", {"mul", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"}, {"neg"}},
    {"s64", "1", {"mul", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"}, {"neg"}}};

class SmallStepsOperations : public testing::TestWithParam<int> {};

TEST_P(SmallStepsOperations, AreThoseOfTheKernels) {
  const auto count = static_cast<size_t>(GetParam());
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Values left = {0, 1.5F, nan, -infinity, -0.0F, nan, 3, infinity, -7.25F},
               right = {-0.0F, -2, 1, infinity, 0, nan, 3, infinity, 1e-40F};
  for (const Operations& operations : kOperations) {
    const bool has_all = operations.dtype[0] == 'f';
    for (size_t first = 0; first + count <= left.size(); ++first) {
      Values x(left.begin() + static_cast<int64_t>(first), left.begin() + static_cast<int64_t>(first + count));
      Values w(right.begin() + static_cast<int64_t>(first), right.begin() + static_cast<int64_t>(first + count));
      const auto is_finite = [](float value) { return std::isfinite(value); };
      if (!has_all && (!std::ranges::all_of(x, is_finite) || !std::ranges::all_of(w, is_finite))) {
        x = some_values(count);
        w = Values(x.rbegin(), x.rend());
      }
      SCOPED_TRACE(std::string(operations.dtype) + " from " + std::to_string(first) + " on");
      const size_t results = 2 + operations.of_two.size() + operations.of_one.size() + 12;
      expect_same(parsed(each_operation(operations, GetParam())), {x, w}, count * results);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(, SmallStepsOperations, testing::Values(1, 3, 7, 9));

// Steps are interpreted where the system refuses memory that runs.
int run_without_executable_memory() {
  constexpr int kSetMdwe = 65, kRefuseExecGain = 1;  // of Linux 6.3
  if (prctl(kSetMdwe, kRefuseExecGain, 0, 0, 0) != 0) return 2;
  for (const Case& each : kCases) {
    std::vector<Values> parameters;
    for (const size_t count : each.parameters) parameters.push_back(some_values(count));
    expect_same(parsed(each.text), parameters, each.count);
  }
  return testing::Test::HasFailure() ? 1 : 0;
}
TEST(SmallStepsDeathTest, AreInterpretedWhereNoMemoryMayRun) {
  constexpr int kGetMdwe = 66;
  if (prctl(kGetMdwe, 0, 0, 0, 0) < 0) GTEST_SKIP() << "needs Linux 6.3, which can refuse memory that runs";
  EXPECT_EXIT(std::exit(run_without_executable_memory()), testing::ExitedWithCode(0), "");
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
  expect_error(error, MYDEV_FAILED_PRECONDITION, "ZeroDivisionError");
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

// --- forms that make no sense
// ------------------------------------------------------------------------------------------

// t = x + 1; y[i] = t[0] + x[i].
constexpr const char* kGood =
    R"(program p(x: f32[2]) -> (y: f32[2]) {
  y = launch mydev.small_steps(x; body="b", memory=[0, 8, 0, 2, 0, 0, 2, 1, 0], constants={}, steps={)"
    R"("mydev.add"={results=1, places=[2, 1, -1], dtypes=[11, 11, 11], offsets=[0, 0, 0], ranks=[1, 1, 1], )"
    R"(sizes=[2, 2, 2], strides=[1, 1, 0], numbers={number=1.0}, attributes={alpha=1.0}}, )"
    R"("repeat"={count=2, moves=[3, 4, 4, 4], end=3}, )"
    R"("mydev.add"={results=1, places=[3, 2, 4], dtypes=[11, 11, 11], offsets=[0, 0, 0], ranks=[1, 1, 1], )"
    R"(sizes=[1, 1, 1], strides=[1, 1, 1], numbers={}, attributes={alpha=1.0}}})
})";

void expect_good() {
  EXPECT_EQ(run_once(parsed(kGood), {{1, 5}}, 2), (Values{3, 7}));
}

struct Mistake {
  const char *name, *from, *to;  // in the text
  mydev_code code;
  const char* message;
};
class SmallForm : public testing::TestWithParam<Mistake> {};

TEST_P(SmallForm, IsRefusedWithWhatIsWrong) {
  if (!has_kernel()) GTEST_SKIP() << "needs the kernel mydev.small_steps";
  std::string text = kGood;
  const size_t at = text.find(GetParam().from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, std::string(GetParam().from).size(), GetParam().to);
  expect_error(error_of([&] { run_once(parsed(text), {{1, 5}}, 2); }), GetParam().code, GetParam().message);
  expect_good();
}

constexpr Mistake kMistakes[] = {
    {"NoMemory", "memory=[0", "others=[0", MYDEV_INVALID_ARGUMENT, "there is no 'memory'"},
    {"MemoryInTwos", "2, 1, 0]", "2, 1]", MYDEV_INVALID_ARGUMENT, "'memory' has 8 numbers"},
    {"MemoryOfNoKind", "2, 1, 0]", "5, 1, 0]", MYDEV_INVALID_ARGUMENT, "place 4 is of kind 5"},
    {"HugeTemporary", "0, 8, 0", "0, 88888888888, 0", MYDEV_INVALID_ARGUMENT, "place 2 has 88888888888 bytes"},
    {"MissingConstant", "0, 8, 0", "1, 8, 0", MYDEV_INVALID_ARGUMENT, "place 2 is constant 0, of 0"},
    {"MovesAlongItself", "2, 1, 0]", "2, 4, 0]", MYDEV_INVALID_ARGUMENT, "place 4 moves along place 4"},
    {"NoSteps", ", steps={", ", others={", MYDEV_INVALID_ARGUMENT, "there is no 'steps'"},
    {"UnknownKernel", "\"mydev.add\"={results=1, places=[2", "\"mydev.ad\"={results=1, places=[2", MYDEV_UNIMPLEMENTED,
     "step 0 of mydev.small_steps (mydev.ad)"},
    {"EndsTooLate", "end=3", "end=4", MYDEV_INVALID_ARGUMENT, "'end' is step 4"},
    {"EndsBeforeItself", "end=3", "end=1", MYDEV_INVALID_ARGUMENT, "'end' is step 1"},
    {"NegativeCount", "count=2", "count=-2", MYDEV_INVALID_ARGUMENT, "repeated -2 times"},
    {"MovesAFixedPlace", "moves=[3, 4, 4, 4]", "moves=[2, 4]", MYDEV_INVALID_ARGUMENT, "place 2 does not move"},
    {"MovingPlaceOutsideItsLoop", "places=[2, 1, -1]", "places=[2, 3, -1]", MYDEV_INVALID_ARGUMENT,
     "place 3 moves in a loop, and is used outside of it"},
    {"MovesAlongWhatMovesElsewhere", "2, 1, 0]", "2, 3, 0]", MYDEV_INVALID_ARGUMENT, "place 3 moves in a loop"},
    {"UnknownPlace", "places=[2, 1, -1]", "places=[9, 1, -1]", MYDEV_INVALID_ARGUMENT, "there is no place 9"},
    {"BeyondTheTemporary", "offsets=[0, 0, 0], ranks=[1, 1, 1], sizes=[2",
     "offsets=[4, 0, 0], ranks=[1, 1, 1], sizes=[2", MYDEV_INVALID_ARGUMENT,
     "operand 0 of f32, 4 bytes into place 2, reaches beyond it"},
    {"BeforeTheBuffer", "offsets=[0, 0, 0], ranks=[1, 1, 1], sizes=[2", "offsets=[0, -4, 0], ranks=[1, 1, 1], sizes=[2",
     MYDEV_INVALID_ARGUMENT, "operand 1 of f32, -4 bytes into place 1, reaches beyond it"},
    {"NegativeSize", "sizes=[2, 2, 2]", "sizes=[-2, 2, 2]", MYDEV_INVALID_ARGUMENT, "a dimension of size -2"},
    {"LargeArray", "sizes=[2, 2, 2]", "sizes=[2, 4611686018427387904, 2]", MYDEV_INVALID_ARGUMENT, "no small array"},
    {"RankBeyondTheSizes", "ranks=[1, 1, 1], sizes=[2", "ranks=[1, 7, 1], sizes=[2", MYDEV_INVALID_ARGUMENT,
     "operand 1 has rank 7"},
    {"SizesTooMany", "sizes=[2, 2, 2], strides=[1, 1, 0]", "sizes=[2, 2, 2, 2], strides=[1, 1, 0, 0]",
     MYDEV_INVALID_ARGUMENT, "there are 4 sizes, of 3 dimensions"},
    {"UnknownDtype", "dtypes=[11, 11, 11]", "dtypes=[11, 99, 11]", MYDEV_INVALID_ARGUMENT, "the dtype 99"},
    {"MissingNumber", "numbers={number=1.0}", "numbers={}", MYDEV_INVALID_ARGUMENT, "operand 2 is no number"},
    {"ShapesThatDoNotFit", "sizes=[1, 1, 1]", "sizes=[1, 2, 1]", MYDEV_INVALID_ARGUMENT,
     "step 2 of mydev.small_steps (mydev.add)"},
    {"AnotherDtypeThanTheKernels", "dtypes=[11, 11, 11]", "dtypes=[11, 4, 11]", MYDEV_INVALID_ARGUMENT,
     "step 0 of mydev.small_steps (mydev.add)"},
};
INSTANTIATE_TEST_SUITE_P(Mistakes, SmallForm, testing::ValuesIn(kMistakes),
                         [](const auto& info) { return std::string(info.param.name); });

// t = x + 1; y[0] = t[0] + x[0]; t[0] = t[0] * 2, by a place that moves along t; y[1] = t[0] + x[1].
TEST(SmallFormText, ReadsWhatAPlaceThatMovesHasWritten) {
  if (!has_kernel()) GTEST_SKIP() << "needs the kernel mydev.small_steps";
  const char* const text =
      R"(program p(x: f32[2]) -> (y: f32[2]) {
  y = launch mydev.small_steps(x; body="b", memory=[0, 8, 0, 2, 2, 0], constants={}, steps={)"
      R"("mydev.add"={results=1, places=[2, 1, -1], dtypes=[11, 11, 11], offsets=[0, 0, 0], ranks=[1, 1, 1], )"
      R"(sizes=[2, 2, 2], strides=[1, 1, 0], numbers={number=1.0}, attributes={alpha=1.0}}, )"
      R"("repeat"={count=1, moves=[3, 4], end=5}, )"
      R"("mydev.add"={results=1, places=[0, 2, 1], dtypes=[11, 11, 11], offsets=[0, 0, 0], ranks=[1, 1, 1], )"
      R"(sizes=[1, 1, 1], strides=[1, 1, 1], numbers={}, attributes={alpha=1.0}}, )"
      R"("mydev.mul"={results=1, places=[3, 3, -1], dtypes=[11, 11, 11], offsets=[0, 0, 0], ranks=[1, 1, 1], )"
      R"(sizes=[1, 1, 1], strides=[1, 1, 0], numbers={number=2.0}, attributes={}}, )"
      R"("mydev.add"={results=1, places=[0, 2, 1], dtypes=[11, 11, 11], offsets=[4, 0, 4], ranks=[1, 1, 1], )"
      R"(sizes=[1, 1, 1], strides=[1, 1, 1], numbers={}, attributes={alpha=1.0}}})
})";
  EXPECT_EQ(run_once(parsed(text), {{1, 5}}, 2), (Values{3, 9}));
}

TEST(SmallFormText, MayBeWrittenAsText) {
  if (!has_kernel()) GTEST_SKIP() << "needs the kernel mydev.small_steps";
  expect_good();
}

}  // namespace
}  // namespace mydev::program
