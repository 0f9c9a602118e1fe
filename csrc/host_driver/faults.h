// Injected faults (option `faults`): what goes wrong on real devices, on purpose and the same each time.
//
// Delays: an asynchronous stream now and then waits before a task, for a time that the seed, the stream and the task
// give, so that streams overtake each other wherever nothing orders them. Failures: the N-th command of a kind since
// the driver was started fails, where and how the device would: a copy on its stream, an allocation at once.
// Thread-safe, but for FaultyStream, which is its stream's.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

namespace mydev::host_driver {

enum class FaultKind : uint8_t { kAlloc, kCopy, kFill, kLaunch, kHostCall };
inline constexpr std::array<const char*, 5> kFaultNames = {"alloc", "copy", "fill", "launch", "host_call"};

struct FaultPlan {
  struct Failure {
    FaultKind kind;
    uint64_t number;  // from 1 on
  };
  bool delays = false;
  uint64_t seed = 0;
  std::vector<Failure> failures;
};

class Faults {
 public:
  void configure(FaultPlan plan) { plan_ = std::move(plan); }
  const FaultPlan& plan() const noexcept { return plan_; }
  // Some command is to fail: each must be counted.
  bool armed() const noexcept { return !plan_.failures.empty(); }
  // Counts a command; its number if it is to fail, else 0.
  uint64_t inject(FaultKind kind) noexcept;
  uint64_t next_stream() noexcept { return streams_.fetch_add(1, std::memory_order_relaxed); }

 private:
  FaultPlan plan_;
  std::array<std::atomic<uint64_t>, kFaultNames.size()> counts_{};
  std::atomic<uint64_t> streams_{0};
};

// Raises the failure that is injected into a command that inject() has chosen.
void raise_if_injected(FaultKind kind, uint64_t number);

class FaultyStream {
 public:
  explicit FaultyStream(Faults& faults) : faults_(faults), stream_(faults.next_stream()) {}
  void delay();  // before a task: returns at once but now and then

 private:
  Faults& faults_;
  uint64_t stream_, task_ = 0;
};

}  // namespace mydev::host_driver
