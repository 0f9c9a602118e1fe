// Calls in line, and runs of steps as programs of their own.
#include "program/transform/outline.h"

#include <gtest/gtest.h>

#include <string>

#include "program/transform/inline.h"
#include "program_fixture.h"

namespace mydev::program {
namespace {

const std::string kHead = "programs version 1\n\n";

TEST(Inline, PutsStepsOfCalledProgramsInPlaceOfCalls) {
  const SharedProgram program = parsed(R"(program inner(a: f32[4], donated s: f32[4]) -> (b: f32[4], s) {
  constant one: f32[] = hex "0000803f"
  temporary t: f32[4]
  t = launch mydev.mul(a, one f32[4]{0})
  b = launch mydev.relu(t)
  s = launch mydev.add(s, b+8 f32[2]{0})
}

program outer(x: f32[8], donated sum: f32[4]) -> (y: f32[8], sum) {
  temporary t: f32[8]
  t+16 f32[4] = call inner(x+16 f32[4], sum)
  t f32[4] = fused inner(x f32[4], sum)
  y = launch mydev.neg(t)
}
)");
  const std::string inlined = kHead + R"(program outer(x: f32[8], donated sum: f32[4]) -> (y: f32[8], sum) {
  constant one: f32[] = hex "0000803f"
  constant one_0: f32[] = hex "0000803f"
  temporary t: f32[8]
  temporary t_0: f32[4]
  temporary t_1: f32[4]
  t_0 = launch mydev.mul(x+16 f32[4], one f32[4]{0})
  t+16 f32[4] = launch mydev.relu(t_0)
  sum = launch mydev.add(sum, t+24 f32[2]{0})
  t_1 = launch mydev.mul(x f32[4], one_0 f32[4]{0})
  t f32[4] = launch mydev.relu(t_1)
  sum = launch mydev.add(sum, t+8 f32[2]{0})
  y = launch mydev.neg(t)
}
)";
  EXPECT_EQ(print(*inline_calls(program)), inlined);
}

TEST(Inline, LeavesLoopsAndConditions) {
  const SharedProgram program = parsed(R"(program body(donated s: f32[4]) -> (s) {
  s = launch mydev.neg(s)
}

program outer(donated s: f32[4]) -> (s) {
  repeat 3 body(s)
}
)");
  EXPECT_EQ(inline_calls(program), program);
}

// Steps 1 to 3 of five. `half` is written in part before and read afterwards, `whole` is written whole, `parts` is
// written in parts and held nothing before, `inner` is nobody else's.
TEST(Outline, GivesAndReturnsWhatOthersTouch) {
  const SharedProgram program = parsed(R"(program p(x: f32[4], w: f32[8]) -> (y: f32[8], z: f32[4], parts: f32[8]) {
  constant c: f32[4] = hex "0000803f0000803f0000803f0000803f"
  temporary half: f32[8]
  temporary inner: f32[4]
  half = launch mydev.relu(w)
  inner = launch mydev.add(x, c)
  half f32[4] = launch mydev.neg(inner)
  parts f32[4] = copy inner
  parts+16 f32[4] = copy x
  z = launch mydev.exp(x)
  y = launch mydev.relu(half)
}
)");
  const Outliner outliner(*program);
  const StepRange run{1, 6};
  const auto uses = outliner.uses_of(run);
  const OutlinedRun call = outliner.call_of(run, "part", StepKind::kCall, uses,
                                            std::span(program->steps()).subspan(1, 5), Constants::kInside);
  const std::string outlined =
      kHead + R"(program part(x: f32[4], donated half: f32[8]) -> (z: f32[4], parts: f32[8], half) {
  constant c: f32[4] = hex "0000803f0000803f0000803f0000803f"
  temporary inner: f32[4]
  inner = launch mydev.add(x, c)
  half f32[4] = launch mydev.neg(inner)
  parts f32[4] = copy inner
  parts+16 f32[4] = copy x
  z = launch mydev.exp(x)
}

program p(x: f32[4], w: f32[8]) -> (y: f32[8], z: f32[4], parts: f32[8]) {
  temporary half: f32[8]
  half = launch mydev.relu(w)
  z, parts = call part(x, half)
  y = launch mydev.relu(half)
}
)";
  EXPECT_EQ(print(*outliner.with({&call, 1}, {})), outlined);
}

// Only its contract says that a kernel does not read what its result held.
TEST(Outline, TakesResultsThatMayBeReadForParameters) {
  const SharedProgram program = parsed(R"(program p(a: f32[4,4]) -> (y: f32[4,4]) {
  temporary t: f32[4,4]
  t = launch mydev.relu(a)
  t = launch mydev.matmul(a, a; alpha=1.0, beta=1.0)
  y = launch mydev.relu(t)
}
)");
  const auto uses = Outliner(*program).uses_of({1, 2});
  const SlotIndex t = program->steps()[0].results[0].slot;
  EXPECT_TRUE(uses.at(t).read_first);
  EXPECT_TRUE(uses.at(t).written);
}

}  // namespace
}  // namespace mydev::program
