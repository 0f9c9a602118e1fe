#include "host_driver/observe/telemetry.h"

#include <fstream>
#include <string>

#include "host_driver/host_error.h"

namespace mydev::host_driver {

namespace {

std::optional<ProcessorTime> processor_time_now() {
  std::ifstream statistics("/proc/stat");
  return processor_time(statistics);
}

mydev_code measure(int32_t /*device*/, int32_t what, double* out_value) {
  if (what != MYDEV_MEASURE_UTILIZATION) return MYDEV_UNIMPLEMENTED;
  const std::optional<ProcessorTime> reading = processor_time_now();
  if (!reading) return MYDEV_UNIMPLEMENTED;
  // Never destroyed: other threads may ask until the process is gone. The first question is about all time.
  static Utilization& utilization = *new Utilization({}, Utilization::Clock::time_point());
  return run_checked([&] { *out_value = utilization.percent(*reading, Utilization::Clock::now()); });
}

}  // namespace

std::optional<ProcessorTime> processor_time(std::istream& statistics) {
  // user, nice, system, idle, waiting for input and output, interrupts, ..., then guests, which user and nice contain
  constexpr int kFields = 8, kIdle = 3, kWaiting = 4;
  std::string label;
  if (!(statistics >> label) || label != "cpu") return std::nullopt;
  ProcessorTime time;
  for (int field = 0; field < kFields; ++field) {
    uint64_t ticks = 0;
    if (!(statistics >> ticks)) return std::nullopt;
    time.all += ticks;
    if (field != kIdle && field != kWaiting) time.busy += ticks;
  }
  return time;
}

double Utilization::percent(const ProcessorTime& reading, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (now - when_ >= kPeriod && reading.all > last_.all) {
    // The kernel's sums of busy time may step back by a tick.
    const uint64_t busy = reading.busy > last_.busy ? reading.busy - last_.busy : 0;
    percent_ = 100.0 * static_cast<double>(busy) / static_cast<double>(reading.all - last_.all);
    last_ = reading;
    when_ = now;
  }
  return percent_;
}

const mydev_telemetry_extension& telemetry_extension() {
  static constexpr mydev_telemetry_extension table = {
      .head = {.struct_size = sizeof(mydev_telemetry_extension), .version = MYDEV_TELEMETRY_VERSION, .reserved = 0},
      .measure = measure,
  };
  return table;
}

}  // namespace mydev::host_driver
