// Memory of the device, page-locked and registered memory of the host, and what pointers are.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "conform/driver/driver_case.h"
#include "conform/driver/groups.h"
#include "runtime/base/status.h"

namespace mydev::conform {
namespace {

constexpr std::array<uint64_t, 8> kAllocationSizes = {1, 63, 64, 4095, 4096, 4097, 2 << 20, (5 << 20) + 3};

void allocations_are_aligned(DriverCase& t) {
  const uint32_t alignment = t.device().properties.alignment;
  for (const uint64_t bytes : kAllocationSizes) {
    const DeviceMemory memory(t, bytes);
    const std::string what = "memory_alloc of " + std::to_string(bytes) + " bytes gave ";
    t.checks.that(memory.data() != nullptr, what + "NULL");
    t.checks.that(memory.begin() % alignment == 0,
                  what + "a pointer that is no multiple of the alignment, " + std::to_string(alignment));
  }
}

void allocations_do_not_overlap(DriverCase& t) {
  const DeviceMemory first(t, 1000);
  const DeviceMemory second(t, 1000);
  t.checks.that(first.end() <= second.begin() || second.end() <= first.begin(),
                "two allocations of 1000 bytes overlap");
}

void freed_memory_is_reused(DriverCase& t) {
  const mydev_device_properties& properties = t.device().properties;
  const uint64_t largest = properties.max_allocation != 0 ? properties.max_allocation : uint64_t{1} << 40;
  const uint64_t most = std::min(properties.total_memory / 4 * 3, largest);
  for (int round = 0; round < 4; ++round) {
    const DeviceMemory memory(t, most);
    t.checks.that(memory.data() != nullptr, "memory_alloc of " + std::to_string(most) + " bytes gave NULL");
  }
}

void expect_exhausted(DriverCase& t) {
  char unwritten = 0;
  void* data = &unwritten;
  const mydev_code code = t.driver().memory_alloc(0, t.device().properties.total_memory + 1, &data);
  t.checks.equal("the code of memory_alloc beyond total_memory", code_name(code), code_name(MYDEV_RESOURCE_EXHAUSTED));
  if (code == MYDEV_OK) return;
  t.checks.that(data == &unwritten, "memory_alloc failed and wrote its output; a function that fails leaves it alone");
  t.checks.that(t.driver().last_error()[0] != '\0', "memory_alloc failed and last_error is empty");
}

void memory_beyond_the_total_is_exhausted(DriverCase& t) {
  expect_exhausted(t);
}

void usable_after_running_out(DriverCase& t) {
  expect_exhausted(t);
  const DeviceMemory memory(t, 4096);
  t.fill(t.stream(), memory, {7});
  t.same_bytes("memory that was filled after the failure", t.download(t.stream(), memory), Bytes(4096, 7));
}

void memory_info_counts_allocations(DriverCase& t) {
  t.needs(t.driver().memory_info != nullptr, "the driver leaves memory_info to the runtime");
  constexpr uint64_t kBytes = 1 << 20;
  uint64_t total = 0;
  const auto free_bytes = [&] {
    uint64_t free = 0;
    t.must(t.driver().memory_info(0, &free, &total), "memory_info");
    return free;
  };
  const uint64_t before = free_bytes();
  uint64_t during = 0;
  {
    const DeviceMemory memory(t, kBytes);
    during = free_bytes();
  }
  t.checks.equal("the total of memory_info", total, t.device().properties.total_memory);
  t.checks.that(during + kBytes <= before, "free memory is " + std::to_string(before) + " bytes, and " +
                                               std::to_string(during) + " after an allocation of 1 MiB");
  t.checks.equal("free memory after the allocation was freed", free_bytes(), before);
}

void page_locked_memory_is_the_hosts(DriverCase& t) {
  t.needs(t.driver().host_alloc != nullptr, "the driver has no page-locked memory");
  constexpr uint64_t kBytes = 10000;
  void* data = nullptr;
  t.must(t.driver().host_alloc(kBytes, &data), "host_alloc");
  t.checks.equal("the pointer of host_alloc, modulo a page,", reinterpret_cast<uintptr_t>(data) % 4096, 0U);
  std::memset(data, 3, kBytes);
  t.checks.equal("the last byte that was written", static_cast<unsigned char*>(data)[kBytes - 1], 3);
  t.ok(t.driver().host_free(data, kBytes), "host_free");
}

void registers_ordinary_memory(DriverCase& t) {
  t.needs(t.driver().host_register != nullptr, "the driver registers no memory");
  Bytes data(3 << 20, 1);
  t.must(t.driver().host_register(data.data(), data.size()), "host_register");
  std::fill(data.begin(), data.end(), 2);
  const DeviceMemory memory(t, data.size());
  t.upload(t.stream(), memory, data);
  t.same_bytes("registered memory, copied to the device and back", t.download(t.stream(), memory), data);
  t.ok(t.driver().host_unregister(data.data(), data.size()), "host_unregister");
}

// --- pointer_info ----------------------------------------------------------------------------------------------------

mydev_pointer_info info_of(DriverCase& t, const void* pointer) {
  t.needs(t.driver().pointer_info != nullptr, "the driver tells nothing of pointers");
  mydev_pointer_info info{.struct_size = sizeof(mydev_pointer_info), .kind = -1, .device = -1};
  t.must(t.driver().pointer_info(pointer, &info), "pointer_info");
  return info;
}

void expect_kind(DriverCase& t, std::string_view what, const mydev_pointer_info& info, mydev_memory_kind kind) {
  constexpr std::array kNames = {"ORDINARY", "PINNED", "DEVICE"};
  const auto name = [&](int32_t number) {
    return number >= 0 && number < 3 ? std::string(kNames[static_cast<size_t>(number)]) : std::to_string(number);
  };
  t.checks.equal("pointer_info's kind of " + std::string(what), name(info.kind), name(kind));
}

void knows_pointers_into_device_memory(DriverCase& t) {
  const int last = device_count() - 1;
  const DeviceMemory memory(t, 10000, last);
  const mydev_pointer_info inside = info_of(t, static_cast<const char*>(memory.data()) + 9999);
  expect_kind(t, "the last byte of an allocation", inside, MYDEV_MEMORY_DEVICE);
  t.checks.equal("pointer_info's device", inside.device, last);
  t.checks.equal("pointer_info's base", inside.base, memory.data());
  t.checks.equal("pointer_info's bytes", inside.bytes, memory.bytes());
}

void knows_pointers_into_ordinary_memory(DriverCase& t) {
  const Bytes data(100);
  expect_kind(t, "ordinary memory", info_of(t, data.data()), MYDEV_MEMORY_ORDINARY);
  expect_kind(t, "NULL", info_of(t, nullptr), MYDEV_MEMORY_ORDINARY);
}

void knows_pointers_into_page_locked_memory(DriverCase& t) {
  t.needs(t.driver().host_alloc != nullptr, "the driver has no page-locked memory");
  t.needs(t.driver().pointer_info != nullptr, "the driver tells nothing of pointers");
  void* data = nullptr;
  t.must(t.driver().host_alloc(10000, &data), "host_alloc");
  const mydev_pointer_info inside = info_of(t, static_cast<const char*>(data) + 5000);
  expect_kind(t, "page-locked memory", inside, MYDEV_MEMORY_PINNED);
  t.checks.equal("pointer_info's base", inside.base, data);
  t.must(t.driver().host_free(data, 10000), "host_free");
  expect_kind(t, "page-locked memory that was freed", info_of(t, data), MYDEV_MEMORY_ORDINARY);
}

void knows_pointers_into_registered_memory(DriverCase& t) {
  t.needs(t.driver().host_register != nullptr, "the driver registers no memory");
  t.needs(t.driver().pointer_info != nullptr, "the driver tells nothing of pointers");
  Bytes data(3 << 20);
  t.must(t.driver().host_register(data.data(), data.size()), "host_register");
  expect_kind(t, "registered memory", info_of(t, data.data()), MYDEV_MEMORY_PINNED);
  t.must(t.driver().host_unregister(data.data(), data.size()), "host_unregister");
  expect_kind(t, "memory that is no longer registered", info_of(t, data.data()), MYDEV_MEMORY_ORDINARY);
}

}  // namespace

std::vector<Case> memory_cases() {
  return driver_cases({
      MYDEV_CASE(allocations_are_aligned, "pointers from memory_alloc have the alignment of the properties"),
      MYDEV_CASE(allocations_do_not_overlap, "two allocations share no byte"),
      MYDEV_CASE(freed_memory_is_reused, "three quarters of the memory, or max_allocation, can be had again and again"),
      MYDEV_CASE(memory_beyond_the_total_is_exhausted, "more than total_memory is RESOURCE_EXHAUSTED, with a message"),
      MYDEV_CASE(usable_after_running_out, "the device works after an allocation failed"),
      MYDEV_CASE(memory_info_counts_allocations, "free memory falls by an allocation and rises when it is freed"),
      MYDEV_CASE(page_locked_memory_is_the_hosts, "host_alloc gives page-aligned memory that the host uses"),
      MYDEV_CASE(registers_ordinary_memory, "registered memory is copied like any other"),
      MYDEV_CASE(knows_pointers_into_device_memory, "pointer_info tells device, base and size of an allocation"),
      MYDEV_CASE(knows_pointers_into_ordinary_memory, "pointer_info says ORDINARY of what the driver does not know"),
      MYDEV_CASE(knows_pointers_into_page_locked_memory,
                 "pointer_info says PINNED of host_alloc's memory, until it is freed"),
      MYDEV_CASE(knows_pointers_into_registered_memory,
                 "pointer_info says PINNED of registered memory, until unregistered"),
  });
}

}  // namespace mydev::conform
