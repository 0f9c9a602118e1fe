// Fills and dense copies in all directions, and the rule for ordinary host memory: it is the caller's again once the
// call has returned, however small and whatever is pending.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <thread>

#include "conform/driver/driver_case.h"
#include "conform/driver/groups.h"
#include "conform/driver/held_stream.h"

namespace mydev::conform {
namespace {

constexpr std::array<size_t, 8> kCopySizes = {1, 63, 64, 4095, 4096, 4097, 2 << 20, (5 << 20) + 3};
// Sizes of ordinary host memory that drivers put into staging buffers or commands.
constexpr std::array<size_t, 7> kSmallSizes = {1, 64, 1 << 10, 4 << 10, 16 << 10, 32 << 10, 64 << 10};
constexpr std::array<size_t, 2> kLargeSizes = {1 << 20, 4 << 20};
// How long work is pending while a copy of ordinary memory is asked for, which may wait for it.
constexpr std::chrono::milliseconds kPending{10};

std::string of_size(size_t bytes) {
  return " of " + std::to_string(bytes) + " bytes";
}

void fills_repeat_their_pattern(DriverCase& t) {
  for (const size_t pattern_size : {1, 2, 4, 8, 16}) {
    const Bytes pattern = pattern_bytes(pattern_size, 5);
    const DeviceMemory memory(t, 16 * 4099);
    t.fill(t.stream(), memory, pattern);
    Bytes expected(memory.bytes());
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = pattern[i % pattern.size()];
    t.same_bytes("memory filled with a pattern" + of_size(pattern_size), t.download(t.stream(), memory), expected);
  }
}

void fills_keep_their_pattern(DriverCase& t) {
  const DeviceMemory memory(t, 4096);
  HeldStream held(t, t.stream(), kPending);
  Bytes pattern(16, 3);
  t.fill(t.stream(), memory, pattern);
  std::fill(pattern.begin(), pattern.end(), 4);
  held.release();
  t.same_bytes("memory filled with a pattern that changed after the call", t.download(t.stream(), memory),
               Bytes(4096, 3));
}

void copies_to_the_device_and_back(DriverCase& t) {
  for (const size_t bytes : kCopySizes) {
    const Bytes data = pattern_bytes(bytes);
    const DeviceMemory memory(t, bytes);
    t.upload(t.stream(), memory, data);
    t.same_bytes("a copy to the device and back" + of_size(bytes), t.download(t.stream(), memory), data);
  }
}

void copies_within_the_device(DriverCase& t) {
  for (const size_t bytes : kCopySizes) {
    const Bytes data = pattern_bytes(bytes);
    const DeviceMemory from(t, bytes);
    const DeviceMemory to(t, bytes);
    t.upload(t.stream(), from, data);
    t.copy_on_device(t.stream(), to, from);
    t.same_bytes("a copy on the device" + of_size(bytes), t.download(t.stream(), to), data);
  }
}

void copies_parts_of_an_allocation(DriverCase& t) {
  const Bytes data = pattern_bytes(100);
  const DeviceMemory memory(t, 1000);
  t.fill(t.stream(), memory, {0});
  auto* middle = static_cast<unsigned char*>(memory.data()) + 333;
  t.must(t.driver().copy(t.stream().handle(), middle, data.data(), data.size(), MYDEV_COPY_HOST_TO_DEVICE), "copy");
  Bytes expected(1000, 0);
  std::copy(data.begin(), data.end(), expected.begin() + 333);
  t.same_bytes("an allocation of which bytes 333 to 432 were copied", t.download(t.stream(), memory), expected);
}

// --- ordinary host memory --------------------------------------------------------------------------------------------

// The source is overwritten right after the copy returned, while earlier work may still be pending.
void overwrites_a_copied_source(DriverCase& t, size_t bytes) {
  const DeviceMemory memory(t, bytes);
  HeldStream held(t, t.stream(), kPending);
  Bytes source(bytes, 1);
  t.upload(t.stream(), memory, source);
  std::fill(source.begin(), source.end(), 2);
  held.release();
  t.same_bytes("a copy from ordinary memory" + of_size(bytes) + " that changed after the call",
               t.download(t.stream(), memory), Bytes(bytes, 1));
}

void small_sources_may_change_after_the_call(DriverCase& t) {
  for (const size_t bytes : kSmallSizes) overwrites_a_copied_source(t, bytes);
}

void large_sources_may_change_after_the_call(DriverCase& t) {
  for (const size_t bytes : kLargeSizes) overwrites_a_copied_source(t, bytes);
}

void copies_to_ordinary_memory_are_done_on_return(DriverCase& t) {
  const auto copy = [&](size_t bytes) {
    const DeviceMemory memory(t, bytes);
    t.upload(t.stream(), memory, Bytes(bytes, 8));
    t.stream().synchronize();
    HeldStream held(t, t.stream(), kPending);
    t.fill(t.stream(), memory, {9});
    Bytes result(bytes);
    t.must(t.driver().copy(t.stream().handle(), result.data(), memory.data(), bytes, MYDEV_COPY_DEVICE_TO_HOST),
           "copy from the device to the host");
    t.same_bytes("ordinary memory" + of_size(bytes) + " on return of the copy to it", result, Bytes(bytes, 9));
    t.stream().synchronize();
  };
  std::for_each(kSmallSizes.begin(), kSmallSizes.end(), copy);
  std::for_each(kLargeSizes.begin(), kLargeSizes.end(), copy);
}

void copies_from_and_to_page_locked_memory(DriverCase& t) {
  t.needs(t.driver().host_alloc != nullptr, "the driver has no page-locked memory");
  constexpr size_t kBytes = 1 << 20;
  const DeviceMemory memory(t, kBytes);
  void* data = nullptr;
  t.must(t.driver().host_alloc(2 * kBytes, &data), "host_alloc");
  const Bytes expected = pattern_bytes(kBytes);
  auto* second_half = static_cast<unsigned char*>(data) + kBytes;
  std::memcpy(data, expected.data(), kBytes);
  t.must(t.driver().copy(t.stream().handle(), memory.data(), data, kBytes, MYDEV_COPY_HOST_TO_DEVICE),
         "copy from page-locked memory");
  t.must(t.driver().copy(t.stream().handle(), second_half, memory.data(), kBytes, MYDEV_COPY_DEVICE_TO_HOST),
         "copy to page-locked memory");
  t.stream().synchronize();
  t.same_bytes("page-locked memory, copied to the device and back", Bytes(second_half, second_half + kBytes), expected);
  t.ok(t.driver().host_free(data, 2 * kBytes), "host_free");
}

void copies_between_devices(DriverCase& t) {
  t.needs(t.driver().copy_peer != nullptr && device_count() >= 2, "needs copy_peer and two devices");
  const Bytes data = pattern_bytes(100000);
  const DeviceMemory from(t, data.size(), 0);
  const DeviceMemory to(t, data.size(), 1);
  t.upload(t.stream(), from, data);
  t.must(t.driver().copy_peer(t.stream().handle(), to.data(), 1, from.data(), 0, data.size()), "copy_peer");
  t.stream().synchronize();
  t.same_bytes("memory of device 1, copied from device 0", t.download(default_stream(1), to), data);
}

}  // namespace

std::vector<Case> copy_cases() {
  return driver_cases({
      MYDEV_CASE(fills_repeat_their_pattern, "fill writes patterns of 1, 2, 4, 8 and 16 bytes"),
      MYDEV_CASE(fills_keep_their_pattern, "the pattern is copied before fill returns"),
      MYDEV_CASE(copies_to_the_device_and_back, "copies of 1 byte to 5 MiB arrive, there and back"),
      MYDEV_CASE(copies_within_the_device, "copies of 1 byte to 5 MiB arrive on the device"),
      MYDEV_CASE(copies_parts_of_an_allocation, "a copy into an allocation leaves its neighbours alone"),
      MYDEV_CASE(small_sources_may_change_after_the_call,
                 "ordinary memory of 1 byte to 64 KiB is not read once copy has returned"),
      MYDEV_CASE(large_sources_may_change_after_the_call,
                 "ordinary memory of 1 and 4 MiB is not read once copy has returned"),
      MYDEV_CASE(copies_to_ordinary_memory_are_done_on_return, "ordinary memory is written before copy returns"),
      MYDEV_CASE(copies_from_and_to_page_locked_memory, "host_alloc's memory can be copied from and to"),
      MYDEV_CASE(copies_between_devices, "copy_peer's bytes arrive on the other device"),
  });
}

}  // namespace mydev::conform
