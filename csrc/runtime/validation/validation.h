// The validation layer: MYDEV_DRIVER=validate:<driver>[:options]. A table of functions before the driver's own that
// checks both sides of mydev/driver.h: what the driver is asked for, and what it does.
//
// What is found fails the call that shows it, with "validate: ...": INVALID_ARGUMENT where the caller asks for what the
// header forbids, FAILED_PRECONDITION where the order of calls is wrong, or what the driver did. A command that fails
// so is not given to the driver. What shows when no call is at hand (a frame completed twice) becomes the failure of
// its stream, told by stream_status at the next wait; what belongs to no stream, and what is missing at exit, is a line
// of the log. At exit a line tells how much was found, and at level INFO what is still alive: the runtime keeps streams
// and memory for as long as the process, so that alone is no finding.
//
// Not looked at: extensions, but for the compiler's; memory that the host uses by itself (host_access_begin names none;
// only that begins and ends pair is checked); kernels that enqueue for themselves (MYDEV_RUNS_HOST_ENQUEUE); memory
// that the driver uses for itself; elements that a kernel reads beyond its operands. order.h says what counts as
// ordered, access_history.h what is forgotten. Thread-safe.
#pragma once

#include <cstdint>

namespace mydev::validation {

// What has been found in this process.
uint64_t findings() noexcept;

}  // namespace mydev::validation
