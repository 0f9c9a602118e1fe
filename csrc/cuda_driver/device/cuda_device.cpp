#include "cuda_driver/device/cuda_device.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

namespace mydev::cuda_driver {

namespace {

std::vector<std::unique_ptr<CudaDevice>>& devices() {
  static auto& all = *new std::vector<std::unique_ptr<CudaDevice>>;
  return all;
}

constexpr uint64_t bits(std::initializer_list<mydev_dtype> dtypes) {
  uint64_t all = 0;
  for (const mydev_dtype dtype : dtypes) all |= MYDEV_DTYPE_BIT(dtype);
  return all;
}
constexpr uint64_t kEverywhere = bits({MYDEV_PRED, MYDEV_S8, MYDEV_S16, MYDEV_S32, MYDEV_S64, MYDEV_U8, MYDEV_U16,
                                       MYDEV_U32, MYDEV_U64, MYDEV_F16, MYDEV_F32, MYDEV_F64});

}  // namespace

int CudaDevice::attribute(Attribute which) const {
  int value = 0;
  check(cuda().cuDeviceGetAttribute(&value, which, ordinal_), "cuDeviceGetAttribute ", static_cast<int>(which),
        " of device ", ordinal_);
  return value;
}

Context CudaDevice::context() {
  std::call_once(retained_, [this] {
    check(cuda().cuDevicePrimaryCtxRetain(&context_, ordinal_), "cuDevicePrimaryCtxRetain of device ", ordinal_);
  });
  return context_;
}

void find_devices(const CudaOptions& options) {
  int count = 0;
  const Result counted = cuda().cuDeviceGetCount(&count);
  if (counted != kErrorNotInitialized) check(counted, "cuDeviceGetCount");  // of a machine without a device
  require(options.device < count, MYDEV_INVALID_ARGUMENT, "option 'device=", options.device,
          "' of the CUDA driver: this process sees ", count, count == 1 ? " device" : " devices",
          ", numbered from 0; CUDA_VISIBLE_DEVICES may hide some");
  for (int number = 0; number < count; ++number) {
    if (options.device >= 0 && number != options.device) continue;
    Ordinal ordinal = 0;
    check(cuda().cuDeviceGet(&ordinal, number), "cuDeviceGet ", number);
    devices().push_back(std::make_unique<CudaDevice>(count_devices(), ordinal));
  }
}

int32_t count_devices() noexcept {
  return static_cast<int32_t>(devices().size());
}

CudaDevice& device_at(int32_t index) {
  require(index >= 0 && index < count_devices(), MYDEV_INVALID_ARGUMENT, "there is no device ", index, "; there are ",
          count_devices());
  return *devices()[static_cast<size_t>(index)];
}

CudaDevice* device_of_ordinal(Ordinal ordinal) {
  const auto found = std::ranges::find_if(devices(), [&](const auto& device) { return device->ordinal() == ordinal; });
  return found == devices().end() ? nullptr : found->get();
}

void describe(CudaDevice& device, mydev_device_properties& out) {
  const CudaApi& api = cuda();
  check(api.cuDeviceGetName(out.name, sizeof(out.name), device.ordinal()), "cuDeviceGetName");
  size_t total = 0;
  check(api.cuDeviceTotalMem(&total, device.ordinal()), "cuDeviceTotalMem");
  out.total_memory = total;
  out.alignment = 256;
  out.capabilities = MYDEV_CAPABILITY_ASYNC | MYDEV_CAPABILITY_PEER | MYDEV_CAPABILITY_LAUNCH_COPIES;
  out.major = device.attribute(Attribute::kMajor);
  out.minor = device.attribute(Attribute::kMinor);
  out.multi_processor_count = device.attribute(Attribute::kMultiProcessors);
  // The range can be asked for only with a context. CUDA takes the nearest of those that the device has.
  out.stream_priority_low = 0;
  out.stream_priority_high = -5;
  if (out.struct_size < sizeof(out)) return;  // a runtime of 1.0
  Uuid uuid{};
  check(api.cuDeviceGetUuid(&uuid, device.ordinal()), "cuDeviceGetUuid");
  std::memcpy(out.uuid, uuid.bytes, sizeof(out.uuid));
  std::snprintf(out.architecture, sizeof(out.architecture), "sm_%d", device.compute_capability());
  int version = 0;
  check(api.cuDriverGetVersion(&version), "cuDriverGetVersion");
  std::snprintf(out.driver_version, sizeof(out.driver_version), "CUDA %d.%d", version / 1000, version % 1000 / 10);
  out.native_dtypes = kEverywhere | (out.major >= 8 ? MYDEV_DTYPE_BIT(MYDEV_BF16) : 0);
  out.max_allocation = total;
  out.local_memory = static_cast<uint64_t>(device.attribute(Attribute::kSharedPerMultiProcessor));
  const auto clock = static_cast<uint64_t>(device.attribute(Attribute::kMemoryClockKilohertz));
  const auto bus = static_cast<uint64_t>(device.attribute(Attribute::kMemoryBusBits));
  out.memory_bandwidth = 2 * 1000 * clock * (bus / 8);  // twice in each tick
}

CurrentContext::CurrentContext(CudaDevice& device) {
  auto* const wanted = device.context();
  Context current = nullptr;
  check(cuda().cuCtxGetCurrent(&current), "cuCtxGetCurrent");
  if (current == wanted) return;
  check(cuda().cuCtxSetCurrent(wanted), "cuCtxSetCurrent of device ", device.ordinal());
  other_ = current;
}

CurrentContext::~CurrentContext() {
  if (other_ != nullptr) cuda().cuCtxSetCurrent(other_);
}

}  // namespace mydev::cuda_driver
