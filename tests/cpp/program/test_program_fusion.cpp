// Fused steps: which launches become one, and that tiles compute what the launches compute.
#include "program/transform/fusion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/registry/kernel_registry.h"
#include "program_fixture.h"
#include "runtime/command/command_hooks.h"
#include "runtime/command/launch.h"
#include "runtime/frame/frame.h"

namespace mydev::program {
namespace {

using Values = std::vector<float>;

// --- the pass
// ---------------------------------------------------------------------------------------------------------

struct Passed {
  const char *what, *text, *fused;
};
class Fusion : public testing::TestWithParam<Passed> {};

TEST_P(Fusion, MakesOneStepOfNeighbours) {
  const std::string head = "programs version 1\n\n";
  EXPECT_EQ(print(*fuse_runs(parsed(GetParam().text))), head + GetParam().fused);
}

constexpr Passed kPassed[] = {
    {"WithItsTemporaries",
     R"(program p(x: f32[8], w: f32[8]) -> (y: f32[8]) {
  temporary t: f32[8]
  temporary u: f32[8]
  t = launch mydev.mul(x, w)
  u = launch mydev.add(t, f32[8] 1.5; alpha=2.0)
  y = launch mydev.relu(u)
}
)",
     R"(program p_fused0(x: f32[8], w: f32[8]) -> (y: f32[8]) {
  temporary t: f32[8]
  temporary u: f32[8]
  t = launch mydev.mul(x, w)
  u = launch mydev.add(t, f32[8] 1.5; alpha=2.0)
  y = launch mydev.relu(u)
}

program p(x: f32[8], w: f32[8]) -> (y: f32[8]) {
  y = fused p_fused0(x, w)
}
)"},
    {"WithBroadcastInputsAndSeveralOutputs",
     R"(program p(x: f32[4,2], donated d: f32[4,2]) -> (y: f32[4,2], d) {
  constant b: f32[2] = hex "0000803f00000040"
  temporary t: f32[4,2]
  t = launch mydev.add(x, b f32[4,2]{0,1}; alpha=1.0)
  d = launch mydev.mul(d, t)
  y = launch mydev.matmul(x f32[4,2], t f32[2,2]; alpha=1.0, beta=0.0)
}
)",
     R"(program p_fused0(x: f32[4,2], donated d: f32[4,2], b: f32[2]) -> (d, t: f32[4,2]) {
  t = launch mydev.add(x, b f32[4,2]{0,1}; alpha=1.0)
  d = launch mydev.mul(d, t)
}

program p(x: f32[4,2], donated d: f32[4,2]) -> (y: f32[4,2], d) {
  constant b: f32[2] = hex "0000803f00000040"
  temporary t: f32[4,2]
  t = fused p_fused0(x, d, b)
  y = launch mydev.matmul(x, t f32[2,2]; alpha=1.0, beta=0.0)
}
)"},
    {"NotOfOtherSizes",
     R"(program p(x: f32[8]) -> (y: f32[8], z: f32[4]) {
  y = launch mydev.exp(x)
  z = launch mydev.exp(x f32[4])
}
)",
     R"(program p(x: f32[8]) -> (y: f32[8], z: f32[4]) {
  y = launch mydev.exp(x)
  z = launch mydev.exp(x f32[4])
}
)"},
    {"NotOfWhatIsReadOtherwiseThanWritten",
     R"(program p(x: f32[2,2]) -> (y: f32[2,2], z: f32[2,2]) {
  y = launch mydev.exp(x)
  z = launch mydev.exp(y f32[2,2]{1,2})
}
)",
     R"(program p(x: f32[2,2]) -> (y: f32[2,2], z: f32[2,2]) {
  y = launch mydev.exp(x)
  z = launch mydev.exp(y f32[2,2]{1,2})
}
)"},
    {"InCalledPrograms",
     R"(program body(donated a: f32[2]) -> (a) {
  a = launch mydev.exp(a)
  a = launch mydev.neg(a)
}

program p(donated a: f32[2]) -> (a) {
  call body(a)
}
)",
     R"(program body_fused0(donated a: f32[2]) -> (a) {
  a = launch mydev.exp(a)
  a = launch mydev.neg(a)
}

program body(donated a: f32[2]) -> (a) {
  fused body_fused0(a)
}

program p(donated a: f32[2]) -> (a) {
  call body(a)
}
)"},
    {"ButNotAllOfWhatIsRepeated",
     R"(program body(donated a: f32[2]) -> (a) {
  a = launch mydev.exp(a)
  a = launch mydev.neg(a)
}

program p(donated a: f32[2]) -> (a) {
  repeat 3 body(a)
}
)",
     R"(program body(donated a: f32[2]) -> (a) {
  a = launch mydev.exp(a)
  a = launch mydev.neg(a)
}

program p(donated a: f32[2]) -> (a) {
  repeat 3 body(a)
}
)"},
    {"AndWaitsForItAsAWhole",
     R"(program p(x: f32[2]) -> (y: f32[2], z: f32[2], c: f32[2]) {
  y = launch mydev.exp(x)
  1: z = launch mydev.neg(y)
  2: y = copy x lane 1 after 1
  c = copy y after 1, 2
}
)",
     R"(program p_fused0(x: f32[2]) -> (y: f32[2], z: f32[2]) {
  y = launch mydev.exp(x)
  z = launch mydev.neg(y)
}

program p(x: f32[2]) -> (y: f32[2], z: f32[2], c: f32[2]) {
  0: y, z = fused p_fused0(x)
  1: y = copy x lane 1 after 0
  c = copy y after 0, 1
}
)"},
};
INSTANTIATE_TEST_SUITE_P(Program, Fusion, testing::ValuesIn(kPassed),
                         [](const auto& info) { return std::string(info.param.what); });

// --- tiles
// ------------------------------------------------------------------------------------------------------------

struct Launched {
  Values y, z;
};

Values some_values(size_t count) {
  Values values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i * 7919 % 1000) / 250 - 2;
  return values;
}

bool has_kernels() {
  for (const char* kernel : {"mydev.mul", "mydev.tanh", "mydev.gt", "mydev.where", "mydev.add"}) {
    if (resolve_step(device(0), kernel) == nullptr) return false;
  }
  return true;
}

// Results y and z of a program of three parameters.
Launched run_of(const SharedProgram& program, const std::vector<Values>& parameters) {
  std::vector<std::unique_ptr<Floats>> arrays;
  std::vector<Binding> given;
  for (const Values& values : parameters) given.push_back(arrays.emplace_back(new Floats(values))->binding());
  const size_t count = program->slots()[program->own_results()[0]].bytes() / sizeof(float);
  const Floats y{Values(count, NAN)}, z{Values(count, NAN)};
  Executor executor = executor_of(program);
  executor.run(default_stream(0), given, std::vector{y.binding(), z.binding()});
  return {y.read(), z.read()};
}

struct Shape {
  const char *what, *sizes, *x, *row, *column;  // the views of a matrix, of a row and of a column of it
  size_t elements, row_elements, column_elements;
};
class TiledShapes : public testing::TestWithParam<Shape> {};

TEST_P(TiledShapes, AreComputedAsByLaunches) {
  if (!has_kernels()) GTEST_SKIP() << "needs the kernels of fused programs";
  const Shape& shape = GetParam();
  const std::string sizes = shape.sizes, temporary = "  temporary ";
  const SharedProgram program = parsed(
      "program p(x: f32[" + std::to_string(shape.elements) + "], row: f32[" + std::to_string(shape.row_elements) +
      "], column: f32[" + std::to_string(shape.column_elements) + "]) -> (y: f32" + sizes + ", z: f32" + sizes +
      ") {\n  temporary a: f32" + sizes + "\n  temporary b: pred" + sizes + "\n  a = launch mydev.mul(x " + shape.x +
      ", row " + shape.row + ")\n  b = launch mydev.gt(a, column " + shape.column +
      ")\n  a = launch mydev.tanh(a)\n  y = launch mydev.where(b, a, f32" + sizes +
      " 0.5)\n  z = launch mydev.add(y, a; alpha=2.0)\n}\n");
  const SharedProgram fused = fuse(program);
  ASSERT_EQ(fused->steps().size(), 1U) << print(*fused);
  const std::vector<Values> parameters = {some_values(shape.elements), some_values(shape.row_elements),
                                          some_values(shape.column_elements)};
  const Launched expected = run_of(program, parameters), tiled = run_of(fused, parameters);
  EXPECT_EQ(tiled.y, expected.y);
  EXPECT_EQ(tiled.z, expected.z);
}

constexpr Shape kShapes[] = {
    {"Empty", "[0,5]", "f32[0,5]", "f32[0,5]{0,1}", "f32[0,5]{1,0}", 5, 5, 5},
    {"OneNumber", "[]", "f32[]", "f32[]", "f32[]", 1, 1, 1},
    {"OneDimension", "[100003]", "f32[100003]", "f32[100003]", "f32[100003]{0}", 100003, 100003, 1},
    {"RowsAndColumns", "[257,1030]", "f32[257,1030]", "f32[257,1030]{0,1}", "f32[257,1030]{1,0}", 264710, 1030, 257},
    {"SmallRows", "[4099,3]", "f32[4099,3]", "f32[4099,3]{0,1}", "f32[4099,3]{1,0}", 12297, 3, 4099},
    {"Transposed", "[300,200]", "f32[300,200]{1,300}", "f32[300,200]{0,1}", "f32[300,200]{1,0}", 60000, 200, 300},
    {"ManyDimensions", "[3,1,50,1,70]", "f32[3,1,50,1,70]", "f32[3,1,50,1,70]{0,0,0,0,1}",
     "f32[3,1,50,1,70]{50,9,1,9,0}", 10500, 70, 150},
    // Results that are written past the caches, in lines that begin anywhere in a vector.
    {"BeyondCaches", "[2051,1031]", "f32[2051,1031]", "f32[2051,1031]{0,1}", "f32[2051,1031]{1,0}", 2114581, 1031,
     2051},
};
INSTANTIATE_TEST_SUITE_P(Program, TiledShapes, testing::ValuesIn(kShapes),
                         [](const auto& info) { return std::string(info.param.what); });

TEST(TiledStep, KeepsTemporariesThatLiveTogetherApart) {
  const SharedProgram program = parsed(R"(program p(x: f32[50000]) -> (y: f32[50000]) {
  temporary a: f32[50000]
  temporary b: f32[50000]
  temporary c: f32[50000]
  a = launch mydev.add(x, f32[50000] 1.0; alpha=1.0)
  b = launch mydev.mul(x, f32[50000] 2.0)
  c = launch mydev.sub(a, b; alpha=1.0)
  y = launch mydev.mul(c, b)
})");
  const Values x = some_values(50000);
  EXPECT_EQ(run_once(fuse(program), {x}, 50000), run_once(program, {x}, 50000));
}

constexpr std::string_view kBinary[] = {"add", "sub", "mul", "div", "maximum", "minimum"};

// Steps of which each computes with what the one before it has computed, in each place that operands come in.
class TiledChain : public testing::TestWithParam<const char*> {};

TEST_P(TiledChain, IsComputedAsByLaunches) {
  if (!has_kernels()) GTEST_SKIP() << "needs the kernels of fused programs";
  const std::string kernel = GetParam(), alpha = kernel == "add" || kernel == "sub" ? "; alpha=1.0" : "";
  const bool is_binary = std::ranges::count(kBinary, kernel) != 0;
  std::string text = "program p(x: f32[3,1001], w: f32[1001]) -> (y: f32[3,1001]) {\n";
  for (const char* name : {"a", "b", "c", "d"}) text += "  temporary " + std::string(name) + ": f32[3,1001]\n";
  // A kernel of one operand gets the second.
  const auto step = [&](const std::string& to, const std::string& first, const std::string& second) {
    const std::string operands = is_binary ? first + ", " + second + alpha : second;
    text += "  " + to + " = launch mydev." + kernel + "(" + operands + ")\n";
  };
  step("a", "w f32[3,1001]{0,1}", "x");
  step("b", "a", "a");
  step("c", "b", is_binary ? "f32[3,1001] 0.75" : "b");
  step("d", "x", "c");
  text += "  y = launch mydev.add(d, x; alpha=1.0)\n}\n";
  const SharedProgram program = parsed(text);
  Values x = some_values(3003);
  x[7] = NAN, x[8] = INFINITY, x[9] = -INFINITY, x[10] = -0.0F, x[11] = 1e-40F, x[3002] = NAN;
  const Values expected = run_once(program, {x, some_values(1001)}, 3003);
  const Values tiled = run_once(fuse(program), {x, some_values(1001)}, 3003);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(tiled[i])) << i;
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(tiled[i]), std::bit_cast<uint32_t>(expected[i])) << i;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Program, TiledChain,
                         testing::Values("add", "sub", "mul", "div", "maximum", "minimum", "neg", "abs", "relu", "exp",
                                         "tanh", "sigmoid"),
                         [](const auto& info) { return std::string(info.param); });

TEST(TiledStep, WritesNoResultOverWhatOtherTilesHaveYetToRead) {
  // m is read transposed, and dies in the fused step.
  const SharedProgram program = parsed(R"(program p(x: f32[300,300]) -> (z: f32[300,300]) {
  temporary m: f32[300,300]
  temporary t: f32[300,300]
  temporary y: f32[300,300]
  m = copy x
  t = launch mydev.neg(m f32[300,300]{1,300})
  y = launch mydev.mul(t, f32[300,300] 2.0)
  z = launch mydev.cumsum(y; dim=0)
})");
  const Values x = some_values(90000);
  EXPECT_EQ(run_once(fuse(program), {x}, 90000), run_once(program, {x}, 90000));
}

std::vector<std::string>& seen() {
  static std::vector<std::string> launches;
  return launches;
}

TEST(TiledStep, IsOneLaunchThatSaysWhatItComputes) {
  if (resolve_step(device(0), "mydev.fused") == nullptr) GTEST_SKIP() << "needs the kernel mydev.fused";
  Executor executor = executor_of(fuse(parsed(R"(program p(x: f32[8]) -> (y: f32[8]) {
  temporary t: f32[8]
  t = launch mydev.exp(x)
  y = launch mydev.neg(t)
})")));
  EXPECT_EQ(executor.plan().arena_bytes, 0U) << "what is the tiles' alone is in no arena";
  const int id = add_command_hook({.submitted = [](void*, const CommandRecord& record) {
    if (record.frame != nullptr) seen().push_back(describe_frame(*record.frame->kernel, *record.frame));
  }});
  const Floats x(Values(8, 1)), y(Values(8, 0));
  executor.run(default_stream(0), std::vector{x.binding()}, std::vector{y.binding()});
  remove_command_hook(id);
  EXPECT_FLOAT_EQ(y.read()[7], -std::exp(1.F));
  EXPECT_EQ(seen(), (std::vector<std::string>{"mydev.fused(out f32[8], f32[8]; body=\"t = launch mydev.exp(x); y = "
                                              "launch mydev.neg(t)\")"}));
}

TEST(TiledStep, IsWhatRepeatsOneRun) {
  // Each iteration leaves x to the next; x is larger than a tile.
  const SharedProgram program = fuse(parsed(R"(program iteration(donated x: f32[50000], w: f32[50000]) -> (x) {
  temporary t: f32[50000]
  t = launch mydev.mul(x, w)
  x = launch mydev.add(t, f32[50000] 1.0)
}

program p(v: f32[50000], w: f32[50000]) -> (x: f32[50000]) {
  x = copy v
  repeat 5 iteration(x, w)
})"));
  Values expected = some_values(50000);
  const Values w = some_values(50000);
  const Floats v(expected), factors(w), x(Values(50000, 0));
  for (int iteration = 0; iteration < 5; ++iteration) {
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = expected[i] * w[i] + 1;
  }
  Executor executor = executor_of(program);
  const uint64_t before = launch_count();
  executor.run(default_stream(0), std::vector{v.binding(), factors.binding()}, std::vector{x.binding()});
  EXPECT_EQ(launch_count() - before, resolve_step(device(0), "mydev.fused") != nullptr ? 1U : 10U);
  const Values actual = x.read();
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 1e-5 * std::abs(expected[i]) + 1e-5);
}

// Rows of more than a tile. A view that moves by less than a row is computed iteration by iteration, since iterations
// would otherwise see each other's tiles.
class TiledLoop : public testing::TestWithParam<int64_t> {};

TEST_P(TiledLoop, MovesOverRows) {
  constexpr int64_t kRow = 20000;
  const int64_t step = GetParam(), all = kRow + 3 * step;
  const std::string size = std::to_string(all), by = std::to_string(4 * step);
  const SharedProgram program = fuse(parsed(
      "program iteration(donated y: f32[20000], x: f32[20000]) -> (y) {\n  y = launch mydev.add(y, x; alpha=1.0)\n}\n"
      "program p(v: f32[" +
      size + "]) -> (y: f32[" + size +
      "]) {\n  y = copy v\n"
      "  repeat 4 iteration(y f32[20000] by " +
      by + ", v f32[20000] by " + by + ")\n}"));
  const Values values = some_values(static_cast<size_t>(all));
  Values expected = values;
  for (int64_t iteration = 0; iteration < 4; ++iteration) {
    for (int64_t i = 0; i < kRow; ++i) {
      expected[static_cast<size_t>(iteration * step + i)] += values[static_cast<size_t>(iteration * step + i)];
    }
  }
  Executor executor = executor_of(program);
  const Floats v(values), y(Values(values.size(), 0));
  const uint64_t before = launch_count();
  executor.run(default_stream(0), std::vector{v.binding()}, std::vector{y.binding()});
  const bool is_one = resolve_step(device(0), "mydev.fused") != nullptr && step >= kRow;
  EXPECT_EQ(launch_count() - before, is_one ? 1U : 4U);
  EXPECT_EQ(y.read(), expected);
}

INSTANTIATE_TEST_SUITE_P(Rows, TiledLoop, testing::Values(20000, 20007, 1, 10000));

// Iterations on few values, over rows that move; 513 values are more than go through all steps at once.
class ShortIterations : public testing::TestWithParam<size_t> {};

TEST_P(ShortIterations, ComputeOneAfterTheOther) {
  constexpr size_t kIterations = 9;
  const size_t size = GetParam();
  const std::string n = std::to_string(size), all = std::to_string(size * kIterations), by = std::to_string(4 * size);
  const SharedProgram program =
      fuse(parsed("program iteration(donated y: f32[" + n + "], donated out: f32[" + n + "], x: f32[" + n +
                  "]) -> (y, out) {\n" + "  temporary t: f32[" + n + "]\n  t = launch mydev.mul(y, f32[" + n +
                  "] 0.5)\n" + "  y = launch mydev.add(t, x; alpha=1.0)\n  out = launch mydev.neg(y)\n}\n" +
                  "program p(v: f32[" + n + "], rows: f32[" + all + "]) -> (y: f32[" + n + "], out: f32[" + all +
                  "]) {\n  y = copy v\n" + "  out = fill hex \"00\"\n  repeat 9 iteration(y, out f32[" + n + "] by " +
                  by + ", rows f32[" + n + "] by " + by + ")\n}"));
  Values y = some_values(size), out;
  const Values rows = some_values(size * kIterations);
  const Floats v(y), given(rows), last(Values(size, 0)), written(Values(rows.size(), 0));
  for (size_t i = 0; i < rows.size(); ++i) {
    y[i % size] = y[i % size] * 0.5F + rows[i];
    out.push_back(-y[i % size]);
  }
  Executor executor = executor_of(program);
  for (int run = 0; run < 2; ++run) {
    executor.run(default_stream(0), std::vector{v.binding(), given.binding()},
                 std::vector{last.binding(), written.binding()});
    EXPECT_EQ(last.read(), y);
    EXPECT_EQ(written.read(), out);
  }
}

INSTANTIATE_TEST_SUITE_P(Values, ShortIterations, testing::Values(1, 7, 64, 512, 513));

TEST(TiledStep, SeesInEachRoundWhatIsOneValueForAll) {
  const SharedProgram program = fuse(parsed(R"(program iteration(donated x: f32[64], w: f32[1]) -> (x) {
  x = launch mydev.add(x, w f32[64]{0}; alpha=1.0)
}

program p(v: f32[64], w: f32[5]) -> (x: f32[64]) {
  x = copy v
  repeat 5 iteration(x, w f32[1] by 4)
})"));
  Values expected = some_values(64);
  const Values w = some_values(5);
  const Floats v(expected), added(w), x(Values(64, 0));
  for (const float each : w) {
    for (float& value : expected) value += each;
  }
  Executor executor = executor_of(program);
  executor.run(default_stream(0), std::vector{v.binding(), added.binding()}, std::vector{x.binding()});
  EXPECT_EQ(x.read(), expected);
}

TEST(TiledStep, FailsInTheRoundThatItsKernelFailsIn) {
  if (resolve_step(device(0), "mydev.fused") == nullptr) GTEST_SKIP() << "needs the kernel mydev.fused";
  Executor executor = executor_of(fuse(parsed(R"(program iteration(donated y: s64[8], x: s64[8]) -> (y) {
  y = launch mydev.div_trunc(y, x)
}

program p(v: s64[8], x: s64[24]) -> (y: s64[8]) {
  y = copy v
  repeat 3 iteration(y, x s64[8] by 64)
})")));
  std::vector<int64_t> divisors(24, 2);
  divisors[20] = 0;
  const DeviceArray<int64_t> v(std::vector<int64_t>(8, 100)), x(divisors), y(std::vector<int64_t>(8));
  const Error error = error_of([&] {
    executor.run(default_stream(0), std::vector{v.binding(), x.binding()}, std::vector{y.binding()});
    default_stream(0).synchronize();
  });
  expect_error(error, MYDEV_FAILED_PRECONDITION, "mydev.div_trunc: ZeroDivisionError");
}

TEST(TiledStep, FailsAsItsKernelDoes) {
  if (resolve_step(device(0), "mydev.fused") == nullptr) GTEST_SKIP() << "needs the kernel mydev.fused";
  Executor executor = executor_of(fuse(parsed(R"(program p(x: s64[8]) -> (y: s64[8]) {
  temporary t: s64[8]
  t = launch mydev.sub(x, x; alpha=1)
  y = launch mydev.div_trunc(x, t)
})")));
  const DeviceArray<int64_t> x(std::vector<int64_t>(8, 1)), y(std::vector<int64_t>(8));
  const Error error = error_of([&] {
    executor.run(default_stream(0), std::vector{x.binding()}, std::vector{y.binding()});
    default_stream(0).synchronize();
  });
  expect_error(error, MYDEV_FAILED_PRECONDITION, "mydev.div_trunc: ");
  expect_error(error, MYDEV_FAILED_PRECONDITION, "step 0 of program 'p' (fused p_fused0)");
}

}  // namespace
}  // namespace mydev::program
