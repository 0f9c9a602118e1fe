// Memory plans: who shares memory with whom, and random programs against each in memory of its own.
#include "program/plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "fuzz.h"
#include "program/ir/launch_frame.h"
#include "program/plan/live_ranges.h"
#include "program/transform/fusion.h"
#include "program_fixture.h"

namespace mydev::program {
namespace {

using Values = std::vector<float>;

constexpr uint64_t kAlignment = 64;

SlotIndex slot_named(const Program& program, const std::string& name) {
  const auto found = std::ranges::find(program.slots(), name, &Slot::name);
  return static_cast<SlotIndex>(found - program.slots().begin());
}

class Planned {
 public:
  explicit Planned(const std::string& text, const std::vector<uint64_t>& workspace = {}, Given given = Given::kWhole)
      : program_(parsed(text)), plan_(plan_memory(*program_, kAlignment, workspace, given)) {
    verify_plan(*program_, plan_, workspace);
  }
  const MemoryPlan& plan() const { return plan_; }
  // "arena+64", "x+0", "nowhere".
  std::string place_of(const std::string& name) const { return text_of(plan_.slots[slot_named(*program_, name)]); }
  std::string workspace_of(StepIndex step) const { return text_of(plan_.workspace[step]); }
  // "1 to 3": the steps for which the slot's memory is needed.
  std::string needed(const std::string& name) const {
    const LiveRange& range = plan_.needed[slot_named(*program_, name)];
    return std::to_string(range.first) + " to " + std::to_string(range.last);
  }

 private:
  std::string text_of(const Placement& placement) const {
    if (placement.home == Placement::kNowhere) return "nowhere";
    std::string home = "arena";
    if (placement.home < Placement::kArena) home = program_->slots()[placement.home].name;
    if (placement.home > Placement::kArena) home += std::to_string(placement.home - Placement::kArena + 1);
    return home + "+" + std::to_string(placement.offset);
  }
  SharedProgram program_;
  MemoryPlan plan_;
};

// --- live ranges ---

TEST(MemoryPlan, GivesTheMemoryOfDeadTemporariesToLaterOnes) {
  const Planned planned(R"(program p(x: f32[16]) -> (y: f32[16]) {
  temporary a: f32[16]
  temporary b: f32[16]
  temporary c: f32[16]
  y = copy x
  a = copy y
  b = copy a
  c = copy b
  y = copy c
})");
  EXPECT_EQ(planned.place_of("a"), "arena+0");
  EXPECT_EQ(planned.place_of("b"), "arena+64");
  EXPECT_EQ(planned.place_of("c"), "arena+0");
  EXPECT_EQ(planned.plan().arena_bytes, 128U);
  EXPECT_EQ(planned.plan().live_bytes, 128U);
  EXPECT_EQ(planned.plan().unplanned_bytes, 192U);
}

TEST(MemoryPlan, UsesTheMemoryOfResultsUntilTheyAreWritten) {
  const Planned planned(R"(program p(x: f32[16]) -> (y: f32[16], z: f32[32]) {
  temporary a: f32[16]
  temporary b: f32[16]
  a = copy x
  b = copy a
  z f32[16] = copy b
  y = copy b
})");
  EXPECT_EQ(planned.place_of("a"), "y+0");
  EXPECT_EQ(planned.place_of("b"), "arena+0");
  EXPECT_EQ(planned.plan().arena_bytes, 64U);
}

TEST(MemoryPlan, PlacesNothingThatIsGivenOrNeverUsed) {
  const Planned planned(R"(program p(x: f32[16]) -> (y: f32[16]) {
  constant c: u8[1] = hex "00"
  temporary a: f32[16]
  y = copy x
})");
  for (const char* name : {"x", "y", "c", "a"}) EXPECT_EQ(planned.place_of(name), "nowhere") << name;
  EXPECT_EQ(planned.plan().arena_bytes, 0U);
}

TEST(MemoryPlan, FillsTheGapThatFitsBest) {
  // While `small` is live, the memory that was placed before it has gaps of 2 and 1 lines.
  const Planned planned(R"(program p(x: u8[512]) -> (y: u8[512]) {
  temporary big: u8[256]
  temporary two: u8[128]
  temporary also_big: u8[192]
  temporary small: u8[64]
  big = copy x u8[256]
  two = copy x u8[128]
  also_big = copy x u8[192]
  y u8[256] = copy big
  small = copy x u8[64]
  y u8[192] = copy also_big
  y u8[64] = copy small
  y u8[128] = copy two
})");
  EXPECT_EQ(planned.place_of("big"), "arena+0");
  EXPECT_EQ(planned.place_of("also_big"), "arena+256");
  EXPECT_EQ(planned.place_of("two"), "arena+448");
  EXPECT_EQ(planned.place_of("small"), "arena+0");
}

TEST(MemoryPlan, HasWorkspaceForAStepAlone) {
  const Planned planned(R"(program p(x: f32[16]) -> (y: f32[16]) {
  temporary a: f32[16]
  a = copy x
  y = copy a
})",
                        {0, 1000});
  EXPECT_EQ(planned.workspace_of(0), "nowhere");
  EXPECT_EQ(planned.workspace_of(1), "arena+0");
  EXPECT_EQ(planned.place_of("a"), "arena+1024");
  EXPECT_EQ(planned.plan().arena_bytes, 1088U);
}

// --- in place ---

TEST(MemoryPlan, ComputesInThePlaceOfADyingOperandWhereTheContractLetsIt) {
  const Planned planned(R"(program p(x: f32[16]) -> (y: f32[16]) {
  temporary a: f32[16]
  temporary b: f32[16]
  temporary c: f32[16]
  a = launch mydev.exp(x)
  b = launch mydev.add(x, a; alpha=1.0)
  c = launch mydev.mul(b, b)
  y = launch mydev.add(c, x; alpha=1.0)
})");
  EXPECT_EQ(planned.plan().arena_bytes, 64U);
  EXPECT_EQ(planned.place_of("a"), planned.place_of("c"));
}

// A kernel that is asked before there is memory sees by the addresses which operands will be one.
TEST(MemoryPlan, IsWhatFramesPretendBeforeThereIsMemory) {
  const SharedProgram program = parsed(R"(program p(x: f32[16]) -> (y: f32[16]) {
  temporary a: f32[16]
  temporary b: f32[16]
  temporary c: f32[16]
  a = copy x
  b = launch mydev.exp(a)
  c = launch mydev.add(b, x; alpha=1.0)
  y = launch mydev.add(c, x; alpha=1.0)
})");
  const std::vector<SlotIndex> memory = shared_memory(*program);
  LaunchFrame in_place(program->steps()[2], memory), apart(program->steps()[3], memory);
  EXPECT_EQ(in_place.buffers()[0].data, in_place.buffers()[1].data);
  EXPECT_NE(in_place.buffers()[0].data, in_place.buffers()[2].data);
  EXPECT_NE(apart.buffers()[0].data, apart.buffers()[1].data);
}

struct Apart {
  const char *what, *steps;
};
class NotInPlace : public testing::TestWithParam<Apart> {};

TEST_P(NotInPlace, ResultsLieApart) {
  const Planned planned(std::string("program p(x: f32[4,4]) -> (y: f32[4,4]) {\n"
                                    "temporary a: f32[4,4]\ntemporary b: f32[4,4]\n"
                                    "a = copy x\n") +
                        GetParam().steps + "\n}\n");
  EXPECT_NE(planned.place_of("a"), planned.place_of("b"));
}

constexpr Apart kApart[] = {
    {"TheContractDoesNotLetThem", "b = launch mydev.softmax(a f32[4,4,1])\ny = copy b"},
    {"TheOperandIsReadLater", "b = launch mydev.exp(a)\ny = launch mydev.add(a, b; alpha=1.0)"},
    {"TheOperandIsSeenOtherwise", "b = launch mydev.exp(a f32[4,4]{1,4})\ny = copy b"},
    {"TheOperandIsSeenTwice", "b = launch mydev.add(a, a f32[4,4]{1,4}; alpha=1.0)\ny = copy b"},
    {"TheResultIsReadToo", "b = fill hex \"00\"\nb = launch mydev.exp(a)\ny = copy b"},
    {"ItIsACopy", "b = copy a\ny = copy b"},
};
INSTANTIATE_TEST_SUITE_P(MemoryPlan, NotInPlace, testing::ValuesIn(kApart),
                         [](const auto& info) { return std::string(info.param.what); });

// --- donated parameters ---

TEST(MemoryPlan, PlacesTemporariesInDonatedParametersAfterTheirLastUse) {
  const Planned planned(R"(program p(donated x: f32[32], z: f32[32]) -> (y: f32[32]) {
  temporary a: f32[32]
  temporary b: f32[16]
  a = copy x
  b = copy z f32[16]
  y = copy a
  y f32[16] = copy b
})");
  EXPECT_EQ(planned.place_of("a"), "arena+0");
  EXPECT_EQ(planned.place_of("b"), "x+0");
}

TEST(MemoryPlan, ComputesInThePlaceOfADonatedParameter) {
  const Planned planned(R"(program p(donated x: f32[32]) -> (y: f32[32]) {
  temporary a: f32[32]
  a = launch mydev.exp(x)
  y = launch mydev.exp(a)
})");
  EXPECT_EQ(planned.place_of("a"), "x+0");
}

class KeptParameter : public testing::TestWithParam<Apart> {};

TEST_P(KeptParameter, HoldsNoTemporaries) {
  const Planned planned(std::string(GetParam().steps) + R"( {
  temporary a: f32[32]
  a = launch mydev.exp(x)
  y = launch mydev.exp(a)
})");
  EXPECT_EQ(planned.place_of("a"), "arena+0");
}

constexpr Apart kKept[] = {
    {"OfTheCaller", "program p(x: f32[32]) -> (y: f32[32])"},
    {"ThatIsAResult", "program p(donated x: f32[32]) -> (y: f32[32], x)"},
};
INSTANTIATE_TEST_SUITE_P(MemoryPlan, KeptParameter, testing::ValuesIn(kKept),
                         [](const auto& info) { return std::string(info.param.what); });

// --- memory that comes and goes ---

constexpr const char* kLateResult = R"(program p(donated x: f32[64]) -> (y: f32[64]) {
  temporary a: f32[16]
  temporary b: f32[16]
  temporary c: f32[16]
  a = copy x f32[16]
  b = copy a
  c = copy b
  y f32[16] = copy c
})";

TEST(MemoryPlan, NeedsResultsFromTheirFirstStepAndDonatedParametersToTheirLast) {
  const Planned planned(kLateResult, {}, Given::kWhenNeeded);
  EXPECT_EQ(planned.place_of("b"), "x+0") << "x stays, which costs less than a larger arena";
  EXPECT_EQ(planned.needed("x"), "0 to 2");
  EXPECT_EQ(planned.needed("y"), "3 to 4");
}

TEST(MemoryPlan, KeepsNothingForATemporaryThatCostsLessInTheArena) {
  const Planned planned(kLateResult, {}, Given::kWhenNeeded);
  EXPECT_EQ(planned.place_of("a"), "arena+0") << "y would be there beside x";
  EXPECT_EQ(Planned(kLateResult).place_of("a"), "y+0") << "which is there in any case";
}

TEST(MemoryPlan, NeedsTheArenaWhileSomethingLivesThere) {
  const Planned planned(R"(program p(x: f32[16]) -> (y: f32[16], z: f32[16]) {
  temporary a: f32[16]
  y = copy x
  a = copy x
  z = copy a
  y = copy z
})",
                        {}, Given::kWhenNeeded);
  ASSERT_EQ(planned.plan().arena.size(), 1U);
  EXPECT_EQ(planned.plan().arena[0].needed.first, 1);
  EXPECT_EQ(planned.plan().arena[0].needed.last, 2);
}

TEST(MemoryPlan, NeedsNothingLongerForWhatFindsRoomInMemoryThatIsThere) {
  constexpr const char* kText =
      "program p(x: f32[64]) -> (y: f32[16]) {\n temporary a: f32[64]\n a = copy x\n y = copy a f32[16]\n}";
  const Planned planned(kText, {64, 2048}, Given::kWhenNeeded);
  EXPECT_EQ(planned.needed("y"), "1 to 2") << "the workspace of step 0 lies beside a, as that of step 1 does";
}

// --- plans that are wrong ---

TEST(MemoryPlan, PutsResultsOfFusedStepsInThePlaceOfWhatWasReadBefore) {
  const std::string body = R"(program body(a: f32[16], b: f32[16]) -> (r: f32[16]) {
  temporary t: f32[16]
  t = launch mydev.exp(a)
  r = launch mydev.mul(t, b)
}

program reads_late(a: f32[16]) -> (r: f32[16], s: f32[16]) {
  r = launch mydev.exp(a)
  s = launch mydev.mul(r, a)
}

)";
  const Planned before(body + R"(program p(x: f32[16]) -> (y: f32[16]) {
  temporary a: f32[16]
  temporary b: f32[16]
  temporary r: f32[16]
  y = copy x
  a = launch mydev.exp(x)
  b = launch mydev.exp(x)
  r = fused body(a, b)
  y = launch mydev.relu(r)
})");
  EXPECT_EQ(before.place_of("r"), before.place_of("a"));
  EXPECT_EQ(before.plan().arena_bytes, 128U);
  const Planned late(body + R"(program p(x: f32[16]) -> (y: f32[16]) {
  temporary a: f32[16]
  temporary r: f32[16]
  temporary s: f32[16]
  y = copy x
  a = launch mydev.exp(x)
  r, s = fused reads_late(a)
  y = launch mydev.mul(r, s)
})");
  EXPECT_NE(late.place_of("r"), late.place_of("a"));
  EXPECT_EQ(late.place_of("s"), late.place_of("a"));
}

TEST(MemoryPlan, IsFoundWrongWhereLivesOverlap) {
  const SharedProgram program = parsed(R"(program p(x: f32[16]) -> (y: f32[16]) {
  temporary a: f32[16]
  temporary b: f32[16]
  y = copy x
  a = copy x
  b = copy a
  y = copy b
})");
  MemoryPlan plan = plan_memory(*program, kAlignment);
  plan.slots[slot_named(*program, "b")] = plan.slots[slot_named(*program, "a")];
  expect_error(error_of([&] { verify_plan(*program, plan); }), MYDEV_INTERNAL,
               "program 'p': 'a' and 'b' live at the same time in the same memory");
  plan = plan_memory(*program, kAlignment);
  plan.arena[0].bytes = 64;
  expect_error(error_of([&] { verify_plan(*program, plan); }), MYDEV_INTERNAL, "lies at 64 of 64");
}

// --- random programs ---

// Rows of kWidth floats; each step makes a temporary, or writes one anew, of one or two that are there.
constexpr int64_t kWidth = 16;

class RandomProgram {
 public:
  explicit RandomProgram(std::mt19937& random) : random_(random), builder_("random") {
    for (int i = 0; i < 3; ++i) {
      slots_.push_back(builder_.parameter(MYDEV_F32, {1 + below(4), kWidth}, below(2) == 0));
    }
    const int64_t steps = 1 + below(20);
    for (int64_t i = 0; i < steps; ++i) add_step();
    for (const SlotIndex slot : slots_) {
      if (builder_.slots()[slot].kind == SlotKind::kTemporary && below(4) == 0) builder_.returns(slot);
    }
  }
  SharedProgram build() { return std::move(builder_).build(); }

 private:
  int64_t below(int64_t count) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(count)); }
  SlotIndex any() { return slots_[static_cast<size_t>(below(static_cast<int64_t>(slots_.size())))]; }
  int64_t rows_of(SlotIndex slot) const { return builder_.slots()[slot].sizes[0]; }

  // The first rows of a slot.
  Operand rows(SlotIndex slot, int64_t count) const {
    Operand view = builder_.view(slot);
    view.sizes[0] = count;
    return view;
  }

  void add_step() {
    const SlotIndex a = any(), b = any();
    const int64_t count = std::min(rows_of(a), rows_of(b));
    const bool anew = below(4) == 0 && builder_.slots()[a].kind == SlotKind::kTemporary;
    const SlotIndex out = anew ? a : builder_.temporary(MYDEV_F32, {count + below(2), kWidth});
    if (anew && rows_of(out) != count) return;
    const mydev_attribute attribute = float_attribute("alpha", 1);
    if (!anew && rows_of(out) > count) builder_.fill(builder_.view(out), std::vector<std::byte>(4));
    switch (below(3)) {
      case 0:
        builder_.launch("mydev.add", {rows(out, count)}, {rows(a, count), rows(b, count)}, {&attribute, 1});
        break;
      case 1:
        builder_.launch("mydev.neg", {rows(out, count)}, {rows(a, count)});
        break;
      default:
        if (anew) return;
        builder_.copy(rows(out, count), rows(b, count));
    }
    if (!anew) slots_.push_back(out);
  }

  std::mt19937& random_;
  ProgramBuilder builder_;
  std::vector<SlotIndex> slots_;  // that hold something
};

// Steps on plain vectors, one for each slot.
std::vector<Values> run_step_by_step(const Program& program, const std::vector<Values>& parameters) {
  std::vector<Values> memory;
  for (const Slot& slot : program.slots()) memory.emplace_back(slot.bytes() / sizeof(float));
  for (size_t i = 0; i < parameters.size(); ++i) memory[program.parameters()[i]] = parameters[i];
  for (const Step& step : program.steps()) {
    const Operand& out = step.results[0];
    const auto count =
        static_cast<size_t>(std::accumulate(out.sizes.begin(), out.sizes.end(), int64_t{1}, std::multiplies<>()));
    for (size_t i = 0; i < count; ++i) {
      const auto value = [&](size_t operand) { return memory[step.operands[operand].slot][i]; };
      float& to = memory[out.slot][i];
      if (step.kind == StepKind::kFill) {
        to = 0;
      } else if (step.kind == StepKind::kCopy) {
        to = value(0);
      } else {
        to = step.name == "mydev.add" ? value(0) + value(1) : -value(0);
      }
    }
  }
  std::vector<Values> results;
  for (const SlotIndex slot : program.own_results()) results.push_back(memory[slot]);
  return results;
}

TEST(MemoryPlan, OfRandomProgramsHasNoTwoLiveValuesInOnePlace) {
  fuzz(2000, 1, [](std::mt19937& random) {
    const SharedProgram program = RandomProgram(random).build();
    std::vector<uint64_t> workspace(program->steps().size());
    for (uint64_t& bytes : workspace) bytes = random() % 3 == 0 ? random() % 200 : 0;
    for (const Given given : {Given::kWhole, Given::kWhenNeeded, Given::kUnaligned}) {
      const MemoryPlan plan = plan_memory(*program, kAlignment, workspace, given);
      EXPECT_NO_THROW(verify_plan(*program, plan, workspace)) << print(*program);
      EXPECT_LE(plan.live_bytes, plan.arena_bytes);
      EXPECT_LE(plan.arena_bytes, plan.unplanned_bytes);
    }
  });
}

// Memory that is not needed holds other values than any run leaves there.
class PoisonedMemory final : public RunMemory {
 public:
  PoisonedMemory(std::vector<Binding> parameters, std::vector<Binding> results)
      : parameters_(std::move(parameters)), results_(std::move(results)) {}
  Binding arena(size_t block, uint64_t bytes) override {
    arena_[block] = std::make_unique<Floats>(Values(bytes / sizeof(float), NAN));
    return arena_[block]->binding();
  }
  void release_arena(size_t block) noexcept override { poison(bytes_of(arena_[block]->binding())); }
  Binding result(size_t index) override { return results_[index]; }
  void release(size_t parameter) noexcept override { poison(bytes_of(parameters_[parameter])); }

 private:
  static std::span<std::byte> bytes_of(const Binding& binding) {
    return {static_cast<std::byte*>(binding.data), binding.bytes};
  }
  std::vector<Binding> parameters_, results_;
  std::map<size_t, std::unique_ptr<Floats>> arena_;
};

void run_poisoned(const SharedProgram& program, Arena arena, const std::vector<Binding>& parameters,
                  const std::vector<Binding>& results) {
  Executor executor(program, default_stream(0), caching_allocator_for(default_stream(0)), arena);
  if (arena == Arena::kKept) {
    poison(executor.arena());
    executor.run(default_stream(0), parameters, results);
  } else {
    PoisonedMemory memory(parameters, results);
    executor.run(default_stream(0), parameters, memory);
    default_stream(0).synchronize();
  }
}

TEST(MemoryPlan, OfRandomProgramsGivesWhatSeparateMemoryGives) {
  fuzz(200, 2, [](std::mt19937& random) {
    const SharedProgram program = parse(print(*RandomProgram(random).build()));
    std::vector<Values> parameters;
    for (const SlotIndex slot : program->parameters()) {
      Values& values = parameters.emplace_back(program->slots()[slot].bytes() / sizeof(float));
      for (float& value : values) value = static_cast<float>(random() % 64);
    }
    const std::vector<Values> expected = run_step_by_step(*program, parameters);
    for (const auto& [planned, arena] : {std::pair(program, Arena::kKept), std::pair(fuse(program), Arena::kKept),
                                         std::pair(program, Arena::kGiven), std::pair(fuse(program), Arena::kGiven)}) {
      std::vector<std::unique_ptr<Floats>> arrays, results;
      std::vector<Binding> given, taken;
      for (const Values& values : parameters) given.push_back(arrays.emplace_back(new Floats(values))->binding());
      for (const SlotIndex slot : program->own_results()) {
        taken.push_back(results.emplace_back(new Floats(Values(program->slots()[slot].bytes() / 4, NAN)))->binding());
      }
      run_poisoned(planned, arena, given, taken);
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(results[i]->read(), expected[i]) << print(*planned);
    }
  });
}

}  // namespace
}  // namespace mydev::program
