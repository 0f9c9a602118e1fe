// The driver's extension "telemetry", by NVML (libnvidia-ml.so.1), which comes with NVIDIA's driver. Thread-safe.
#pragma once

#include "mydev/driver_extensions.h"

namespace mydev::cuda_driver {

const mydev_telemetry_extension& telemetry_extension();

}  // namespace mydev::cuda_driver
