// The host's own access to device memory, on a HOST_ACCESSIBLE device.
#include "conform/driver/driver_case.h"
#include "conform/driver/groups.h"

namespace mydev::conform {
namespace {

void the_host_reads_and_writes_accessible_memory(DriverCase& t) {
  t.needs(t.device().host_accessible(), "device memory is not host-accessible");
  const DeviceMemory memory(t, 4096);
  t.fill(t.stream(), memory, {4});
  t.stream().synchronize();
  const bool bracketed = t.driver().host_access_begin != nullptr;
  for (int depth = 0; depth < 2 && bracketed; ++depth) t.must(t.driver().host_access_begin(0), "host_access_begin");
  t.checks.equal("the last byte, as the host reads it,", static_cast<unsigned char*>(memory.data())[4095], 4);
  if (bracketed) t.must(t.driver().host_access_end(0), "host_access_end");
  static_cast<unsigned char*>(memory.data())[0] = 5;
  if (bracketed) t.must(t.driver().host_access_end(0), "host_access_end");
  t.checks.equal("the first byte, which the host wrote,", t.download(t.stream(), memory)[0], 5);
}

void the_host_uses_a_range_of_accessible_memory(DriverCase& t) {
  t.needs(t.device().host_accessible(), "device memory is not host-accessible");
  t.needs(t.driver().host_access_begin_range != nullptr, "the driver opens no ranges");
  const DeviceMemory memory(t, 4096);
  t.fill(t.stream(), memory, {4});
  t.stream().synchronize();
  auto* const middle = static_cast<unsigned char*>(memory.data()) + 1000;
  t.must(t.driver().host_access_begin_range(0, middle, 100, MYDEV_HOST_READS), "host_access_begin_range");
  t.must(t.driver().host_access_begin_range(0, middle + 50, 100, MYDEV_HOST_WRITES), "host_access_begin_range");
  t.checks.equal("a byte in the middle, as the host reads it,", middle[60], 4);
  t.must(t.driver().host_access_end_range(0, middle, 100, MYDEV_HOST_READS), "host_access_end_range");
  middle[149] = 5;
  t.must(t.driver().host_access_end_range(0, middle + 50, 100, MYDEV_HOST_WRITES), "host_access_end_range");
  t.checks.equal("the byte that the host wrote,", t.download(t.stream(), memory)[1149], 5);
}

}  // namespace

std::vector<Case> host_access_cases() {
  return driver_cases({
      MYDEV_CASE(the_host_reads_and_writes_accessible_memory,
                 "between host_access_begin and _end, nested, device pointers work"),
      MYDEV_CASE(the_host_uses_a_range_of_accessible_memory,
                 "between host_access_begin_range and _end, overlapping, pointers into the range work"),
  });
}

}  // namespace mydev::conform
