// PyTorch's hooks interface for the device: what generic code asks of any accelerator.
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "aten/core/device_type.h"
#include "aten/device/generator.h"
#include "aten/memory/device_allocator.h"
#include "aten/memory/pinned_memory.h"
#include "aten/memory/storage.h"
#include "runtime/driver/driver_life_cycle.h"

namespace mydev {
namespace {

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex index) const override {
    return driver_loaded() && index >= 0 && index < device_count();
  }
  void init() const override { device(current_device()); }

  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(device_count()); }
  void setCurrentDevice(c10::DeviceIndex index) const override { set_current_device(index); }
  c10::DeviceIndex getCurrentDevice() const override { return static_cast<c10::DeviceIndex>(current_device()); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    if (index >= 0) device(index);
    return static_cast<c10::DeviceIndex>(exchange_current_device(index));
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override { return exchangeDevice(index); }

  c10::Device getDeviceFromPtr(void* data) const override {
    int index = device_of_pointer(data);
    if (index < 0) index = driver_pointer_info(data).device;
    TORCH_CHECK(index >= 0, "the pointer ", data, " is not in the memory of any ", kDeviceType, " device");
    return torch_device(index);
  }
  bool isPinnedPtr(const void* data) const override { return is_pinned_pointer(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return pinned_memory_allocator(); }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return default_device_generator(index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override { return make_device_generator(index); }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), bytes);
  }
};

[[maybe_unused]] const bool hooks_registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

}  // namespace
}  // namespace mydev
