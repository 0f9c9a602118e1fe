// Fixture of the conformance suite for drivers: memory, uploads, downloads and fills through the driver's own entries.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "runtime/driver/device.h"
#include "runtime/driver/driver_life_cycle.h"
#include "runtime/stream/stream_table.h"

namespace mydev::conformance {

using Bytes = std::vector<unsigned char>;

inline Bytes pattern_bytes(size_t count, unsigned seed = 1) {
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

}  // namespace mydev::conformance
