#include "aten/graph/captured_draws.h"

#include <ATen/Functions.h>

#include <mutex>

#include "aten/device/generator.h"
#include "aten/memory/storage.h"
#include "runtime/command/transfer.h"

namespace mydev {

namespace {

DeviceGenerator& generator_impl(const at::Generator& generator) {
  return *at::check_generator<DeviceGenerator>(generator);
}

}  // namespace

void CapturedDraws::allocate() {
  state_ = at::empty({2}, at::TensorOptions(generator_impl(generator_).device()).dtype(at::kLong));
}

void CapturedDraws::begin(const Capture& capture) {
  DeviceGenerator& generator = generator_impl(generator_);
  const std::lock_guard<std::mutex> lock(generator.mutex_);
  generator.begin_capture(capture, state_);
}

void CapturedDraws::end(const Capture& capture) {
  DeviceGenerator& generator = generator_impl(generator_);
  const std::lock_guard<std::mutex> lock(generator.mutex_);
  blocks_ = generator.end_capture(capture);
  if (blocks_ == 0) state_.reset();
}

void CapturedDraws::prepare(Stream& stream, const char* what) {
  DeviceGenerator& generator = generator_impl(generator_);
  const PhiloxState first = [&] {
    const std::lock_guard<std::mutex> lock(generator.mutex_);
    return generator.reserve_now(blocks_, what);
  }();
  static_assert(sizeof(first) == 16);
  if (stream.device().driver->fill != nullptr) {
    fill_bytes(stream, state_.mutable_data_ptr(), sizeof(first), &first, sizeof(first));
  } else {
    copy_bytes(stream, state_.mutable_data_ptr(), &first, sizeof(first), MYDEV_COPY_HOST_TO_DEVICE);
  }
}

}  // namespace mydev
