// The driver's extension "profiler": when each piece of work ran, by a pair of events around it. A tick is a
// nanosecond; ticks count from about where the host's clock does. Work that is captured is not recorded, but a launch
// of its graph is. Costs one load while nothing is recorded. Thread-safe.
#pragma once

#include <cstdint>

#include "cuda_driver/stream/cuda_stream.h"
#include "driver_support/activities.h"
#include "mydev/driver_extensions.h"

namespace mydev::cuda_driver {

// Records the work that is given to the stream while this lives. The work's name lives as long as this.
class RecordedActivity {
 public:
  RecordedActivity(CudaStream& stream, const Work& work);
  ~RecordedActivity();
  RecordedActivity(const RecordedActivity&) = delete;
  RecordedActivity& operator=(const RecordedActivity&) = delete;

 private:
  CudaStream& stream_;
  const Work work_;
  EventRef begin_ = nullptr;
};

const mydev_profiler_extension& profiler_extension();

}  // namespace mydev::cuda_driver
