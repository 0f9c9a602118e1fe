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

}  // namespace

std::vector<Case> host_access_cases() {
  return driver_cases({
      {"the_host_reads_and_writes_accessible_memory",
       "between host_access_begin and _end, nested, device pointers work", the_host_reads_and_writes_accessible_memory},
  });
}

}  // namespace mydev::conform
