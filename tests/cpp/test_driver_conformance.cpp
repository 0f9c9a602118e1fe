// The conformance suite for drivers: what mydev/driver.h promises, in the order in which one brings a device up. It
// runs against the driver that MYDEV_DRIVER names:
//
//   MYDEV_DRIVER=/path/to/driver.so build/.../test_driver_conformance
//
// Launches need a kernel. On a HOST_ACCESSIBLE device the suite brings a host function; any other driver should offer,
// through find_kernel, "conformance.scale": out f32[n], in f32[n], both 1-D and strided; attribute factor (float);
// out = factor * in; operands of another dtype are MYDEV_INVALID_ARGUMENT, with a message. An asynchronous driver may
// offer "conformance.fail": no operands; attribute code (int): the work fails with that code and a message when the
// stream comes to it.
//
// Here: handshake, devices, memory, fills and copies. Strided copies are in driver_conformance_copies.cpp; streams,
// events, launches and threads in driver_conformance_work.cpp: parts of the same program.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <string>

#include "driver_conformance_fixture.h"

namespace mydev::conformance {
namespace {

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

TEST_F(DriverConformance, PropertiesBeyondWhatTheRuntimeKnowsAreLeftAlone) {
  mydev_device_properties properties;
  std::memset(&properties, 0x5a, sizeof(properties));
  properties.struct_size = offsetof(mydev_device_properties, uuid);  // as 1.0 has it
  ASSERT_EQ(driver().device_properties(0, &properties), MYDEV_OK);
  const auto* bytes = reinterpret_cast<const unsigned char*>(&properties);
  EXPECT_TRUE(std::all_of(bytes + properties.struct_size, bytes + sizeof(properties), [](unsigned char byte) {
    return byte == 0x5a;
  })) << "write a field only if struct_size covers it";
}

TEST_F(DriverConformance, DevicesThatAreTheSameHardwareSayIt) {
  const mydev_device_properties& properties = device(0).properties;
  EXPECT_NE(std::string(properties.architecture), "");
  EXPECT_GE(properties.max_allocation, 1U);
  EXPECT_LE(properties.max_allocation, properties.total_memory);
  mydev_device_properties again{};
  again.struct_size = sizeof(again);
  ASSERT_EQ(driver().device_properties(0, &again), MYDEV_OK);
  const Bytes uuid(std::begin(again.uuid), std::end(again.uuid));
  if (uuid == Bytes(16, 0)) {
    GTEST_SKIP() << "the driver tells no uuid";
  }
  EXPECT_EQ(uuid, Bytes(std::begin(properties.uuid), std::end(properties.uuid)));
  if (device_count() > 1) {
    EXPECT_NE(uuid, Bytes(std::begin(device(1).properties.uuid), std::end(device(1).properties.uuid)));
  }
}

TEST_F(DriverConformance, TellsWhichPeersItReaches) {
  if (driver().peer_access == nullptr || device_count() < 2) {
    GTEST_SKIP() << "needs peer_access and two devices";
  }
  int32_t can = -1;
  ASSERT_EQ(driver().peer_access(0, 1, &can), MYDEV_OK);
  EXPECT_TRUE(can == 0 || can == 1) << can;
  EXPECT_TRUE(can == 0 || driver().copy_peer != nullptr) << "it reaches a peer and has no copy_peer";
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

TEST_F(DriverConformance, RegistersOrdinaryMemory) {
  if (driver().host_register == nullptr) {
    GTEST_SKIP() << "the driver registers no memory";
  }
  Bytes data(3 << 20, 1);
  ASSERT_EQ(driver().host_register(data.data(), data.size()), MYDEV_OK) << driver().last_error();
  std::fill(data.begin(), data.end(), 2);
  const DeviceMemory memory(data.size());
  upload(stream(), memory, data);
  EXPECT_EQ(download(stream(), memory), data);
  EXPECT_EQ(driver().host_unregister(data.data(), data.size()), MYDEV_OK) << driver().last_error();
}

class DriverConformancePointers : public DriverConformance {
 protected:
  void SetUp() override {
    DriverConformance::SetUp();
    if (driver().pointer_info == nullptr) {
      GTEST_SKIP() << "the driver tells nothing of pointers";
    }
  }
  mydev_pointer_info info(const void* pointer) {
    mydev_pointer_info result{.struct_size = sizeof(mydev_pointer_info), .kind = -1, .device = -1};
    EXPECT_EQ(driver().pointer_info(pointer, &result), MYDEV_OK);
    return result;
  }
};

TEST_F(DriverConformancePointers, IntoDeviceMemory) {
  const DeviceMemory memory(10000, device_count() - 1);
  const mydev_pointer_info inside = info(static_cast<const char*>(memory.data()) + 9999);
  EXPECT_EQ(inside.kind, MYDEV_MEMORY_DEVICE);
  EXPECT_EQ(inside.device, device_count() - 1);
  EXPECT_EQ(inside.base, memory.data());
  EXPECT_EQ(inside.bytes, 10000U);
}

TEST_F(DriverConformancePointers, IntoOrdinaryMemory) {
  const Bytes data(100);
  EXPECT_EQ(info(data.data()).kind, MYDEV_MEMORY_ORDINARY);
  EXPECT_EQ(info(nullptr).kind, MYDEV_MEMORY_ORDINARY);
}

TEST_F(DriverConformancePointers, IntoPageLockedMemory) {
  if (driver().host_alloc == nullptr) {
    GTEST_SKIP() << "the driver has no page-locked memory";
  }
  void* data = nullptr;
  ASSERT_EQ(driver().host_alloc(10000, &data), MYDEV_OK);
  EXPECT_EQ(info(static_cast<const char*>(data) + 5000).kind, MYDEV_MEMORY_PINNED);
  EXPECT_EQ(info(static_cast<const char*>(data) + 5000).base, data);
  EXPECT_EQ(driver().host_free(data, 10000), MYDEV_OK);
  EXPECT_EQ(info(data).kind, MYDEV_MEMORY_ORDINARY);
}

TEST_F(DriverConformancePointers, IntoRegisteredMemory) {
  if (driver().host_register == nullptr) {
    GTEST_SKIP() << "the driver registers no memory";
  }
  Bytes data(3 << 20);
  ASSERT_EQ(driver().host_register(data.data(), data.size()), MYDEV_OK);
  EXPECT_EQ(info(data.data()).kind, MYDEV_MEMORY_PINNED);
  EXPECT_EQ(driver().host_unregister(data.data(), data.size()), MYDEV_OK);
  EXPECT_EQ(info(data.data()).kind, MYDEV_MEMORY_ORDINARY);
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

}  // namespace
}  // namespace mydev::conformance
