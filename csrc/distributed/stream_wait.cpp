#include "distributed/stream_wait.h"

#include <array>
#include <memory>
#include <utility>

#include "kernels/registry/kernel_entry.h"
#include "runtime/frame/frame.h"
#include "runtime/launch/launch.h"

namespace mydev {
namespace {

using Wait = std::function<void()>;

// The attribute is the address of a Wait, which the kernel takes over.
mydev_code run_wait(const mydev_frame* frame) {
  const std::unique_ptr<Wait> wait(reinterpret_cast<Wait*>(frame->attributes[0].value.i));
  return kernels::run_entry(*frame, [&] { (*wait)(); });
}

constexpr mydev_kernel kWaitKernel = {
    .struct_size = sizeof(mydev_kernel),
    .name = "mydev.wait_for_collective",
    .entry = run_wait,
    .doc = "waits on the host; attribute wait: what for",
};

}  // namespace

bool can_wait_in(const Stream& stream) noexcept {
  const Device& device = stream.device();
  return stream.asynchronous() && (device.host_accessible() || device.driver->stream_host_call != nullptr);
}

void wait_in(Stream& stream, Wait wait) {
  if (!stream.device().host_accessible()) {
    stream.host_call(std::move(wait));
    return;
  }
  auto owned = std::make_unique<Wait>(std::move(wait));
  const std::array attributes{int_attribute("wait", static_cast<int64_t>(reinterpret_cast<intptr_t>(owned.get())))};
  mydev_frame frame = make_frame({}, 0, attributes);
  launch(kWaitKernel, frame, stream);
  owned.release();
}

}  // namespace mydev
