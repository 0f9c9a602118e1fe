// The validation layer: MYDEV_DRIVER=validate:<driver>[:options]. A table of functions before the driver's own. It
// checks both sides of mydev/driver.h: the calls to the driver, and what the driver does.
//
// A finding fails the call that shows it, with "validate: ...". The code is INVALID_ARGUMENT if the caller asks for
// something that the header forbids. It is FAILED_PRECONDITION if the order of calls, or something that the driver did,
// is wrong. A command that fails so is not given to the driver. A finding may show when no call is at hand (a frame
// completed twice). It then becomes the failure of its stream, which stream_status reports at the next wait. Findings
// that belong to no stream, and things missing at exit, are lines of the log. At exit a line says how much was found,
// and at level INFO what is still alive: the runtime keeps streams and memory for as long as the process, so that alone
// is no finding.
//
// It does not look at:
// - extensions, but for the compiler's
// - memory that the host uses by itself; it checks only that begins and ends of host access pair
// - kernels that enqueue for themselves (MYDEV_RUNS_HOST_ENQUEUE)
// - memory that the driver uses for itself
// - elements that a kernel reads beyond its operands
//
// order.h says which work counts as ordered, access_history.h which accesses are forgotten. Thread-safe.
#pragma once

#include <cstdint>

#include "runtime/base/api.h"

namespace mydev::validation {

// Returns the number of findings in this process.
MYDEV_API uint64_t findings() noexcept;

}  // namespace mydev::validation
