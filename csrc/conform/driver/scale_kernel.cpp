#include "conform/driver/scale_kernel.h"

#include <cstring>

namespace mydev::conform {

namespace {

mydev_code host_scale(const mydev_frame* frame) {
  const mydev_buffer& out = frame->buffers[0];
  const mydev_buffer& in = frame->buffers[1];
  if (out.dtype != MYDEV_F32 || in.dtype != MYDEV_F32) {
    frame->host->set_error(frame, "conformance.scale takes f32");
    return MYDEV_INVALID_ARGUMENT;
  }
  const auto factor = static_cast<float>(frame->attributes[0].value.f);
  for (int64_t i = 0; i < out.sizes[0]; ++i) {
    static_cast<float*>(out.data)[i * out.strides[0]] = factor * static_cast<const float*>(in.data)[i * in.strides[0]];
  }
  return MYDEV_OK;
}

constexpr mydev_kernel kHostScale = {sizeof(mydev_kernel), "conformance.scale", host_scale, nullptr, nullptr, nullptr};

}  // namespace

Bytes bytes_of(const std::vector<float>& values) {
  Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

ScaleArguments::ScaleArguments(const DeviceMemory& out, const DeviceMemory& in, int64_t count, double factor,
                               mydev_dtype dtype, int64_t stride)
    : size(count),
      stride_of_elements(stride),
      operands{{out.data(), &size, &stride_of_elements, 1, static_cast<int16_t>(dtype), 0},
               {in.data(), &size, &stride_of_elements, 1, static_cast<int16_t>(dtype), 0}},
      attribute(float_attribute("factor", factor)) {}

ScaleKernel::ScaleKernel(DriverCase& t) : device_(t.device()) {
  if (t.driver().find_kernel != nullptr) record_ = t.driver().find_kernel(0, kHostScale.name);
  of_driver_ = record_ != nullptr;
  if (record_ == nullptr && device_.host_accessible()) record_ = &kHostScale;
  t.needs(record_ != nullptr, "the driver offers no conformance.scale, and its memory is not host-accessible");
}

void ScaleKernel::launch(Stream& stream, mydev_frame& frame) const {
  launch_or_decline(*record_, frame, stream, {.of_driver = of_driver_});
}

void ScaleKernel::launch(Stream& stream, const ScaleArguments& arguments) const {
  mydev_frame frame = arguments.frame();
  launch(stream, frame);
}

}  // namespace mydev::conform
