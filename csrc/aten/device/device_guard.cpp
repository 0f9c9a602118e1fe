// c10's device guard for the device: devices, streams and events of the runtime under PyTorch's interface.
#include <c10/core/DeviceCapability.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "aten/core/device_type.h"
#include "aten/core/sync_debug.h"
#include "aten/memory/device_allocator.h"
#include "runtime/stream/event.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

int index_of(c10::Device device) {
  return device.has_index() ? device.index() : current_device();
}

c10::Stream as_stream(const Stream& stream) {
  return c10::Stream(c10::Stream::UNSAFE, torch_device(stream.device().index), static_cast<c10::StreamId>(stream.id()));
}

Stream& runtime_stream(const c10::Stream& stream) {
  return stream_by_id(stream.device_index(), stream.id());
}

Event& runtime_event(void* event) {
  return *static_cast<Event*>(event);
}

class DeviceGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kDeviceType; }

  c10::Device exchangeDevice(c10::Device device) const override {
    mydev::device(index_of(device));
    return torch_device(exchange_current_device(index_of(device)));
  }
  c10::Device getDevice() const override { return torch_device(current_device()); }
  void setDevice(c10::Device device) const override { set_current_device(index_of(device)); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { exchange_current_device(index_of(device)); }
  c10::DeviceIndex deviceCount() const noexcept override { return static_cast<c10::DeviceIndex>(device_count()); }
  c10::DeviceCapability getDeviceCapability(c10::Device device) const override {
    mydev::device(index_of(device));
    return {};  // every dtype: what has no kernel falls back
  }

  c10::Stream getStream(c10::Device device) const override { return as_stream(current_stream(index_of(device))); }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return as_stream(default_stream(index_of(device)));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return as_stream(stream_from_pool(index_of(device), high_priority ? -1 : 0));
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return as_stream(stream_from_pool(index_of(device), priority));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return as_stream(exchange_current_stream(runtime_stream(stream)));
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return runtime_stream(stream).handle(); }
  bool queryStream(const c10::Stream& stream) const override { return runtime_stream(stream).query(); }
  void synchronizeStream(const c10::Stream& stream) const override {
    about_to_wait("Stream.synchronize()");
    runtime_stream(stream).synchronize();
  }
  bool isStreamCapturing(const c10::Stream& stream) const override {
    return runtime_stream(stream).capture() != nullptr;
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override { synchronize_device(mydev::device(index)); }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex index,
              const c10::EventFlag flag) const override {
    TORCH_CHECK(index < 0 || index == stream.device_index(), "an event of ", torch_device(index),
                " cannot be recorded on a stream of ", stream.device());
    Stream& target = runtime_stream(stream);
    if (*event == nullptr) *event = new Event(target.device().index, flag == c10::EventFlag::BACKEND_DEFAULT);
    runtime_event(*event).record(target);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) runtime_event(event).block(runtime_stream(stream));
  }
  bool queryEvent(void* event) const override { return event == nullptr || runtime_event(event).query(); }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) runtime_event(event).synchronize();
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start != nullptr && end != nullptr,
                "both events must be recorded before their elapsed time can be asked for");
    return runtime_event(start).elapsed(runtime_event(end));
  }

  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    device_allocator()->recordStream(data, stream);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, DeviceGuard);

}  // namespace
}  // namespace mydev
