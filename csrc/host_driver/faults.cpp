#include "host_driver/faults.h"

#include <chrono>
#include <thread>

#include "host_driver/host_error.h"

namespace mydev::host_driver {

namespace {

// splitmix64 (Steele, Lea, Flood 2014): one well-mixed number of each state.
uint64_t mix(uint64_t state) noexcept {
  state += 0x9E3779B97F4A7C15U;
  state = (state ^ (state >> 30U)) * 0xBF58476D1CE4E5B9U;
  state = (state ^ (state >> 27U)) * 0x94D049BB133111EBU;
  return state ^ (state >> 31U);
}

}  // namespace

uint64_t Faults::inject(FaultKind kind) noexcept {
  const uint64_t number = counts_[static_cast<size_t>(kind)].fetch_add(1, std::memory_order_relaxed) + 1;
  for (const FaultPlan::Failure& failure : plan_.failures) {
    if (failure.kind == kind && failure.number == number) return number;
  }
  return 0;
}

void raise_if_injected(FaultKind kind, uint64_t number) {
  if (number == 0) return;
  raise(kind == FaultKind::kAlloc ? MYDEV_RESOURCE_EXHAUSTED : MYDEV_INTERNAL, "injected fault in ",
        kFaultNames[static_cast<size_t>(kind)], " number ", number);
}

void FaultyStream::delay() {
  const FaultPlan& plan = faults_.plan();
  if (!plan.delays) return;
  const uint64_t random = mix(plan.seed ^ mix(stream_) ^ mix(~task_++));
  constexpr uint64_t kOneIn = 8, kLongest = 200;  // microseconds
  if (random % kOneIn != 0) return;
  std::this_thread::sleep_for(std::chrono::microseconds((random >> 8U) % kLongest));
}

}  // namespace mydev::host_driver
