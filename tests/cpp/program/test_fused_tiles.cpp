// Successive tiles of fused steps: tiles that do as the last did, the last tile of a row, which is smaller, and the
// first tile of the next row. If memory is guarded, writes beyond a result are seen.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/registry/kernel_registry.h"
#include "program/transform/fusion.h"
#include "program_fixture.h"

namespace mydev::program {
namespace {

struct Shape {
  const char* what;
  int64_t outer, rows, columns;
};
class FusedTiles : public testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    if (resolve_kernel(device(0), "mydev.fused") == nullptr) GTEST_SKIP() << "needs the kernel mydev.fused";
  }
  // T: all values; R: a number for each row; B: the same values for all outer ones.
  static SharedProgram with_shape(std::string text) {
    const auto [what, outer, rows, columns] = GetParam();
    const auto list = [](const char* begin, const std::vector<int64_t>& numbers, const char* end) {
      std::string text;
      for (const int64_t number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
      return begin + text + end;
    };
    const std::string all = list("f32[", {outer, rows, columns}, "]");
    const std::vector<std::pair<std::string, std::string>> words = {
        {"T_", all},
        {"R_", list("f32[", {outer, rows}, "]")},
        {"B_", list("f32[", {rows, columns}, "]")},
        {" T", " " + all},
        {" R", " " + all + list("{", {rows, 1, 0}, "}")},
        {" B", " " + all + list("{", {0, columns, 1}, "}")},
    };
    for (const auto& [from, to] : words) {
      for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
        text.replace(at, from.size(), to);
      }
    }
    return parsed(text);
  }
  static int64_t count(int64_t columns) { return GetParam().outer * GetParam().rows * columns; }
  static std::vector<float> numbers(int64_t count, size_t seed) {
    std::vector<float> x(static_cast<size_t>(count));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i + seed) * 7919 % 1000) / 250 - 2;
    return x;
  }
  static std::vector<std::vector<float>> parameters(size_t seed) {
    return {numbers(count(GetParam().columns), seed), numbers(GetParam().rows * GetParam().columns, seed)};
  }
};

constexpr char kSoftmax[] = R"(program p(x: T_, b: B_) -> (y: T_) {
  temporary m: R_
  temporary d: T_
  temporary e: T_
  temporary s: R_
  m R = launch mydev.amax(x T)
  d T = launch mydev.sub(x T, m R; alpha=1.0)
  e T = launch mydev.exp(d T)
  s R = launch mydev.sum(e T)
  d T = launch mydev.div(e T, s R)
  y T = launch mydev.mul(d T, b B)
})";
constexpr char kSums[] = R"(program p(x: T_, b: B_) -> (s: R_) {
  temporary m: R_
  temporary d: T_
  m R = launch mydev.mean(x T)
  d T = launch mydev.sub(x T, m R; alpha=1.0)
  d T = launch mydev.mul(d T, b B)
  s R = launch mydev.sum(d T)
})";
constexpr char kLargest[] = R"(program p(x: T_, b: B_) -> (s: R_) {
  temporary m: R_
  temporary d: T_
  m R = launch mydev.mean(x T)
  m = launch mydev.abs(m)
  m = launch mydev.rsqrt(m)
  d T = launch mydev.mul(x T, m R)
  d T = launch mydev.mul(d T, b B)
  s R = launch mydev.amax(d T)
})";

TEST_P(FusedTiles, WriteTheirRowsAndNothingElse) {
  const SharedProgram program = with_shape(kSoftmax), fused = fuse(program);
  EXPECT_EQ(fused->steps().size(), 1U) << print(*fused);
  const auto n = static_cast<size_t>(count(GetParam().columns));
  expect_same_values(run_once(fused, parameters(0), n), run_once(program, parameters(0), n));
}

TEST_P(FusedTiles, WriteANumberForEachRow) {
  for (const char* text : {kSums, kLargest}) {
    const SharedProgram program = with_shape(text), fused = fuse(program);
    EXPECT_EQ(fused->steps().size(), 1U) << print(*fused);
    const auto n = static_cast<size_t>(count(1));
    SCOPED_TRACE(text);
    expect_same_values(run_once(fused, parameters(0), n), run_once(program, parameters(0), n));
  }
}

// The memory of the last run is of no use in the next.
TEST_P(FusedTiles, FindTheMemoryOfEachRun) {
  const SharedProgram program = with_shape(kSoftmax);
  Executor fused = executor_of(fuse(program));
  const auto n = static_cast<size_t>(count(GetParam().columns));
  std::vector<std::unique_ptr<Floats>> x, b, y;
  for (size_t run = 0; run < 3; ++run) {
    const std::vector<std::vector<float>> values = parameters(run);
    x.push_back(std::make_unique<Floats>(values[0]));
    b.push_back(std::make_unique<Floats>(values[1]));
    y.push_back(std::make_unique<Floats>(std::vector<float>(n, -1)));
    fused.run(default_stream(0), std::vector{x[run]->binding(), b[run]->binding()}, std::vector{y[run]->binding()});
  }
  for (size_t run = 0; run < 3; ++run) expect_same_values(y[run]->read(), run_once(program, parameters(run), n));
}

INSTANTIATE_TEST_SUITE_P(Program, FusedTiles,
                         testing::Values(Shape{"OneRowOfTiles", 1, 37, 1024}, Shape{"TheLastSmaller", 3, 37, 512},
                                         Shape{"AllAsLarge", 2, 64, 256}, Shape{"OfOneRow", 3, 5, 1024},
                                         Shape{"OfLongerRows", 3, 20, 1500}, Shape{"OfSeveralOuterOnes", 40, 5, 64}),
                         [](const auto& info) { return info.param.what; });

}  // namespace
}  // namespace mydev::program
