// The host driver's extension "telemetry": how busy the machine's processors are, by /proc/stat. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <istream>
#include <mutex>
#include <optional>

#include "mydev/driver_extensions.h"

namespace mydev::host_driver {

// The ticks of all processors together since the machine started.
struct ProcessorTime {
  uint64_t busy = 0;
  uint64_t all = 0;
};

// Reads text in the form of /proc/stat; returns nothing if it has another form.
std::optional<ProcessorTime> processor_time(std::istream& statistics);

// Percent of the time in which processors were busy, between two readings that are kPeriod apart or more: the last
// question and the one before. Questions that follow sooner get the same answer. 0 until a period has passed.
class Utilization {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kPeriod{100};

  Utilization(const ProcessorTime& start, Clock::time_point now) : last_(start), when_(now) {}
  double percent(const ProcessorTime& reading, Clock::time_point now);

 private:
  std::mutex mutex_;
  ProcessorTime last_;
  Clock::time_point when_;
  double percent_ = 0;
};

const mydev_telemetry_extension& telemetry_extension();

}  // namespace mydev::host_driver
