// The conformance suite for drivers, continued: streams, events, launches, threads. See test_driver_conformance.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <future>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "driver_conformance_fixture.h"
#include "runtime/base/status.h"
#include "runtime/launch/launch.h"

namespace mydev::conformance {
namespace {

// --- streams and events ----------------------------------------------------------------------------------------------

TEST_F(DriverConformance, MakesStreamsOfEachPriority) {
  const mydev_device_properties& properties = device(0).properties;
  for (int priority = properties.stream_priority_high; priority <= properties.stream_priority_low; ++priority) {
    mydev_stream made = nullptr;
    ASSERT_EQ(driver().stream_create(0, priority, &made), MYDEV_OK);
    EXPECT_NE(made, nullptr);
    EXPECT_EQ(driver().stream_destroy(made), MYDEV_OK);
  }
}

TEST_F(DriverConformance, AnIdleStreamIsDone) {
  mydev_stream made = nullptr;
  ASSERT_EQ(driver().stream_create(0, 0, &made), MYDEV_OK);
  int32_t done = 0;
  EXPECT_EQ(driver().stream_query(made, &done), MYDEV_OK);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(driver().stream_synchronize(made), MYDEV_OK);
  EXPECT_EQ(driver().stream_destroy(made), MYDEV_OK);
}

TEST_F(DriverConformance, DestroyingAStreamWaitsForItsWork) {
  mydev_stream made = nullptr;
  ASSERT_EQ(driver().stream_create(0, 0, &made), MYDEV_OK);
  const DeviceMemory memory(4 << 20);
  const unsigned char pattern = 5;
  ASSERT_EQ(driver().fill(made, memory.data(), memory.bytes(), &pattern, 1), MYDEV_OK);
  ASSERT_EQ(driver().stream_destroy(made), MYDEV_OK);
  EXPECT_EQ(download(stream(), memory), Bytes(memory.bytes(), 5));
}

TEST_F(DriverConformance, WorkOnOneStreamRunsInOrder) {
  const DeviceMemory first(1 << 16);
  const DeviceMemory second(1 << 16);
  for (unsigned char step = 1; step <= 50; ++step) {
    fill(stream(), first, {step});
    ASSERT_EQ(driver().copy(stream().handle(), second.data(), first.data(), first.bytes(), MYDEV_COPY_DEVICE_TO_DEVICE),
              MYDEV_OK);
  }
  fill(stream(), first, {0});
  EXPECT_EQ(download(stream(), second), Bytes(second.bytes(), 50));
}

// An event for the time of a scope.
class DriverEvent {
 public:
  explicit DriverEvent(uint32_t flags = 0) {
    check_driver(device(0), device(0).driver->event_create(0, flags, &handle_), "creating an event");
  }
  ~DriverEvent() { EXPECT_EQ(device(0).driver->event_destroy(handle_), MYDEV_OK); }
  DriverEvent(const DriverEvent&) = delete;
  DriverEvent& operator=(const DriverEvent&) = delete;
  mydev_event handle() const { return handle_; }

 private:
  mydev_event handle_ = nullptr;
};

TEST_F(DriverConformance, AnEventNeverRecordedIsDone) {
  const DriverEvent event;
  int32_t done = 0;
  EXPECT_EQ(driver().event_query(event.handle(), &done), MYDEV_OK);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(driver().event_synchronize(event.handle()), MYDEV_OK);
  EXPECT_EQ(driver().stream_wait_event(stream().handle(), event.handle()), MYDEV_OK);
}

TEST_F(DriverConformance, ASynchronizedEventIsDone) {
  const DriverEvent event;
  const DeviceMemory memory(4 << 20);
  fill(stream(), memory, {1});
  ASSERT_EQ(driver().event_record(event.handle(), stream().handle()), MYDEV_OK);
  ASSERT_EQ(driver().event_synchronize(event.handle()), MYDEV_OK);
  int32_t done = 0;
  EXPECT_EQ(driver().event_query(event.handle(), &done), MYDEV_OK);
  EXPECT_EQ(done, 1);
}

TEST_F(DriverConformance, EventsTellTheTimeBetweenThem) {
  const DriverEvent start(MYDEV_EVENT_TIMING);
  const DriverEvent end(MYDEV_EVENT_TIMING);
  const DeviceMemory memory(4 << 20);
  ASSERT_EQ(driver().event_record(start.handle(), stream().handle()), MYDEV_OK);
  fill(stream(), memory, {1});
  ASSERT_EQ(driver().event_record(end.handle(), stream().handle()), MYDEV_OK);
  ASSERT_EQ(driver().event_synchronize(end.handle()), MYDEV_OK);
  double milliseconds = -1;
  ASSERT_EQ(driver().event_elapsed(start.handle(), end.handle(), &milliseconds), MYDEV_OK);
  EXPECT_GT(milliseconds, 0);
}

TEST_F(DriverConformance, RecordingAgainReplacesTheRecord) {
  const DriverEvent start(MYDEV_EVENT_TIMING);
  const DriverEvent end(MYDEV_EVENT_TIMING);
  ASSERT_EQ(driver().event_record(end.handle(), stream().handle()), MYDEV_OK);
  ASSERT_EQ(driver().event_record(start.handle(), stream().handle()), MYDEV_OK);
  ASSERT_EQ(driver().event_record(end.handle(), stream().handle()), MYDEV_OK);
  ASSERT_EQ(driver().event_synchronize(end.handle()), MYDEV_OK);
  double milliseconds = -1;
  ASSERT_EQ(driver().event_elapsed(start.handle(), end.handle(), &milliseconds), MYDEV_OK);
  EXPECT_GE(milliseconds, 0);
}

TEST_F(DriverConformance, AStreamWaitsForAnEventOfAnother) {
  Stream& producer = stream_from_pool(0, 0);
  Stream& consumer = stream_from_pool(0, 0);
  const DeviceMemory source(8 << 20);
  const DeviceMemory target(8 << 20);
  for (unsigned char step = 1; step <= 10; ++step) {
    const DriverEvent written;
    const DriverEvent read;
    fill(producer, source, {step});
    ASSERT_EQ(driver().event_record(written.handle(), producer.handle()), MYDEV_OK);
    ASSERT_EQ(driver().stream_wait_event(consumer.handle(), written.handle()), MYDEV_OK);
    ASSERT_EQ(
        driver().copy(consumer.handle(), target.data(), source.data(), source.bytes(), MYDEV_COPY_DEVICE_TO_DEVICE),
        MYDEV_OK);
    ASSERT_EQ(driver().event_record(read.handle(), consumer.handle()), MYDEV_OK);
    ASSERT_EQ(driver().stream_wait_event(producer.handle(), read.handle()), MYDEV_OK);
  }
  EXPECT_EQ(download(consumer, target), Bytes(target.bytes(), 10));
}

TEST_F(DriverConformance, SynchronizingTheDeviceFinishesAllStreams) {
  Stream& other = stream_from_pool(0, 0);
  const DeviceMemory memory(8 << 20);
  fill(other, memory, {3});
  synchronize_device(device(0));
  int32_t done = 0;
  ASSERT_EQ(driver().stream_query(other.handle(), &done), MYDEV_OK);
  EXPECT_EQ(done, 1);
}

class DriverConformanceHostCalls : public DriverConformance {
 protected:
  void SetUp() override {
    DriverConformance::SetUp();
    if (driver().stream_host_call == nullptr) {
      GTEST_SKIP() << "the driver leaves host calls to the runtime";
    }
  }
  void call(mydev_host_function function, void* context) {
    ASSERT_EQ(driver().stream_host_call(stream().handle(), function, context), MYDEV_OK) << driver().last_error();
  }
};

TEST_F(DriverConformanceHostCalls, ComeOnceAndInOrder) {
  std::vector<int> calls;
  for (int number = 0; number < 3; ++number) {
    call([](void* context) { static_cast<std::vector<int>*>(context)->push_back(0); }, &calls);
    call([](void* context) { static_cast<std::vector<int>*>(context)->push_back(1); }, &calls);
  }
  stream().synchronize();
  EXPECT_EQ(calls, (std::vector<int>{0, 1, 0, 1, 0, 1}));
}

TEST_F(DriverConformanceHostCalls, HoldUpLaterWork) {
  if (!device(0).asynchronous()) {
    GTEST_SKIP() << "work of this device is done when a call returns";
  }
  std::promise<void> go_on;
  std::shared_future<void> allowed = go_on.get_future().share();
  call([](void* context) { static_cast<std::shared_future<void>*>(context)->wait(); }, &allowed);
  const DeviceMemory memory(1000);
  fill(stream(), memory, {5});
  int32_t done = 1;
  EXPECT_EQ(driver().stream_query(stream().handle(), &done), MYDEV_OK);
  EXPECT_EQ(done, 0);
  go_on.set_value();
  EXPECT_EQ(download(stream(), memory), Bytes(1000, 5));
}

class DriverConformanceOnDone : public DriverConformance {
 protected:
  void SetUp() override {
    DriverConformance::SetUp();
    if (driver().event_on_done == nullptr) {
      GTEST_SKIP() << "the driver does not call back for events";
    }
  }
  static void set(void* context) { static_cast<std::promise<void>*>(context)->set_value(); }
};

TEST_F(DriverConformanceOnDone, IsCalledWhenTheRecordIsDone) {
  std::promise<void> called;
  const DeviceMemory memory(4 << 20);
  {
    const DriverEvent event;
    fill(stream(), memory, {1});
    ASSERT_EQ(driver().event_record(event.handle(), stream().handle()), MYDEV_OK);
    ASSERT_EQ(driver().event_on_done(event.handle(), set, &called), MYDEV_OK);
  }  // the event may go before
  called.get_future().get();
  stream().synchronize();
}

TEST_F(DriverConformanceOnDone, IsCalledAtOnceForAnEventNeverRecorded) {
  std::promise<void> called;
  const DriverEvent event;
  ASSERT_EQ(driver().event_on_done(event.handle(), set, &called), MYDEV_OK);
  called.get_future().get();
}

TEST_F(DriverConformance, AStreamThatDidWellHasNoFailure) {
  if (driver().stream_status == nullptr) {
    GTEST_SKIP() << "the driver tells failures by launch and complete alone";
  }
  const DeviceMemory memory(1000);
  fill(stream(), memory, {1});
  stream().synchronize();
  mydev_code status = MYDEV_UNKNOWN;
  ASSERT_EQ(driver().stream_status(stream().handle(), &status), MYDEV_OK);
  EXPECT_EQ(status, MYDEV_OK);
}

// --- work ------------------------------------------------------------------------------------------------------------

mydev_code host_scale(const mydev_frame* frame) {
  const mydev_buffer& out = frame->buffers[0];
  const mydev_buffer& in = frame->buffers[1];
  if (out.dtype != MYDEV_F32 || in.dtype != MYDEV_F32) {
    frame->host->set_error(frame, "conformance.scale takes f32");
    return MYDEV_INVALID_ARGUMENT;
  }
  const auto factor = static_cast<float>(frame->attributes[0].value.f);
  for (int64_t i = 0; i < out.sizes[0]; ++i) {
    static_cast<float*>(out.data)[i * out.strides[0]] = factor * static_cast<const float*>(in.data)[i * in.strides[0]];
  }
  return MYDEV_OK;
}

constexpr mydev_kernel kHostScale = {sizeof(mydev_kernel), "conformance.scale", host_scale, nullptr, nullptr, nullptr};

class DriverConformanceLaunch : public DriverConformance {
 protected:
  void SetUp() override {
    DriverConformance::SetUp();
    if (driver().find_kernel != nullptr) {
      kernel_ = driver().find_kernel(0, "conformance.scale");
    }
    if (kernel_ == nullptr && device(0).host_accessible()) {
      kernel_ = &kHostScale;
    }
    if (kernel_ == nullptr) {
      GTEST_SKIP() << "the driver offers no conformance.scale, and its memory is not host-accessible";
    }
  }

  // As launch_kernel (kernels/launch) does for a record of the driver's own.
  void launch_scale(mydev_frame& frame, Stream& stream) {
    launch_or_decline(*kernel_, frame, stream, {.of_driver = kernel_ != &kHostScale});
  }

  // out[0..count) = factor * in, of the given dtype and strides.
  void scale(Stream& stream, const DeviceMemory& out, const DeviceMemory& in, int64_t count, double factor,
             mydev_dtype dtype = MYDEV_F32, int64_t stride = 1) {
    const std::array<mydev_buffer, 2> operands = {
        {{out.data(), &count, &stride, 1, dtype}, {in.data(), &count, &stride, 1, dtype}}};
    const mydev_attribute attribute = float_attribute("factor", factor);
    mydev_frame frame = make_frame(operands, 1, {&attribute, 1});
    launch_scale(frame, stream);
  }

  static Bytes as_bytes(const std::vector<float>& values) {
    Bytes bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }

  const mydev_kernel* kernel_ = nullptr;
};

TEST_F(DriverConformanceLaunch, RunsAKernelOnItsOperands) {
  std::vector<float> values(1000);
  std::iota(values.begin(), values.end(), 0.0F);
  const DeviceMemory in(4000);
  const DeviceMemory out(4000);
  upload(stream(), in, as_bytes(values));
  scale(stream(), out, in, 1000, 2);
  std::transform(values.begin(), values.end(), values.begin(), [](float value) { return 2 * value; });
  EXPECT_EQ(download(stream(), out), as_bytes(values));
}

TEST_F(DriverConformanceLaunch, HonoursStrides) {
  const DeviceMemory in(4 * 6);
  const DeviceMemory out(4 * 6);
  upload(stream(), in, as_bytes({1, 2, 3, 4, 5, 6}));
  upload(stream(), out, as_bytes({9, 9, 9, 9, 9, 9}));
  scale(stream(), out, in, 3, 10, MYDEV_F32, 2);
  EXPECT_EQ(download(stream(), out), as_bytes({10, 9, 30, 9, 50, 9}));
}

TEST_F(DriverConformanceLaunch, LaunchesAndCopiesKeepTheirOrder) {
  const DeviceMemory memory(4 * 1000);
  upload(stream(), memory, as_bytes(std::vector<float>(1000, 1)));
  for (int step = 0; step < 10; ++step) {
    scale(stream(), memory, memory, 1000, 2);
  }
  EXPECT_EQ(download(stream(), memory), as_bytes(std::vector<float>(1000, 1024)));
}

TEST_F(DriverConformanceLaunch, AFailingKernelIsReportedByTheNextWaitAtTheLatest) {
  const DeviceMemory memory(400);
  try {
    scale(stream(), memory, memory, 100, 2, MYDEV_S32);
    stream().synchronize();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), MYDEV_INVALID_ARGUMENT);
    EXPECT_NE(std::string(error.what()).find("takes f32"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("conformance.scale(out s32[100], s32[100]; factor=2)"), std::string::npos)
        << error.what();
  }
}

TEST_F(DriverConformanceLaunch, AStreamWorksOnAfterAnError) {
  const DeviceMemory memory(400);
  upload(stream(), memory, as_bytes(std::vector<float>(100, 3)));
  EXPECT_THROW(
      {
        scale(stream(), memory, memory, 100, 2, MYDEV_S32);
        stream().synchronize();
      },
      Error);
  scale(stream(), memory, memory, 100, 2);
  EXPECT_EQ(download(stream(), memory), as_bytes(std::vector<float>(100, 6)));
}

TEST_F(DriverConformanceLaunch, TheFrameIsTheCallersOnceTheLaunchReturned) {
  const DeviceMemory memory(4 * 1000);
  upload(stream(), memory, as_bytes(std::vector<float>(1000, 1)));
  for (int step = 0; step < 10; ++step) {
    int64_t count = 1000;
    int64_t stride = 1;
    std::array<mydev_buffer, 2> operands = {
        {{memory.data(), &count, &stride, 1, MYDEV_F32}, {memory.data(), &count, &stride, 1, MYDEV_F32}}};
    mydev_attribute attribute = float_attribute("factor", 2);
    mydev_frame frame = make_frame(operands, 1, {&attribute, 1});
    launch_scale(frame, stream());
    count = -1;
    stride = 1 << 30;
    attribute.value.f = 77;
    operands = {};
    frame = {};
  }
  EXPECT_EQ(download(stream(), memory), as_bytes(std::vector<float>(1000, 1024)));
}

class DriverConformanceLateFailure : public DriverConformance {
 protected:
  void SetUp() override {
    DriverConformance::SetUp();
    if (driver().find_kernel != nullptr) kernel_ = driver().find_kernel(0, "conformance.fail");
    if (kernel_ == nullptr || !device(0).asynchronous()) {
      GTEST_SKIP() << "the driver offers no conformance.fail, or its work is done when a launch returns";
    }
  }
  void fail_with(mydev_code code) {
    const mydev_attribute attribute = int_attribute("code", code);
    mydev_frame frame = make_frame({}, 0, {&attribute, 1});
    launch_or_decline(*kernel_, frame, stream(), {.of_driver = true});
  }
  // What the next wait raises.
  Error waited() {
    try {
      stream().synchronize();
    } catch (const Error& error) {
      return error;
    }
    return {MYDEV_OK, ""};
  }
  const mydev_kernel* kernel_ = nullptr;
};

TEST_F(DriverConformanceLateFailure, IsRaisedByTheNextWaitWithItsMessage) {
  fail_with(MYDEV_DATA_LOSS);
  const Error error = waited();
  EXPECT_EQ(error.code(), MYDEV_DATA_LOSS);
  EXPECT_NE(std::string(error.what()), "");
  EXPECT_EQ(waited().code(), MYDEV_OK) << "a failure is told once";
}

TEST_F(DriverConformanceLateFailure, TheFirstOfSeveralIsTold) {
  fail_with(MYDEV_DATA_LOSS);
  fail_with(MYDEV_OUT_OF_RANGE);
  EXPECT_EQ(waited().code(), MYDEV_DATA_LOSS);
  EXPECT_EQ(waited().code(), MYDEV_OK);
}

TEST_F(DriverConformanceLateFailure, LeavesTheStreamUsable) {
  fail_with(MYDEV_DATA_LOSS);
  const DeviceMemory memory(100);
  fill(stream(), memory, {3});
  EXPECT_EQ(waited().code(), MYDEV_DATA_LOSS);
  EXPECT_EQ(download(stream(), memory), Bytes(100, 3));
}

TEST_F(DriverConformanceLateFailure, IsFoundBySynchronizingTheDevice) {
  fail_with(MYDEV_DATA_LOSS);
  EXPECT_THROW(synchronize_device(device(0)), Error);
  EXPECT_EQ(waited().code(), MYDEV_OK);
}

TEST_F(DriverConformance, AnUnknownKernelIsNotFound) {
  if (driver().find_kernel == nullptr) {
    GTEST_SKIP() << "the driver has no kernels of its own";
  }
  EXPECT_EQ(driver().find_kernel(0, "conformance.no_such_kernel"), nullptr);
}

TEST_F(DriverConformance, TheHostReadsAndWritesAccessibleMemory) {
  if (!device(0).host_accessible()) {
    GTEST_SKIP() << "device memory is not host-accessible";
  }
  const DeviceMemory memory(4096);
  fill(stream(), memory, {4});
  stream().synchronize();
  {
    const HostAccess outer(device(0));
    const HostAccess inner(device(0));
    EXPECT_EQ(static_cast<unsigned char*>(memory.data())[4095], 4);
    static_cast<unsigned char*>(memory.data())[0] = 5;
  }
  EXPECT_EQ(download(stream(), memory)[0], 5);
}

// --- threads ---------------------------------------------------------------------------------------------------------

TEST_F(DriverConformance, ThreadsWorkOnStreamsOfTheirOwn) {
  const auto work = [&](unsigned char number) {
    Stream& own = stream_from_pool(0, 0);
    const DeviceMemory memory(1 << 16);
    for (int round = 0; round < 20; ++round) {
      fill(own, memory, {number});
      EXPECT_EQ(download(own, memory), Bytes(memory.bytes(), number));
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned char number = 1; number <= 4; ++number) {
    threads.emplace_back(work, number);
  }
}

TEST_F(DriverConformance, ThreadsShareAStream) {
  const auto work = [&](unsigned char number) {
    const DeviceMemory memory(1 << 12);
    for (int round = 0; round < 20; ++round) {
      fill(stream(), memory, {number});
      EXPECT_EQ(download(stream(), memory), Bytes(memory.bytes(), number));
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned char number = 1; number <= 4; ++number) {
    threads.emplace_back(work, number);
  }
}

}  // namespace
}  // namespace mydev::conformance
