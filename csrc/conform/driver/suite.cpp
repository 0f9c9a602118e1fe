// The conformance suite for drivers: what mydev/driver.h and its extensions promise, in the order in which one brings a
// device up. It runs against the driver that MYDEV_DRIVER names, which the first case loads.
#include "conform/driver/groups.h"

namespace mydev::conform {

Suite driver_suite() {
  return {.name = "driver",
          .title = "what mydev/driver.h promises",
          .groups = {{"handshake and devices", handshake_cases},
                     {"memory", memory_cases},
                     {"fills and copies", copy_cases},
                     {"strided copies", strided_copy_cases},
                     {"streams", stream_cases},
                     {"events", event_cases},
                     {"launches", launch_cases},
                     {"completions", completion_cases},
                     {"compiled kernels", compiled_kernel_cases},
                     {"programs", program_cases},
                     {"collectives", collective_cases},
                     {"failures", failure_cases},
                     {"host access", host_access_cases},
                     {"threads", thread_cases}}};
}

}  // namespace mydev::conform
