// The devices of this process. A device's primary context, which other users of CUDA in the process share, is made when
// the device is first used: until then it costs no memory. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "cuda_driver/device/cuda_options.h"
#include "cuda_driver/library/cuda_library.h"
#include "mydev/driver.h"

namespace mydev::cuda_driver {

class CudaDevice {
 public:
  CudaDevice(int32_t index, Ordinal ordinal) : index_(index), ordinal_(ordinal) {}
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  int32_t index() const noexcept { return index_; }
  Ordinal ordinal() const noexcept { return ordinal_; }
  int attribute(Attribute which) const;
  int compute_capability() const { return 10 * attribute(Attribute::kMajor) + attribute(Attribute::kMinor); }
  Context context();

 private:
  const int32_t index_;
  const Ordinal ordinal_;
  std::once_flag retained_;
  Context context_ = nullptr;
};

// Finds the devices that the options name. Called once.
void find_devices(const CudaOptions& options);
int32_t count_devices() noexcept;
// Raises INVALID_ARGUMENT for a number that no device has.
CudaDevice& device_at(int32_t index);
// The device of CUDA's number; nullptr if this driver does not offer it.
CudaDevice* device_of_ordinal(Ordinal ordinal);

void describe(CudaDevice& device, mydev_device_properties& out);

// The device's context on this thread while this lives; then the one that was there, if there was one.
class CurrentContext {
 public:
  explicit CurrentContext(CudaDevice& device);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  Context other_ = nullptr;
};

}  // namespace mydev::cuda_driver
