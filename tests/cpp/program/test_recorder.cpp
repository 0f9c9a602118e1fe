// Capturing streams: what they are given becomes the steps of a program, and memory stays where the program finds it.
#include <string>
#include <vector>

#include "kernels/launch/kernel_launch.h"
#include "kernels/registry/kernel_registry.h"
#include "program/record/recorder.h"
#include "program/text/graphviz.h"
#include "program_fixture.h"
#include "runtime/command/host_function.h"
#include "runtime/command/host_work.h"
#include "runtime/memory/private_pool.h"
#include "runtime/stream/event.h"

namespace mydev::program {
namespace {

class RecorderTest : public ::testing::Test {
 protected:
  std::shared_ptr<PrivatePool> pool_ = std::make_shared<PrivatePool>();
  std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>("recorded", pool_);
  Stream& stream_ = stream_from_pool(0, 0);
  const int64_t count_ = 4, stride_ = 1;

  mydev_buffer buffer(void* data) const {
    return {.data = data, .sizes = &count_, .strides = &stride_, .rank = 1, .dtype = MYDEV_F32};
  }
  void relu(void* out, void* in, Stream& stream) const {
    const Launchable* kernel = resolve_step(device(0), "mydev.relu");
    ASSERT_NE(kernel, nullptr);
    const std::vector<mydev_buffer> buffers = {buffer(out), buffer(in)};
    mydev_frame frame = make_frame(buffers, 1);
    launch_kernel(*kernel, frame, stream);
  }
  // The steps, without the line of the version and the program's own.
  static std::string steps_of(const Program& program) {
    std::string text = print(program);
    text = text.substr(text.find("{\n") + 2);
    return text.substr(0, text.rfind("}"));
  }
};

TEST_F(RecorderTest, HostFunctionsAreStepsWhereTheyAreWanted) {
  int calls = 0;
  recorder_->begin(stream_);
  EXPECT_THROW(launch_host_function(stream_, "tick", [&] { ++calls; }), Error);
  EXPECT_TRUE(recorder_->end().program->steps().empty());

  const auto relaxed = std::make_shared<Recorder>("recorded", pool_, HostFunctions::kRecorded);
  relaxed->begin(stream_);
  launch_host_function(stream_, "tick", [&] { ++calls; });
  EXPECT_THROW(submit_host_call(stream_, "once", [] {}), Error);  // happens once, and is no step
  Recording recording = relaxed->end();
  EXPECT_EQ(steps_of(*recording.program), "  host \"tick\"()\n");
  Executor executor = executor_of(recording.program, stream_);
  for (int run = 1; run <= 3; ++run) {
    executor.run(stream_, recording.parameters);
    stream_.synchronize();
    EXPECT_EQ(calls, run);
  }
}

TEST_F(RecorderTest, CommandsAreSteps) {
  const Floats in({-1, 2, -3, 4}), out({9, 9, 9, 9}), copied({9, 9, 9, 9});
  recorder_->begin(stream_);
  relu(out.binding().data, in.binding().data, stream_);
  copy_bytes(stream_, copied.binding().data, out.binding().data, 8, MYDEV_COPY_DEVICE_TO_DEVICE);
  const float seven = 7;
  fill_bytes(stream_, static_cast<char*>(copied.binding().data) + 8, 8, &seven, sizeof(seven));
  Recording recording = recorder_->end();
  EXPECT_EQ(out.read(), (std::vector<float>{9, 9, 9, 9}));  // nothing has run
  ASSERT_EQ(recording.program->steps().size(), 3U);
  EXPECT_EQ(recording.program->steps()[0].name, "mydev.relu");
  EXPECT_EQ(recording.program->steps()[1].kind, StepKind::kCopy);
  EXPECT_EQ(recording.program->steps()[2].kind, StepKind::kFill);
  EXPECT_EQ(print(*parse(print(*recording.program))), print(*recording.program));
  Executor executor = executor_of(recording.program, stream_);
  for (int run = 0; run < 2; ++run) {
    executor.run(stream_, recording.parameters);
    EXPECT_EQ(out.read(stream_), (std::vector<float>{0, 2, 0, 4}));
    EXPECT_EQ(copied.read(stream_), (std::vector<float>{0, 2, 7, 7}));
  }
}

TEST_F(RecorderTest, StreamsThatWaitForEventsAreLanes) {
  const Floats in({-1, 2, -3, 4}), left({0, 0, 0, 0}), right({0, 0, 0, 0}), both({0, 0, 0, 0});
  Stream& side = stream_from_pool(0, 0);
  Event fork(0, false), join(0, false);
  recorder_->begin(stream_);
  relu(left.binding().data, in.binding().data, stream_);
  fork.record(stream_);
  fork.block(side);
  EXPECT_NE(side.capture(), nullptr);
  relu(right.binding().data, left.binding().data, side);
  join.record(side);
  join.block(stream_);
  relu(both.binding().data, right.binding().data, stream_);
  const Recording recording = recorder_->end();
  EXPECT_EQ(side.capture(), nullptr);
  const std::vector<Step>& steps = recording.program->steps();
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[1].lane, 1U);
  EXPECT_EQ(steps[1].after, std::vector<StepIndex>{0});
  EXPECT_EQ(steps[2].lane, 0U);
  EXPECT_EQ(steps[2].after, std::vector<StepIndex>{1});
  EXPECT_NE(steps_of(*recording.program).find("lane 1 after 0"), std::string::npos) << print(*recording.program);
  const std::string drawing = dot_of(*recording.program);
  EXPECT_NE(drawing.find("s0 -> s1;"), std::string::npos) << drawing;
  EXPECT_NE(drawing.find("s1 -> s2 [style=dashed];"), std::string::npos) << drawing;
}

TEST_F(RecorderTest, AStreamThatIsNotWaitedForIsAnError) {
  const Floats in({-1, 2, -3, 4}), out({0, 0, 0, 0});
  Stream& side = stream_from_pool(0, 0);
  Event fork(0, false);
  recorder_->begin(stream_);
  fork.record(stream_);
  fork.block(side);
  relu(out.binding().data, in.binding().data, side);
  expect_error(error_of([&] { recorder_->end(); }), MYDEV_FAILED_PRECONDITION, "did not wait for its last 1 commands");
  EXPECT_EQ(side.capture(), nullptr);
  EXPECT_EQ(stream_.capture(), nullptr);
}

TEST_F(RecorderTest, WhatWaitsIsRefusedAndTheCaptureGoesOn) {
  const Floats in({-1, 2, -3, 4}), out({0, 0, 0, 0});
  Event before(0, false), timed(0, true);
  float value = 0;
  recorder_->begin(stream_);
  const auto refused = [](const auto& body) { expect_error(error_of(body), MYDEV_FAILED_PRECONDITION, "captur"); };
  refused([&] { stream_.synchronize(); });
  refused([&] { stream_.query(); });
  refused([&] { synchronize_device(device(0)); });
  refused([&] { copy_bytes(stream_, &value, in.binding().data, 4, MYDEV_COPY_DEVICE_TO_HOST); });
  refused([&] { copy_bytes(stream_, in.binding().data, &value, 4, MYDEV_COPY_HOST_TO_DEVICE); });
  refused([&] { timed.record(stream_); });
  refused([&] { const HostWork work("an operator", stream_); });
  refused([&] { submit_host_call(stream_, "a callback", [] {}); });
  refused([&] { std::make_shared<Recorder>("inner", pool_)->begin(stream_); });
  before.record(stream_);
  refused([&] { before.query(); });
  refused([&] { before.synchronize(); });
  relu(out.binding().data, in.binding().data, stream_);
  EXPECT_EQ(recorder_->end().program->steps().size(), 1U);
  refused([&] { before.block(stream_); });  // its capture has ended
  stream_.synchronize();
}

TEST_F(RecorderTest, MemoryFromOutsideIsHeld) {
  Block* in = allocate(default_stream(0), 16);
  const Floats out({0, 0, 0, 0});
  recorder_->begin(stream_);
  relu(out.binding().data, in->data, stream_);
  release(*in);
  EXPECT_EQ(in->references.load(), 1);
  {
    const Recording recording = recorder_->end();
    EXPECT_EQ(in->references.load(), 1);
  }
  EXPECT_EQ(in->references.load(), 0);
}

TEST_F(RecorderTest, MemoryOfTheCaptureIsItsPools) {
  recorder_->begin(stream_);
  Block* first = allocate(stream_, 4096);
  void* data = first->data;
  EXPECT_NE(first->stream, &stream_);
  release(*first);
  Block* second = allocate(stream_, 4096);
  EXPECT_EQ(second->data, data);  // reused, in the order of the capture
  release(*second);
  recorder_->cancel();
  Block* outside = allocate(stream_, 4096);
  EXPECT_NE(outside->data, data);
  release(*outside);
  empty_cache(0);
  EXPECT_GT(allocator_stats(0).reserved_bytes.all.current, 0);  // kept while the pool lives
  recorder_ = nullptr;
  pool_ = nullptr;
  empty_cache(0);
  EXPECT_EQ(allocator_stats(0).reserved_bytes.all.current, 0);
}

TEST_F(RecorderTest, ABlockOfAnotherStreamIsKeptUntilTheEnd) {
  Stream& side = stream_from_pool(0, 0);
  Event fork(0, false), join(0, false);
  recorder_->begin(stream_);
  fork.record(stream_);
  fork.block(side);
  Block* shared = allocate(stream_, 4096);
  void* data = shared->data;
  record_stream(*shared, side);
  release(*shared);
  Block* next = allocate(stream_, 4096);
  EXPECT_NE(next->data, data);  // the side stream may still use it
  release(*next);
  join.record(side);
  join.block(stream_);
  recorder_->end();
}

}  // namespace
}  // namespace mydev::program
