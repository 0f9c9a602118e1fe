// The conformance suite for drivers: what mydev/driver.h promises, in the order in which one brings a device up. It
// runs against the driver that MYDEV_DRIVER names:
//
//   MYDEV_DRIVER=/path/to/driver.so build/.../test_driver_conformance
//
// Launches need a kernel. On a HOST_ACCESSIBLE device the suite brings a host function; any other driver should offer,
// through find_kernel, "conformance.scale": out f32[n], in f32[n], both 1-D and strided; attribute factor (float);
// out = factor * in; operands of another dtype are MYDEV_INVALID_ARGUMENT, with a message.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/device.h"
#include "runtime/launch.h"
#include "runtime/status.h"
#include "runtime/stream.h"

namespace mydev {
namespace {

using Bytes = std::vector<unsigned char>;

Bytes pattern_bytes(size_t count, unsigned seed = 1) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<unsigned char>((i * 131 + seed * 17) >> (i & 3));
  }
  return bytes;
}

// Device memory for the time of a scope.
class DeviceMemory {
 public:
  explicit DeviceMemory(uint64_t bytes, int index = 0) : device_(device(index)), bytes_(bytes) {
    check_driver(device_, device_.driver->memory_alloc(index, bytes, &data_), "allocating");
  }
  ~DeviceMemory() { EXPECT_EQ(device_.driver->memory_free(device_.index, data_, bytes_), MYDEV_OK); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  uintptr_t begin() const { return reinterpret_cast<uintptr_t>(data_); }
  uintptr_t end() const { return begin() + bytes_; }

 private:
  Device& device_;
  uint64_t bytes_;
  void* data_ = nullptr;
};

class DriverConformance : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_STREQ(driver_error(), "");
    ASSERT_GE(device_count(), 1);
  }

  const mydev_driver_api& driver() { return *device(0).driver; }
  Stream& stream() { return default_stream(0); }
  uint64_t total_memory() { return device(0).properties.total_memory; }

  void upload(Stream& stream, const DeviceMemory& to, const Bytes& from) {
    ASSERT_EQ(driver().copy(stream.handle(), to.data(), from.data(), from.size(), MYDEV_COPY_HOST_TO_DEVICE), MYDEV_OK)
        << driver().last_error();
  }
  // The contents, after all work on the stream.
  Bytes download(Stream& stream, const DeviceMemory& from) {
    Bytes to(from.bytes());
    EXPECT_EQ(driver().copy(stream.handle(), to.data(), from.data(), to.size(), MYDEV_COPY_DEVICE_TO_HOST), MYDEV_OK)
        << driver().last_error();
    stream.synchronize();
    return to;
  }
  void fill(Stream& stream, const DeviceMemory& memory, const Bytes& pattern) {
    ASSERT_EQ(driver().fill(stream.handle(), memory.data(), memory.bytes(), pattern.data(),
                            static_cast<uint32_t>(pattern.size())),
              MYDEV_OK)
        << driver().last_error();
  }
};

// --- handshake, devices ----------------------------------------------------------------------------------------------

TEST_F(DriverConformance, NamesItself) {
  EXPECT_NE(std::string(driver().name), "");
  EXPECT_NE(driver().version, nullptr);
}

TEST_F(DriverConformance, LastErrorIsNeverNull) {
  EXPECT_NE(driver().last_error(), nullptr);
}

TEST_F(DriverConformance, CountsItsDevices) {
  int32_t count = 0;
  ASSERT_EQ(driver().device_count(&count), MYDEV_OK);
  EXPECT_EQ(count, device_count());
}

TEST_F(DriverConformance, EachDeviceDescribesItself) {
  const std::string name = device(device_count() - 1).properties.name;
  const mydev_device_properties& properties = device(device_count() - 1).properties;
  EXPECT_NE(name, "");
  EXPECT_GT(properties.total_memory, 0U);
  EXPECT_GE(properties.alignment, 64U);
  EXPECT_TRUE(std::has_single_bit(properties.alignment));
  EXPECT_LE(properties.stream_priority_high, properties.stream_priority_low);
  EXPECT_GE(properties.multi_processor_count, 1);
}

TEST_F(DriverConformance, OnlyHostAccessibleDevicesBracketHostAccess) {
  EXPECT_TRUE(device(0).host_accessible() || driver().host_access_begin == nullptr);
}

// --- memory ----------------------------------------------------------------------------------------------------------

class DriverConformanceSizes : public DriverConformance, public testing::WithParamInterface<size_t> {};
INSTANTIATE_TEST_SUITE_P(Bytes, DriverConformanceSizes,
                         testing::Values(1, 63, 64, 4095, 4096, 4097, size_t{2} << 20, (size_t{5} << 20) + 3));

TEST_P(DriverConformanceSizes, AllocationsAreAligned) {
  const DeviceMemory memory(GetParam());
  ASSERT_NE(memory.data(), nullptr);
  EXPECT_EQ(memory.begin() % device(0).properties.alignment, 0U);
}

TEST_F(DriverConformance, AllocationsDoNotOverlap) {
  const DeviceMemory first(1000);
  const DeviceMemory second(1000);
  EXPECT_TRUE(first.end() <= second.begin() || second.end() <= first.begin());
}

TEST_F(DriverConformance, FreedMemoryIsReused) {
  const uint64_t most = std::min<uint64_t>(total_memory() / 4 * 3, uint64_t{1} << 40);
  for (int round = 0; round < 4; ++round) {
    const DeviceMemory memory(most);
    EXPECT_NE(memory.data(), nullptr);
  }
}

TEST_F(DriverConformance, MemoryBeyondTheTotalIsResourceExhausted) {
  void* data = &data;
  EXPECT_EQ(driver().memory_alloc(0, total_memory() + 1, &data), MYDEV_RESOURCE_EXHAUSTED);
  EXPECT_NE(std::string(driver().last_error()), "");
  EXPECT_EQ(data, &data) << "a function that fails leaves its outputs alone";
}

TEST_F(DriverConformance, UsableAfterRunningOutOfMemory) {
  void* data = nullptr;
  ASSERT_EQ(driver().memory_alloc(0, total_memory() + 1, &data), MYDEV_RESOURCE_EXHAUSTED);
  const DeviceMemory memory(4096);
  fill(stream(), memory, {7});
  EXPECT_EQ(download(stream(), memory), Bytes(4096, 7));
}

TEST_F(DriverConformance, MemoryInfoCountsAllocations) {
  if (driver().memory_info == nullptr) {
    GTEST_SKIP() << "the driver leaves memory_info to the runtime";
  }
  uint64_t before = 0;
  uint64_t during = 0;
  uint64_t total = 0;
  ASSERT_EQ(driver().memory_info(0, &before, &total), MYDEV_OK);
  {
    const DeviceMemory memory(1 << 20);
    ASSERT_EQ(driver().memory_info(0, &during, &total), MYDEV_OK);
  }
  uint64_t after = 0;
  ASSERT_EQ(driver().memory_info(0, &after, &total), MYDEV_OK);
  EXPECT_EQ(total, total_memory());
  EXPECT_LE(during + (1 << 20), before);
  EXPECT_EQ(after, before);
}

TEST_F(DriverConformance, PageLockedMemoryIsOrdinaryMemoryToTheHost) {
  if (driver().host_alloc == nullptr) {
    GTEST_SKIP() << "the driver has no page-locked memory";
  }
  void* data = nullptr;
  ASSERT_EQ(driver().host_alloc(10000, &data), MYDEV_OK);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 4096, 0U);
  std::memset(data, 3, 10000);
  EXPECT_EQ(static_cast<unsigned char*>(data)[9999], 3);
  EXPECT_EQ(driver().host_free(data, 10000), MYDEV_OK);
}

// --- fill, copies ----------------------------------------------------------------------------------------------------

class DriverConformancePatterns : public DriverConformance, public testing::WithParamInterface<size_t> {};
INSTANTIATE_TEST_SUITE_P(Bytes, DriverConformancePatterns, testing::Values(1, 2, 4, 8, 16));

TEST_P(DriverConformancePatterns, FillRepeatsThePattern) {
  const Bytes pattern = pattern_bytes(GetParam(), 5);
  const DeviceMemory memory(16 * 4099);
  fill(stream(), memory, pattern);
  const Bytes result = download(stream(), memory);
  Bytes expected(memory.bytes());
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] = pattern[i % pattern.size()];
  }
  EXPECT_EQ(result, expected);
}

TEST_P(DriverConformanceSizes, CopiesToTheDeviceAndBack) {
  const Bytes data = pattern_bytes(GetParam());
  const DeviceMemory memory(GetParam());
  upload(stream(), memory, data);
  EXPECT_EQ(download(stream(), memory), data);
}

TEST_P(DriverConformanceSizes, CopiesWithinTheDevice) {
  const Bytes data = pattern_bytes(GetParam());
  const DeviceMemory from(GetParam());
  const DeviceMemory to(GetParam());
  upload(stream(), from, data);
  ASSERT_EQ(driver().copy(stream().handle(), to.data(), from.data(), data.size(), MYDEV_COPY_DEVICE_TO_DEVICE),
            MYDEV_OK);
  EXPECT_EQ(download(stream(), to), data);
}

TEST_F(DriverConformance, CopiesPartsOfAnAllocation) {
  const Bytes data = pattern_bytes(100);
  const DeviceMemory memory(1000);
  fill(stream(), memory, {0});
  auto* middle = static_cast<unsigned char*>(memory.data()) + 333;
  ASSERT_EQ(driver().copy(stream().handle(), middle, data.data(), data.size(), MYDEV_COPY_HOST_TO_DEVICE), MYDEV_OK);
  Bytes expected(1000, 0);
  std::copy(data.begin(), data.end(), expected.begin() + 333);
  EXPECT_EQ(download(stream(), memory), expected);
}

TEST_F(DriverConformance, OrdinaryHostMemoryMayChangeOnceTheCopyReturned) {
  const DeviceMemory memory(1 << 20);
  Bytes data(memory.bytes(), 1);
  upload(stream(), memory, data);
  std::fill(data.begin(), data.end(), 2);
  EXPECT_EQ(download(stream(), memory), Bytes(memory.bytes(), 1));
}

TEST_F(DriverConformance, CopiesToOrdinaryHostMemoryAreDoneOnReturn) {
  const DeviceMemory memory(1 << 20);
  fill(stream(), memory, {9});
  Bytes result(memory.bytes());
  ASSERT_EQ(driver().copy(stream().handle(), result.data(), memory.data(), result.size(), MYDEV_COPY_DEVICE_TO_HOST),
            MYDEV_OK);
  EXPECT_EQ(result, Bytes(memory.bytes(), 9));
}

TEST_F(DriverConformance, CopiesFromAndToPageLockedMemory) {
  if (driver().host_alloc == nullptr) {
    GTEST_SKIP() << "the driver has no page-locked memory";
  }
  constexpr size_t kBytes = 1 << 20;
  const DeviceMemory memory(kBytes);
  void* data = nullptr;
  ASSERT_EQ(driver().host_alloc(2 * kBytes, &data), MYDEV_OK);
  const Bytes expected = pattern_bytes(kBytes);
  auto* second_half = static_cast<unsigned char*>(data) + kBytes;
  std::memcpy(data, expected.data(), kBytes);
  EXPECT_EQ(driver().copy(stream().handle(), memory.data(), data, kBytes, MYDEV_COPY_HOST_TO_DEVICE), MYDEV_OK);
  EXPECT_EQ(driver().copy(stream().handle(), second_half, memory.data(), kBytes, MYDEV_COPY_DEVICE_TO_HOST), MYDEV_OK);
  stream().synchronize();
  EXPECT_EQ(std::memcmp(second_half, expected.data(), kBytes), 0);
  EXPECT_EQ(driver().host_free(data, 2 * kBytes), MYDEV_OK);
}

TEST_F(DriverConformance, CopiesBetweenDevices) {
  if (driver().copy_peer == nullptr || device_count() < 2) {
    GTEST_SKIP() << "needs copy_peer and two devices";
  }
  const Bytes data = pattern_bytes(100000);
  const DeviceMemory from(data.size(), 0);
  const DeviceMemory to(data.size(), 1);
  upload(stream(), from, data);
  ASSERT_EQ(driver().copy_peer(stream().handle(), to.data(), 1, from.data(), 0, data.size()), MYDEV_OK);
  stream().synchronize();
  EXPECT_EQ(download(default_stream(1), to), data);
}

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
  device(0).synchronize();
  int32_t done = 0;
  ASSERT_EQ(driver().stream_query(other.handle(), &done), MYDEV_OK);
  EXPECT_EQ(done, 1);
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

  // out[0..count) = factor * in, of the given dtype and strides.
  void scale(Stream& stream, const DeviceMemory& out, const DeviceMemory& in, int64_t count, double factor,
             mydev_dtype dtype = MYDEV_F32, int64_t stride = 1) {
    FrameBuilder<2> operands;
    operands.add_flat(out.data(), dtype, count, stride);
    operands.add_flat(in.data(), dtype, count, stride);
    const mydev_attribute attribute = float_attribute("factor", factor);
    mydev_frame frame = make_frame(operands.buffers(), 1, {&attribute, 1});
    launch(*kernel_, frame, stream);
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
}  // namespace mydev
