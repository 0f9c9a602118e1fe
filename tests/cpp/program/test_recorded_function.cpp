// Recording a function on addresses alone: parameters, results and temporaries, and steps that are left out.
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/launch/kernel_launch.h"
#include "kernels/registry/kernel_registry.h"
#include "program/record/recorder.h"
#include "program_fixture.h"
#include "runtime/memory/address_space.h"

namespace mydev::program {
namespace {

constexpr uint64_t kBytes = 16;

class RecordedFunctionTest : public ::testing::Test {
 protected:
  RecordedFunctionTest() { recorder_->begin(space_->stream()); }

  void* reserve() {
    blocks_.push_back(allocate(space_->stream(), kBytes));
    return blocks_.back()->data;
  }
  ~RecordedFunctionTest() override {
    for (Block* block : blocks_) release(*block);
  }
  mydev_buffer buffer(void* data) const {
    return {.data = data, .sizes = &count_, .strides = &stride_, .rank = 1, .dtype = MYDEV_F32};
  }
  void launch(const char* name, void* out, std::vector<void*> in) {
    const Launchable* kernel = resolve_step(device(0), name);
    ASSERT_NE(kernel, nullptr);
    std::vector<mydev_buffer> buffers = {buffer(out)};
    for (void* operand : in) buffers.push_back(buffer(operand));
    const std::vector<mydev_attribute> attributes = {float_attribute("alpha", 1)};
    const bool adds = std::string(name) == "mydev.add";
    mydev_frame frame = make_frame(buffers, 1, std::span(attributes).first(adds ? 1 : 0));
    launch_kernel(*kernel, frame, space_->stream());
  }
  Recording finish(std::vector<const void*> parameters, std::vector<const void*> results,
                   std::vector<const void*> donated = {}) {
    return recorder_->end({.reserved = space_->reservations(),
                           .parameters = std::move(parameters),
                           .results = std::move(results),
                           .donated = std::move(donated)});
  }
  static std::string text_of(const Recording& recording) {
    const std::string text = print(*recording.program);
    return text.substr(text.find("program function"));
  }

  std::shared_ptr<AddressSpace> space_ = std::make_shared<AddressSpace>(0);
  std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>("function", space_);
  std::vector<Block*> blocks_;
  const int64_t count_ = 4, stride_ = 1;
};

TEST_F(RecordedFunctionTest, AddressesAreParametersTemporariesAndResults) {
  void *x = reserve(), *t = reserve(), *y = reserve();
  launch("mydev.exp", t, {x});
  launch("mydev.relu", y, {t});
  const Recording recording = finish({x}, {y});
  EXPECT_EQ(text_of(recording), R"(program function(p0: f32[4]) -> (t2: f32[4]) {
  temporary t1: f32[4]
  t1 = launch mydev.exp(p0)
  t2 = launch mydev.relu(t1)
}
)");
  EXPECT_TRUE(recording.parameters.empty());
  EXPECT_EQ(recording.results, std::vector<size_t>{0});
}

TEST_F(RecordedFunctionTest, TakesNoMemoryOfTheDevice) {
  const AllocatorStats before = allocator_stats(0);
  Block* block = allocate(space_->stream(), size_t{1} << 40);
  const auto* begin = static_cast<char*>(block->data);
  EXPECT_NE(begin, nullptr);
  EXPECT_EQ(allocator_stats(0).allocated_bytes.all.current, before.allocated_bytes.all.current);
  EXPECT_EQ(allocator_stats(0).allocation.all.allocated, before.allocation.all.allocated);
  release(*block);
  Block* other = allocate(space_->stream(), 1);
  EXPECT_FALSE(other->data >= begin && other->data < begin + (size_t{1} << 40)) << "used again";
  release(*other);
}

TEST_F(RecordedFunctionTest, OtherMemoryIsAParameterBehindThem) {
  const Floats weight({1, 2, 3, 4});
  void *x = reserve(), *y = reserve();
  launch("mydev.add", y, {x, weight.binding().data});
  Recording recording = finish({x}, {y});
  ASSERT_EQ(recording.parameters.size(), 1U);
  EXPECT_EQ(recording.parameters[0].data, weight.binding().data);
  Executor executor(recording.program, default_stream(0), caching_allocator_for(default_stream(0)));
  for (const float value : {1.F, 5.F}) {
    const Floats in({value, value, value, value}), out({0, 0, 0, 0});
    executor.run(default_stream(0), std::vector{in.binding(), recording.parameters[0]}, std::vector{out.binding()});
    EXPECT_EQ(out.read(), (std::vector<float>{value + 1, value + 2, value + 3, value + 4}));
  }
}

TEST_F(RecordedFunctionTest, AParameterThatIsWrittenIsReturned) {
  void *x = reserve(), *y = reserve();
  launch("mydev.relu", x, {x});
  launch("mydev.exp", y, {x});
  const Recording recording = finish({x}, {y});
  EXPECT_NE(text_of(recording).find("(donated p0: f32[4]) -> (p0, t1: f32[4])"), std::string::npos)
      << text_of(recording);
}

TEST_F(RecordedFunctionTest, ADonatedParameterHoldsTemporaries) {
  void *x = reserve(), *t = reserve(), *u = reserve(), *y = reserve();
  launch("mydev.exp", t, {x});
  launch("mydev.relu", u, {t});
  launch("mydev.add", y, {u, u});
  const Recording recording = finish({x}, {y}, {x});
  EXPECT_NE(text_of(recording).find("(donated p0: f32[4]) -> (t3: f32[4])"), std::string::npos) << text_of(recording);
  EXPECT_EQ(plan_memory(*recording.program, 64).arena_bytes, 0U) << "both lie in x";
}

TEST_F(RecordedFunctionTest, StepsThatChangeNothingAreLeftOut) {
  void *x = reserve(), *t = reserve(), *unused = reserve(), *never_written = reserve(), *copy = reserve();
  void* y = reserve();
  launch("mydev.exp", unused, {x});
  launch("mydev.relu", copy, {never_written});
  launch("mydev.relu", copy, {x});
  launch("mydev.exp", t, {x});  // written over before it is read
  launch("mydev.relu", t, {copy});
  launch("mydev.add", y, {t, x});
  EXPECT_EQ(text_of(finish({x}, {y})), R"(program function(p0: f32[4]) -> (t3: f32[4]) {
  temporary t1: f32[4]
  temporary t2: f32[4]
  t2 = launch mydev.relu(p0)
  t1 = launch mydev.relu(t2)
  t3 = launch mydev.add(t1, p0; alpha=1.0)
}
)");
}

TEST_F(RecordedFunctionTest, WhatIsPartlyUndefinedIsAnError) {
  void *x = reserve(), *never_written = reserve(), *y = reserve();
  launch("mydev.add", y, {x, never_written});
  expect_error(error_of([&] { finish({x}, {y}); }), MYDEV_INVALID_ARGUMENT, "is read before a step has written it");
}

TEST_F(RecordedFunctionTest, ASpaceTakesOneStream) {
  Stream& other = stream_from_pool(0, 0);
  expect_error(error_of([&] { static_cast<void>(space_->key_of(other)); }), MYDEV_FAILED_PRECONDITION,
               "a function is recorded on one stream");
}

// Memory of a run that keeps account of what it is asked for, among what has run by then.
class LoggedMemory final : public RunMemory {
 public:
  LoggedMemory(Binding arena, std::vector<Binding> results) : arena_(arena), results_(std::move(results)) {}
  Binding arena(size_t block, uint64_t bytes) override {
    asked("block " + std::to_string(block) + " of " + std::to_string(bytes));
    return arena_;
  }
  void release_arena(size_t block) noexcept override { asked("no block " + std::to_string(block)); }
  Binding result(size_t index) override { return asked("result " + std::to_string(index)), results_.at(index); }
  void release(size_t parameter) noexcept override { asked("no parameter " + std::to_string(parameter)); }
  // A step of a program that says it has come to.
  HostFunction here(const std::string& what) {
    return [this, what](std::span<const mydev_buffer> /*buffers*/) { events.push_back(what); };
  }
  std::vector<std::string> events;

 private:
  void asked(const std::string& what) {
    default_stream(0).synchronize();  // what was submitted before has said so
    events.push_back(what);
  }
  Binding arena_;
  std::vector<Binding> results_;
};

Executor given_executor(const SharedProgram& program) {
  return Executor(program, default_stream(0), caching_allocator_for(default_stream(0)), Arena::kGiven);
}

TEST(GivenMemory, IsAnArenaThatIsCheckedAndUsed) {
  Executor executor = given_executor(parsed(R"(program p(x: f32[4]) -> (y: f32[4]) {
  temporary t: f32[4]
  temporary u: f32[4]
  t = launch mydev.exp(x)
  u = launch mydev.relu(t)
  y = launch mydev.add(u, t; alpha=1.0)
})"));
  const uint64_t bytes = executor.plan().arena_bytes;
  ASSERT_NE(bytes, 0U);
  EXPECT_TRUE(executor.arena().empty());
  const Floats x({0, 0, 0, 0}), y({0, 0, 0, 0}), arena(std::vector<float>(256, 7.F));
  const auto run = [&](const Binding& given) {
    LoggedMemory memory(given, {y.binding()});
    executor.run(default_stream(0), std::vector{x.binding()}, memory);
  };
  for (const Binding& wrong : {Binding{}, Binding{arena.binding().data, bytes - 1},
                               Binding{static_cast<char*>(arena.binding().data) + 4, bytes}}) {
    expect_error(error_of([&] { run(wrong); }), MYDEV_INVALID_ARGUMENT, "program 'p' takes an arena of");
  }
  run(arena.binding());
  EXPECT_EQ(y.read(), (std::vector<float>{2, 2, 2, 2}));
  EXPECT_NE(arena.read(), std::vector<float>(256, 7.F));
}

TEST(GivenMemory, ComesWhenItIsNeededAndGoesWhenItIsNot) {
  const uint64_t alignment = default_stream(0).device().properties.alignment;
  if (alignment != 64) GTEST_SKIP() << "needs an alignment of 64 bytes, has " << alignment;
  const Floats big(std::vector<float>(64, 1)), x({1, 2, 3, 4}), y({0, 0, 0, 0}), z({0, 0, 0, 0});
  const Floats arena(std::vector<float>(16, 0));
  LoggedMemory memory(arena.binding(), {y.binding(), z.binding()});
  ProgramBuilder builder("p");
  const SlotIndex first = builder.parameter(MYDEV_F32, {64}, /*donated=*/true, "big");
  const SlotIndex second = builder.parameter(MYDEV_F32, {4}, false, "x");
  const SlotIndex t = builder.temporary(MYDEV_F32, {4}, "t");
  const SlotIndex late = builder.temporary(MYDEV_F32, {4}, "z"), early = builder.temporary(MYDEV_F32, {4}, "y");
  builder.returns(early);
  builder.returns(late);
  Operand some = builder.view(first);
  some.sizes = {4};
  builder.launch("mydev.exp", {builder.view(early)}, {some});
  builder.host_call("behind the big one", memory.here("behind big"), {}, {});
  builder.launch("mydev.exp", {builder.view(t)}, {builder.view(second)});
  builder.launch("mydev.add", {builder.view(late)}, {builder.view(t), builder.view(early)},
                 std::array{float_attribute("alpha", 1)});
  builder.host_call("at the end", memory.here("end"), {}, {});
  Executor executor = given_executor(std::move(builder).build());
  executor.run(default_stream(0), std::vector{big.binding(), x.binding()}, memory);
  default_stream(0).synchronize();
  EXPECT_EQ(memory.events, (std::vector<std::string>{"result 0", "no parameter 0", "behind big", "block 0 of 64",
                                                     "no parameter 1", "result 1", "no block 0", "end"}));
}

TEST(GivenMemory, StopsTheRunWhereThereIsNone) {
  const SharedProgram program = parsed(R"(program p(x: f32[4]) -> (y: f32[4], z: f32[4]) {
  y = launch mydev.exp(x)
  z = launch mydev.exp(y)
})");
  Executor executor = given_executor(program);
  const Floats x({0, 0, 0, 0}), y({7, 7, 7, 7}), z({7, 7, 7, 7});
  LoggedMemory too_small({}, {y.binding(), {z.binding().data, 15}});
  expect_error(error_of([&] { executor.run(default_stream(0), std::vector{x.binding()}, too_small); }),
               MYDEV_INVALID_ARGUMENT, "result 'z' has 16 bytes, and is given 15");
  EXPECT_EQ(y.read(), (std::vector<float>{1, 1, 1, 1}));
  EXPECT_EQ(z.read(), (std::vector<float>{7, 7, 7, 7}));
  LoggedMemory enough({}, {y.binding(), z.binding()});
  executor.run(default_stream(0), std::vector{x.binding()}, enough);
  EXPECT_EQ(z.read(), std::vector<float>(4, std::exp(1.F)));
}

}  // namespace
}  // namespace mydev::program
