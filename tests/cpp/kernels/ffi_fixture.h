// For tests of typed-FFI handlers: records registered for a test, operands in device memory, and launches.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "error_fixture.h"
#include "kernels/ffi/ffi_abi.h"
#include "kernels/ffi/ffi_host.h"
#include "kernels/registry/kernel_registry.h"
#include "runtime/command/launch.h"
#include "runtime/frame/frame.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/stream/stream_table.h"
#include "string_attribute.h"

namespace mydev {

inline mydev_kernel ffi_record(const char* name, ffi::Handler execute, ffi::Handler instantiate = nullptr,
                               ffi::Handler prepare = nullptr, ffi::Handler initialize = nullptr) {
  mydev_kernel kernel{};
  kernel.struct_size = sizeof(mydev_kernel);
  kernel.name = name;
  kernel.kind = MYDEV_KIND_TYPED_FFI;
  kernel.execute = reinterpret_cast<mydev_function>(execute);
  kernel.instantiate = reinterpret_cast<mydev_function>(instantiate);
  kernel.prepare = reinterpret_cast<mydev_function>(prepare);
  kernel.initialize = reinterpret_cast<mydev_function>(initialize);
  return kernel;
}

// A record that is registered for the time of a scope.
class ScopedKernel {
 public:
  explicit ScopedKernel(const mydev_kernel& record) : kernel_(register_kernel(record, {"", "test"})) {}
  ~ScopedKernel() { unregister_kernel(kernel_->name); }
  ScopedKernel(const ScopedKernel&) = delete;
  ScopedKernel& operator=(const ScopedKernel&) = delete;
  const mydev_kernel& operator*() const { return *kernel_; }

 private:
  const mydev_kernel* kernel_;
};

// Floats in device memory.
class DeviceArray {
 public:
  explicit DeviceArray(std::vector<int64_t> sizes, float first = 0) : sizes_(std::move(sizes)) {
    strides_.resize(sizes_.size());
    int64_t count = 1;
    for (size_t d = sizes_.size(); d-- > 0;) {
      strides_[d] = count;
      count *= sizes_[d];
    }
    count_ = static_cast<size_t>(count);
    block_ = allocate(default_stream(0), count_ * sizeof(float));
    const HostAccess access(device(0));
    for (size_t i = 0; i < count_; ++i) data()[i] = first + static_cast<float>(i);
  }
  ~DeviceArray() { release(*block_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  float* data() { return static_cast<float*>(block_->data); }
  Block& block() { return *block_; }
  mydev_buffer buffer() {
    return {block_->data, sizes_.data(), strides_.data(), static_cast<int32_t>(sizes_.size()), MYDEV_F32};
  }
  std::vector<float> values() {
    default_stream(0).synchronize();
    const HostAccess access(device(0));
    return {data(), data() + count_};
  }

 private:
  std::vector<int64_t> sizes_, strides_;
  size_t count_;
  Block* block_;
};

// Launches and waits.
inline void run_kernel(const mydev_kernel& kernel, const std::vector<mydev_buffer>& buffers = {},
                       uint32_t num_outputs = 0, const std::vector<mydev_attribute>& attributes = {}) {
  mydev_frame frame = make_frame(buffers, num_outputs, attributes);
  launch(kernel, frame, default_stream(0));
  default_stream(0).synchronize();
}

inline mydev_attribute typed(mydev_attribute attribute, mydev_dtype dtype) {
  attribute.dtype = static_cast<uint16_t>(dtype);
  return attribute;
}

}  // namespace mydev
