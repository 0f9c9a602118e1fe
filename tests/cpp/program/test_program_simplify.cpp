// Programs without the steps that do nothing for them: which steps go, and which must stay.
#include "program/transform/simplify.h"

#include <gtest/gtest.h>

#include <string>

#include "program_fixture.h"

namespace mydev::program {
namespace {

struct Passed {
  const char *what, *text, *simple;
};
class Simplify : public testing::TestWithParam<Passed> {};

TEST_P(Simplify, LeavesOutWhatIsNotNeeded) {
  const std::string head = "programs version 1\n\n";
  EXPECT_EQ(print(*simplify(*parsed(GetParam().text))), head + GetParam().simple);
}

constexpr char kTwoThatSwap[] = R"(program p(donated a: f32[8], donated b: f32[8]) -> (a, b) {
  temporary t: f32[8]
  temporary u: f32[8]
  t = copy b
  u = copy a
  a = copy t
  b = copy u
}
)";

constexpr Passed kPassed[] = {
    {"StepsThatNothingReads",
     R"(program p(x: f32[8]) -> (y: f32[8]) {
  constant c: f32[] = hex "0000803f"
  temporary t: f32[8]
  temporary u: f32[8]
  t = launch mydev.mul(x, c f32[8]{0})
  u = launch mydev.relu(t)
  y = launch mydev.relu(x)
}
)",
     R"(program p(x: f32[8]) -> (y: f32[8]) {
  y = launch mydev.relu(x)
}
)"},
    {"CopiesToParametersAndBack",
     R"(program p(donated s: f32[8], w: f32[8]) -> (s) {
  temporary t: f32[8]
  temporary u: f32[8]
  t = launch mydev.mul(s, w)
  u = launch mydev.add(t, w)
  s = copy u
}
)",
     R"(program p(donated s: f32[8], w: f32[8]) -> (s) {
  temporary t: f32[8]
  t = launch mydev.mul(s, w)
  s = launch mydev.add(t, w)
}
)"},
    {"CopiesFromAndToOneParameter",
     R"(program p(donated s: f32[8], w: f32[8]) -> (s) {
  temporary t: f32[8]
  t = copy s
  t = launch mydev.add(t, w)
  s = copy t
}
)",
     R"(program p(donated s: f32[8], w: f32[8]) -> (s) {
  s = launch mydev.add(s, w)
}
)"},
    {"ByMovingAStepBehindTheLastThatReads",
     R"(program p(donated i: s32[], donated s: f32[8]) -> (i, s) {
  temporary next: s32[]
  temporary t: f32[8]
  next = launch mydev.add(i, s32 1)
  t = launch mydev.scatter_slices(s, i s32[1,1], f32[1,1] 1.0; dims=[0], clamp=true)
  i = copy next
  s = copy t
}
)",
     R"(program p(donated i: s32[], donated s: f32[8]) -> (i, s) {
  s = launch mydev.scatter_slices(s, i s32[1,1], f32[1,1] 1.0; dims=[0], clamp=true)
  i = launch mydev.add(i, s32 1)
}
)"},
    {"ButNotWhereTheParameterIsStillRead",
     R"(program p(donated s: f32[8], donated r: f32[8]) -> (s, r) {
  temporary t: f32[8]
  temporary u: f32[8]
  t = launch mydev.relu(s)
  u = launch mydev.add(s, t)
  s = copy t
  r = copy u
}
)",
     R"(program p(donated s: f32[8], donated r: f32[8]) -> (s, r) {
  temporary t: f32[8]
  t = launch mydev.relu(s)
  r = launch mydev.add(s, t)
  s = copy t
}
)"},
    {"NorWhereOtherElementsOfItAreRead",
     R"(program p(donated s: f32[4,4]) -> (s) {
  temporary t: f32[4,4]
  t = launch mydev.relu(s f32[4,4]{1,4})
  s = copy t
}
)",
     R"(program p(donated s: f32[4,4]) -> (s) {
  temporary t: f32[4,4]
  t = launch mydev.relu(s f32[4,4]{1,4})
  s = copy t
}
)"},
    {"NorWhereTheKernelNeedsItsOperandToTheEnd",
     R"(program p(donated s: f32[4,4]) -> (s) {
  temporary t: f32[4,4]
  t = launch mydev.matmul(s, s; alpha=1.0, beta=0.0)
  s = copy t
}
)",
     R"(program p(donated s: f32[4,4]) -> (s) {
  temporary t: f32[4,4]
  t = launch mydev.matmul(s, s; alpha=1.0, beta=0.0)
  s = copy t
}
)"},
    {"NorWhereTheTemporaryIsReadLater",
     R"(program p(donated s: f32[8]) -> (s, y: f32[8]) {
  temporary t: f32[8]
  t = launch mydev.relu(s)
  s = copy t
  y = launch mydev.neg(t)
}
)",
     R"(program p(donated s: f32[8]) -> (s, y: f32[8]) {
  temporary t: f32[8]
  t = launch mydev.relu(s)
  s = copy t
  y = launch mydev.neg(t)
}
)"},
    {"KeepingOneCopyOfTwoThatSwap", kTwoThatSwap,
     R"(program p(donated a: f32[8], donated b: f32[8]) -> (a, b) {
  temporary t: f32[8]
  t = copy b
  b = copy a
  a = copy t
}
)"},
};

INSTANTIATE_TEST_SUITE_P(Programs, Simplify, testing::ValuesIn(kPassed),
                         [](const auto& info) { return std::string(info.param.what); });

class SimplifyAndReturn : public testing::TestWithParam<Passed> {};

TEST_P(SimplifyAndReturn, ReturnsATemporaryThatCannotBeComputedInTheParameter) {
  const std::string head = "programs version 1\n\n";
  EXPECT_EQ(print(*simplify(*parsed(GetParam().text), Copies::kReturnInstead)), head + GetParam().simple);
}

constexpr Passed kReturned[] = {
    {"WhereItCan",
     R"(program p(donated s: f32[8]) -> (s) {
  temporary t: f32[8]
  t = launch mydev.relu(s)
  s = copy t
}
)",
     R"(program p(donated s: f32[8]) -> (s) {
  s = launch mydev.relu(s)
}
)"},
    {"OfOtherElements",
     R"(program p(donated s: f32[4,4]) -> (s) {
  temporary t: f32[4,4]
  t = launch mydev.neg(s f32[4,4]{1,4})
  s = copy t
}
)",
     R"(program p(donated s: f32[4,4]) -> (t: f32[4,4]) {
  t = launch mydev.neg(s f32[4,4]{1,4})
}
)"},
    {"OfTwoThatSwapOne", kTwoThatSwap,
     R"(program p(donated a: f32[8], donated b: f32[8]) -> (t: f32[8], b) {
  t = copy b
  b = copy a
}
)"},
    {"ButNotWhereTheParameterIsReadLater",
     R"(program p(donated s: f32[4,4]) -> (s, y: f32[4,4]) {
  temporary t: f32[4,4]
  t = launch mydev.neg(s f32[4,4]{1,4})
  s = copy t
  y = launch mydev.neg(s)
}
)",
     R"(program p(donated s: f32[4,4]) -> (s, y: f32[4,4]) {
  temporary t: f32[4,4]
  t = launch mydev.neg(s f32[4,4]{1,4})
  s = copy t
  y = launch mydev.neg(s)
}
)"},
};

INSTANTIATE_TEST_SUITE_P(Programs, SimplifyAndReturn, testing::ValuesIn(kReturned),
                         [](const auto& info) { return std::string(info.param.what); });

}  // namespace
}  // namespace mydev::program
