#include "cuda_driver/observe/telemetry.h"

#include <array>
#include <string>

#include "cuda_driver/device/cuda_device.h"
#include "cuda_driver/library/shared_library.h"

namespace mydev::cuda_driver {

namespace {

// The part of nvml.h that is used, by its names.
using NvmlDevice = struct NvmlDeviceHandle*;
struct NvmlUtilization {
  unsigned gpu, memory;
};
constexpr int kTemperatureOfGpu = 0, kClockOfMultiProcessors = 1;

struct NvmlApi {
  int (*init)();
  int (*device_by_uuid)(const char* uuid, NvmlDevice* device);
  int (*utilization)(NvmlDevice device, NvmlUtilization* out);
  int (*temperature)(NvmlDevice device, int sensor, unsigned* out);
  int (*power)(NvmlDevice device, unsigned* out_milliwatts);
  int (*clock)(NvmlDevice device, int type, unsigned* out_megahertz);
  bool works = false;
};

NvmlApi load() {
  NvmlApi api{};
  const std::array<std::string, 1> names = {"libnvidia-ml.so.1"};
  const SharedLibrary library(names);
  if (!library) return api;
  const auto find = [&](auto& entry, const char* name) {
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(library.symbol(name));
    return entry != nullptr;
  };
  api.works = find(api.init, "nvmlInit_v2") && find(api.device_by_uuid, "nvmlDeviceGetHandleByUUID") &&
              find(api.utilization, "nvmlDeviceGetUtilizationRates") &&
              find(api.temperature, "nvmlDeviceGetTemperature") && find(api.power, "nvmlDeviceGetPowerUsage") &&
              find(api.clock, "nvmlDeviceGetClockInfo") && api.init() == 0;
  return api;
}

// NVML numbers devices in its own way: the UUID tells which one is meant.
NvmlDevice device_of(const NvmlApi& api, int32_t device) {
  Uuid uuid{};
  check(cuda().cuDeviceGetUuid(&uuid, device_at(device).ordinal()), "cuDeviceGetUuid");
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "GPU-";
  for (size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[uuid.bytes[i] >> 4];
    text += kDigits[uuid.bytes[i] & 15];
  }
  NvmlDevice found = nullptr;
  require(api.device_by_uuid(text.c_str(), &found) == 0, MYDEV_UNIMPLEMENTED, "NVML does not know ", text);
  return found;
}

mydev_code measure(int32_t device, int32_t what, double* out_value) {
  return run_checked([&] {
    static const NvmlApi api = load();
    require(api.works, MYDEV_UNIMPLEMENTED, "there is no NVML (libnvidia-ml.so.1) here that works");
    auto* const handle = device_of(api, device);
    unsigned value = 0;
    int result = -1;
    if (what == MYDEV_MEASURE_UTILIZATION || what == MYDEV_MEASURE_MEMORY_UTILIZATION) {
      NvmlUtilization utilization{};
      result = api.utilization(handle, &utilization);
      value = what == MYDEV_MEASURE_UTILIZATION ? utilization.gpu : utilization.memory;
    } else if (what == MYDEV_MEASURE_TEMPERATURE) {
      result = api.temperature(handle, kTemperatureOfGpu, &value);
    } else if (what == MYDEV_MEASURE_POWER) {
      result = api.power(handle, &value);
    } else if (what == MYDEV_MEASURE_CLOCK) {
      result = api.clock(handle, kClockOfMultiProcessors, &value);
    }
    require(result == 0, MYDEV_UNIMPLEMENTED, "NVML does not report measure ", what, " of device ", device);
    *out_value = value;
  });
}

constexpr mydev_telemetry_extension kTelemetry = {
    .head = {.struct_size = sizeof(mydev_telemetry_extension), .version = MYDEV_TELEMETRY_VERSION, .reserved = 0},
    .measure = measure,
};

}  // namespace

const mydev_telemetry_extension& telemetry_extension() {
  return kTelemetry;
}

}  // namespace mydev::cuda_driver
