// Work of the host for a device whose memory the host does not reach, on copies of the operands: launches of records
// that compute on the host, and calls of functions. Operands that overlap on the device overlap on the host.
// Thread-safe.
//
// The copies and the work run in the stream's order. Functions and built-in records are called by a host call of the
// stream, so that nothing is waited for. Users' records, and devices whose streams call nothing, make the caller wait
// for the copies of operands; the copies of results are then left to wait for.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/registry/launchable.h"
#include "mydev/custom_call.h"
#include "runtime/base/api.h"
#include "runtime/command/decision.h"
#include "runtime/stream/stream.h"

namespace mydev {

// The bytes that a launch touches beside a buffer's address, from and to, and how.
struct BufferUse {
  int64_t begin, end;
  bool reads, writes;
};

// Returns the use of each buffer by the views in the frame and by the contract of a built-in kernel.
MYDEV_API std::vector<BufferUse> buffer_uses(const mydev_kernel& kernel, const mydev_frame& frame);
// The same by the views alone: a result that has no gaps is written whole.
MYDEV_API std::vector<BufferUse> buffer_uses(std::span<const mydev_buffer> results_and_operands, size_t results);

// A launch that a record will take.
struct StagedLaunch {
  const KernelCandidate& candidate;
  std::span<const BufferUse> uses;
  const std::string& declined;  // why other records do not take the frame
  uint64_t scratch_bytes;
  Decision decision;
};

// Raises the error of work that failed before, if it waits, and that of the record; in a host call, the record's error
// sticks to the stream. The stream does not capture.
void launch_staged(StagedLaunch launch, const mydev_frame& frame, Stream& stream);

// Calls the function with the copies. `name` lives as long as the process. Raises as launch_staged does; an exception
// of the function that a stream calls sticks to the stream.
MYDEV_API void call_staged(const char* name, std::span<const mydev_buffer> buffers, std::span<const BufferUse> uses,
                           std::function<void(std::span<const mydev_buffer>)> function, Stream& stream);

// Calls the function with the buffers where the host reaches the stream's device, and else with copies, as call_staged
// does. `results`: how many of them, the first ones, are written.
MYDEV_API void call_on_host(const char* name, std::span<const mydev_buffer> buffers, size_t results,
                            std::function<void(std::span<const mydev_buffer>)> function, Stream& stream);

// Counts such work by the name of the kernel or of the function. `begin` may refuse it by throwing; `end` is given what
// the caller spent.
struct StagingCounter {
  void (*begin)(const char* name, const std::string& declined);
  void (*end)(const char* name, int64_t nanoseconds, uint64_t bytes_copied);
};
MYDEV_API void set_staging_counter(const StagingCounter& counter);  // from now on, at any time; static storage

}  // namespace mydev
