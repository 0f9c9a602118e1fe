// Commands: the launches, copies, fills and host calls that are reported to hooks, their statistics, and the names in
// errors of asynchronous ones. The tests run with whichever driver MYDEV_DRIVER names.
#include "runtime/command/command_hooks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/source_location.h"
#include "runtime/command/activities.h"
#include "runtime/command/host_work.h"
#include "runtime/command/launch.h"
#include "runtime/command/statistics.h"
#include "runtime/command/transfer.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

mydev_code do_nothing(const mydev_frame* /*frame*/) {
  return MYDEV_OK;
}
constexpr mydev_kernel kNothing = {sizeof(mydev_kernel), "test.nothing", do_nothing, nullptr, nullptr, nullptr};

mydev_code fail(const mydev_frame* frame) {
  frame->host->set_error(frame, "it went wrong");
  return MYDEV_OUT_OF_RANGE;
}
constexpr mydev_kernel kFailing = {sizeof(mydev_kernel), "test.failing", fail, nullptr, nullptr, nullptr};

// Device memory that goes when the test ends.
class Memory {
 public:
  explicit Memory(size_t bytes) : block_(allocate(default_stream(0), bytes)) {}
  ~Memory() { release(*block_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* data() const { return block_->data; }

 private:
  Block* block_;
};

// Collects the commands that are reported to hooks while it exists.
class Listener {
 public:
  Listener() : id_(add_command_hook({.submitted = on_submitted, .finished = on_finished, .context = this})) {}
  ~Listener() {
    default_stream(0).synchronize();
    remove_command_hook(id_);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  std::vector<CommandRecord> finished() {
    default_stream(0).synchronize();
    const std::lock_guard lock(mutex_);
    return finished_;
  }
  std::vector<std::string> submitted() {
    const std::lock_guard lock(mutex_);
    return submitted_;
  }

 private:
  static void on_submitted(void* context, const CommandRecord& record) {
    auto& self = *static_cast<Listener*>(context);
    const std::lock_guard lock(self.mutex_);
    self.submitted_.push_back(std::string(command_kind_name(record.kind)) + " " + record.name + " " +
                              code_name(record.code));
  }
  static void on_finished(void* context, const CommandRecord& record) {
    auto& self = *static_cast<Listener*>(context);
    const std::lock_guard lock(self.mutex_);
    self.finished_.push_back(record);
  }

  std::mutex mutex_;
  std::vector<std::string> submitted_;
  std::vector<CommandRecord> finished_;
  int id_;
};

TEST(Command, HooksSeeEachKindInTheOrderOfSubmission) {
  const Memory memory(64);
  std::array<char, 64> host{};
  Stream& stream = default_stream(0);
  Listener listener;
  mydev_frame frame = make_frame({}, 0);
  launch(kNothing, frame, stream);
  copy_bytes(stream, memory.data(), host.data(), 64, MYDEV_COPY_HOST_TO_DEVICE);
  copy_bytes(stream, host.data(), memory.data(), 64, MYDEV_COPY_DEVICE_TO_HOST);
  const char zero = 0;
  if (stream.device().driver->fill != nullptr) fill_bytes(stream, memory.data(), 64, &zero, 1);
  submit_host_call(stream, "a call", [] {});
  {
    const HostWork work("some work", stream);
  }
  std::vector<std::string> expected = {"launch test.nothing OK",   "copy copy to the device OK",
                                       "copy copy to the host OK", "fill fill OK",
                                       "host call a call OK",      "host call some work OK"};
  if (stream.device().driver->fill == nullptr) expected.erase(expected.begin() + 3);
  EXPECT_EQ(listener.submitted(), expected);
}

TEST(Command, WhatHasRunIsTimedInOrder) {
  const Memory memory(1 << 20);
  std::vector<char> host(1 << 20);
  Stream& stream = default_stream(0);
  Listener listener;
  for (int i = 0; i < 4; ++i) {
    copy_bytes(stream, memory.data(), host.data(), host.size(), MYDEV_COPY_HOST_TO_DEVICE);
  }
  const std::vector<CommandRecord> records = listener.finished();
  ASSERT_EQ(records.size(), 4U);
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_LE(records[i].begin_ns, records[i].end_ns);
    EXPECT_EQ(records[i].bytes, host.size());
    EXPECT_EQ(records[i].dst, memory.data());
    EXPECT_EQ(records[i].frame, nullptr);
    if (i > 0) {
      EXPECT_GT(records[i].id, records[i - 1].id);
      EXPECT_GE(records[i].end_ns, records[i - 1].end_ns);
    }
  }
}

TEST(Command, NothingIsNoCommand) {
  const Memory memory(64);
  Listener listener;
  copy_bytes(default_stream(0), memory.data(), nullptr, 0, MYDEV_COPY_HOST_TO_DEVICE);
  EXPECT_TRUE(listener.submitted().empty());
}

TEST(Command, StatisticsCountCallsAndBytesOfAllThreads) {
  const auto calls = [] {
    default_stream(0).synchronize();
    uint64_t count = 0, bytes = 0;
    for (const CommandRow& row : command_rows()) {
      if (row.name != "test.nothing") continue;
      count += row.calls;
      bytes += row.bytes;
      EXPECT_GE(row.nanoseconds, 0);
    }
    return std::pair(count, bytes);
  };
  const auto before = calls();
  const auto launch_some = [] {
    float values[8] = {};
    const int64_t size = 8, stride = 1, expanded = 0;
    const std::array operands{mydev_buffer{values, &size, &stride, 1, MYDEV_F32},
                              mydev_buffer{values, &size, &expanded, 1, MYDEV_F32}};
    mydev_frame frame = make_frame(operands, 1);
    for (int i = 0; i < 10; ++i) launch(kNothing, frame, default_stream(0));
    default_stream(0).synchronize();
  };
  launch_some();
  EXPECT_EQ(calls(), before) << "nobody counts";
  begin_command_statistics();
  std::thread(launch_some).join();
  launch_some();
  const auto after = calls();
  end_command_statistics();
  EXPECT_EQ(after.first - before.first, 20U);
  EXPECT_EQ(after.second - before.second, 20U * (32 + 4));
  EXPECT_THROW(end_command_statistics(), Error);
}

TEST(Command, AFrameOfAnySizeIsKeptUntilItHasRun) {
  // Far more than a block of the pool: attributes are copied with the frame.
  std::vector<int64_t> numbers(5000);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int64_t>(i);
  static std::atomic<int64_t> sum;
  sum = 0;
  constexpr mydev_kernel kSum = {sizeof(mydev_kernel),
                                 "test.sum",
                                 [](const mydev_frame* frame) {
                                   for (uint32_t i = 0; i < frame->attributes[0].count; ++i) {
                                     sum += frame->attributes[0].value.ints[i];
                                   }
                                   return MYDEV_OK;
                                 },
                                 nullptr,
                                 nullptr,
                                 nullptr};
  {
    mydev_attribute attribute{};
    attribute.name = "numbers";
    attribute.kind = MYDEV_ATTRIBUTE_INT_ARRAY;
    attribute.count = static_cast<uint32_t>(numbers.size());
    attribute.value.ints = numbers.data();
    mydev_frame frame = make_frame({}, 0, std::span(&attribute, 1));
    for (int i = 0; i < 100; ++i) launch(kSum, frame, default_stream(0));
  }
  std::fill(numbers.begin(), numbers.end(), 0);
  default_stream(0).synchronize();
  EXPECT_EQ(sum, 100 * 4999 * 2500);
}

// --- injected faults, each in a process of its own -------------------------------------------------------------------

[[noreturn]] void run_with(const char* driver, void (*body)(Stream& stream, void* memory, char* host)) {
  ::setenv("MYDEV_DRIVER", driver, 1);
  set_source_locator([] { return "train.py:12 in step"; });
  std::array<char, 64> host{};
  Stream& stream = default_stream(0);
  Block* block = allocate(stream, 64);
  for (int attempt = 0; attempt < 3; ++attempt) {
    try {
      body(stream, block->data, host.data());
      stream.synchronize();
      std::fprintf(stderr, "attempt %d went well\n", attempt);
    } catch (const Error& error) {
      std::fprintf(stderr, "attempt %d: %s\n", attempt, error.what());
    }
  }
  release(*block);
  std::exit(0);
}

void copy_down(Stream& stream, void* memory, char* host) {
  copy_bytes(stream, memory, host, 64, MYDEV_COPY_HOST_TO_DEVICE);
}
void fill_it(Stream& stream, void* memory, char* /*host*/) {
  const char zero = 0;
  fill_bytes(stream, memory, 64, &zero, 1);
}
void launch_it(Stream& stream, void* /*memory*/, char* /*host*/) {
  mydev_frame frame = make_frame({}, 0);
  launch(kNothing, frame, stream);
}
void call_it(Stream& stream, void* /*memory*/, char* /*host*/) {
  submit_host_call(stream, "a call", [] {});
}
void call_and_throw(Stream& stream, void* /*memory*/, char* /*host*/) {
  submit_host_call(stream, "a call", [] { throw std::runtime_error("no luck"); });
}

constexpr const char* kThenWell = ".*\n.*attempt 2 went well";

TEST(FreshProcess, AnInjectedFaultOfACopyIsToldOnceWithItsLine) {
  EXPECT_EXIT(run_with("host:async,faults=copy@2", copy_down), testing::ExitedWithCode(0),
              std::string("attempt 0 went well\nattempt 1: injected fault in copy number 2 .INTERNAL in work of stream "
                          "0 on device mydev:0.\n.*since it was last waited for:\n  copy to the device of 64 bytes "
                          "from 0x[0-9a-f]+ to 0x[0-9a-f]+, submitted at train.py:12 in step") +
                  kThenWell);
}

TEST(FreshProcess, AnInjectedFaultOfAFillIsToldOnceWithItsLine) {
  EXPECT_EXIT(run_with("host:async,faults=fill@2", fill_it), testing::ExitedWithCode(0),
              std::string("attempt 1: injected fault in fill number 2 .INTERNAL.*\n.*\n  fill of 64 bytes at "
                          "0x[0-9a-f]+, submitted at train.py:12 in step") +
                  kThenWell);
}

TEST(FreshProcess, AnInjectedFaultOfALaunchIsToldOnceWithItsLine) {
  EXPECT_EXIT(run_with("host:async,faults=launch@2", launch_it), testing::ExitedWithCode(0),
              std::string("attempt 1: injected fault in launch number 2 .INTERNAL in test.nothing.. on device "
                          "mydev:0., launched at train.py:12 in step") +
                  kThenWell);
}

TEST(FreshProcess, AnInjectedFaultOfAHostCallIsToldAtOnce) {
  EXPECT_EXIT(
      run_with("host:async,faults=host_call@2", call_it), testing::ExitedWithCode(0),
      std::string("attempt 1: giving a stream a host call failed on device mydev:0: injected fault in host_call "
                  "number 2 .INTERNAL.") +
          kThenWell);
}

TEST(FreshProcess, InlineFaultsAreToldAtOnce) {
  EXPECT_EXIT(run_with("host:faults=copy@2", copy_down), testing::ExitedWithCode(0),
              std::string("attempt 1: copy to the device of 64 bytes from 0x[0-9a-f]+ to 0x[0-9a-f]+ failed on device "
                          "mydev:0: injected fault in copy number 2 .INTERNAL.") +
                  kThenWell);
}

TEST(FreshProcess, AHostCallThatThrowsSticksToTheStreamWithItsLine) {
  EXPECT_EXIT(run_with("host:async", call_and_throw), testing::ExitedWithCode(0),
              "attempt 0: the host call a call failed: no luck .INTERNAL on stream 0 of device mydev:0., submitted at "
              "train.py:12 in step");
}

TEST(FreshProcess, LateCommandsKeepTheirOrder) {
  EXPECT_EXIT(run_with("host:async,faults=7",
                       [](Stream& stream, void* memory, char* host) {
                         for (char i = 1; i < 100; ++i) {
                           fill_bytes(stream, memory, 64, &i, 1);
                           copy_bytes(stream, host, memory, 64, MYDEV_COPY_DEVICE_TO_HOST);
                           stream.synchronize();
                           if (host[0] != i || host[63] != i) raise(MYDEV_INTERNAL, "out of order");
                         }
                       }),
              testing::ExitedWithCode(0), "attempt 0 went well\nattempt 1 went well\nattempt 2 went well");
}

TEST(Command, ActivitiesAreOfWhomTheThreadWorkedFor) {
  Stream& stream = default_stream(0);
  mydev_frame frame = make_frame({}, 0);
  begin_activities();
  push_cause(Cause::kAnnotation, 7);
  push_cause(Cause::kOperator, 1);
  push_cause(Cause::kOperator, 2);
  launch(kNothing, frame, stream);
  pop_cause(Cause::kOperator);
  launch(kNothing, frame, stream);
  std::thread([&] { launch(kNothing, frame, stream); }).join();
  stream.synchronize();
  const std::vector<Activity> activities = end_activities();
  ASSERT_EQ(activities.size(), 3U);
  const auto causes = [&](size_t i) { return std::pair(activities[i].operator_id, activities[i].annotation_id); };
  EXPECT_EQ(causes(0), std::pair(uint64_t{2}, uint64_t{7}));
  EXPECT_EQ(causes(1), std::pair(uint64_t{1}, uint64_t{7}));
  EXPECT_EQ(causes(2), std::pair(uint64_t{0}, uint64_t{0}));
  EXPECT_EQ(activities[0].thread, activities[1].thread);
  EXPECT_NE(activities[1].thread, activities[2].thread);
  EXPECT_EQ(activities[0].operands, "test.nothing()");
  for (const Activity& activity : activities) {
    EXPECT_LE(activity.submit_begin_ns, activity.begin_ns);
    EXPECT_LE(activity.begin_ns, activity.end_ns);
  }
}

TEST(Command, ActivitiesOfOneRecordingAreNotOfTheNext) {
  Stream& stream = default_stream(0);
  mydev_frame frame = make_frame({}, 0);
  begin_activities();
  push_cause(Cause::kOperator, 1);
  launch(kNothing, frame, stream);
  begin_activities();
  launch(kNothing, frame, stream);
  pop_cause(Cause::kOperator);  // of a push that came before
  stream.synchronize();
  const std::vector<Activity> activities = end_activities();
  launch(kNothing, frame, stream);
  ASSERT_EQ(activities.size(), 1U);
  EXPECT_EQ(activities[0].operator_id, 0U);
  EXPECT_TRUE(end_activities().empty());
}

TEST(Command, ActivityEnclosesThoseThatAreSubmittedFromInsideIt) {
  Stream& stream = default_stream(0);
  mydev_frame frame = make_frame({}, 0);
  begin_activities();
  {
    const HostWork work("some work", stream);
    launch(kNothing, frame, stream);
  }
  {
    const HostWork work("other work", stream);
  }
  stream.synchronize();
  const std::vector<Activity> activities = end_activities();
  ASSERT_EQ(activities.size(), 3U);
  EXPECT_STREQ(activities[0].name, "some work");
  EXPECT_TRUE(activities[0].encloses);
  EXPECT_FALSE(activities[1].encloses);
  EXPECT_FALSE(activities[2].encloses);
}

TEST(Command, ActivityThatWasRefusedIsNone) {
  Stream& stream = default_stream(0);
  mydev_frame frame = make_frame({}, 0);
  begin_activities();
  try {
    launch(kFailing, frame, stream);
    stream.synchronize();
    ADD_FAILURE() << "no error";
  } catch (const Error&) {
  }
  const size_t recorded = end_activities().size();
  EXPECT_EQ(recorded, stream.asynchronous() ? 1U : 0U);  // it ran there, and failed
}

}  // namespace
}  // namespace mydev
