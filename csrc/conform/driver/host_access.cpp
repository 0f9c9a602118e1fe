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
  {
    const HostAccess outer(t.device());
    const HostAccess inner(t.device());
    t.checks.equal("the last byte, as the host reads it,", static_cast<unsigned char*>(memory.data())[4095], 4);
    static_cast<unsigned char*>(memory.data())[0] = 5;
  }
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
