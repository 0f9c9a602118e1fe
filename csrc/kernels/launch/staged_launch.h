// A launch of a record that computes on the host, for a device whose memory the host does not reach: on copies of the
// operands. Operands that overlap on the device overlap on the host. Thread-safe.
//
// The copies and the record run in the stream's order. A built-in record is called by a host call of the stream, so
// that nothing is waited for. Users' records, and devices whose streams call nothing, make the caller wait for the
// copies of operands; the copies of results are then left to wait for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/registry/kernel_choice.h"
#include "mydev/custom_call.h"
#include "runtime/command/decision.h"
#include "runtime/stream/stream.h"

namespace mydev {

// The bytes that a launch touches beside a buffer's address, from and to, and how.
struct BufferUse {
  int64_t begin, end;
  bool reads, writes;
};

// Returns the use of each buffer by the views in the frame and by the contract of a built-in kernel.
std::vector<BufferUse> buffer_uses(const mydev_kernel& kernel, const mydev_frame& frame);

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

// Counts such launches. `begin` may refuse one by throwing; `end` is given what the caller spent.
struct StagingCounter {
  void (*begin)(const char* kernel, const std::string& declined);
  void (*end)(const char* kernel, int64_t nanoseconds, uint64_t bytes_copied);
};
void set_staging_counter(const StagingCounter& counter);  // once, before the first launch; static storage

}  // namespace mydev
