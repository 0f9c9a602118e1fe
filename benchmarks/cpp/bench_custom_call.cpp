// Times what a call of a kernel of another kind costs over one of our own: building the frame, the adaptor, the call.
// The rival builds XLA's frame anew for each call, as an embedding without these adaptors would.
#include <benchmark/benchmark.h>

#include <array>
#include <memory>
#include <vector>

#include "kernels/ffi/ffi_abi.h"
#include "kernels/ffi/ffi_host.h"
#include "kernels/registry/kernel_registry.h"
#include "runtime/command/launch.h"
#include "runtime/frame/frame.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

ffi::Error* add_ffi(ffi::CallFrame* frame) {
  if (frame->struct_size != ffi::kCallFrameSize) return nullptr;
  if (frame->extension_start != nullptr) {
    reinterpret_cast<ffi::MetadataExtension*>(frame->extension_start)->metadata->api_version.minor = 3;
    return nullptr;
  }
  const auto* a = static_cast<const ffi::Buffer*>(frame->arguments.values[0]);
  const auto* b = static_cast<const ffi::Buffer*>(frame->arguments.values[1]);
  const auto* out = static_cast<const ffi::Buffer*>(frame->results.values[0]);
  const auto *x = static_cast<const float*>(a->data), *y = static_cast<const float*>(b->data);
  for (int64_t i = 0; i < a->dims[0]; ++i) static_cast<float*>(out->data)[i] = x[i] + y[i];
  return nullptr;
}

void add_unified(void* out, const void** in, const char* /*opaque*/, size_t /*size*/, void* /*status*/) {
  const auto *x = static_cast<const float*>(in[0]), *y = static_cast<const float*>(in[1]);
  for (int64_t i = 0; i < 16; ++i) static_cast<float*>(out)[i] = x[i] + y[i];
}

mydev_code add_frame(const mydev_frame* frame) {
  const auto *x = static_cast<const float*>(frame->buffers[1].data),
             *y = static_cast<const float*>(frame->buffers[2].data);
  auto* out = static_cast<float*>(frame->buffers[0].data);
  for (int64_t i = 0; i < frame->buffers[0].sizes[0]; ++i) out[i] = x[i] + y[i];
  return MYDEV_OK;
}

template <typename Function>
const mydev_kernel& registered(const char* name, mydev_kernel_kind kind, Function function) {
  mydev_kernel kernel{};
  kernel.struct_size = sizeof(mydev_kernel);
  kernel.name = name;
  kernel.kind = kind;
  if (kind == MYDEV_KIND_FRAME) {
    kernel.entry = add_frame;
  } else {
    kernel.execute = reinterpret_cast<mydev_function>(function);
  }
  return *register_kernel(kernel, {"", "benchmark"});
}

// Frame, launch and kernel, on the inline host driver.
void call(benchmark::State& state, const mydev_kernel& kernel, std::span<const mydev_attribute> attributes = {}) {
  std::vector<float> out(16), a(16, 1), b(16, 2);
  Stream& stream = default_stream(0);
  const int64_t size = 16, stride = 1;
  for (auto _ : state) {
    const std::array<mydev_buffer, 3> operands = {{{out.data(), &size, &stride, 1, MYDEV_F32},
                                                   {a.data(), &size, &stride, 1, MYDEV_F32},
                                                   {b.data(), &size, &stride, 1, MYDEV_F32}}};
    mydev_frame frame = make_frame(operands, 1, attributes);
    launch(kernel, frame, stream);
    benchmark::DoNotOptimize(out.data());
  }
}

void frame_kernel(benchmark::State& state) {
  call(state, registered("benchmark.frame", MYDEV_KIND_FRAME, add_frame));
}
void typed_ffi_kernel(benchmark::State& state) {
  call(state, registered("benchmark.typed_ffi", MYDEV_KIND_TYPED_FFI, add_ffi));
}
void typed_ffi_kernel_with_attributes(benchmark::State& state) {
  const std::vector<mydev_attribute> attributes = {float_attribute("eps", 1e-5), int_attribute("axis", 1)};
  call(state, registered("benchmark.typed_ffi", MYDEV_KIND_TYPED_FFI, add_ffi), attributes);
}
void legacy_kernel(benchmark::State& state) {
  call(state, registered("benchmark.legacy", MYDEV_KIND_UNIFIED_HOST, add_unified));
}

// The same handler with a frame from std::vector for each call, and no launch.
void typed_ffi_frame_built_anew(benchmark::State& state) {
  std::vector<float> out(16), a(16, 1), b(16, 2);
  for (auto _ : state) {
    std::vector<std::vector<int64_t>> dims(3, {16});
    std::vector<ffi::Buffer> buffers;
    for (size_t i = 0; i < 3; ++i) {
      void* data = i == 0 ? a.data() : i == 1 ? b.data() : out.data();
      buffers.push_back({sizeof(ffi::Buffer), nullptr, MYDEV_F32, data, 1, dims[i].data()});
    }
    std::vector<int32_t> types(3, ffi::kBuffer);
    std::vector<void*> arguments = {&buffers[0], &buffers[1]}, results = {&buffers[2]};
    auto context = std::make_unique<ffi::ExecutionContext>();
    ffi::CallFrame frame{};
    frame.struct_size = ffi::kCallFrameSize;
    frame.api = &ffi::api_table(3);
    frame.context = context.get();
    frame.stage = ffi::kExecute;
    frame.arguments = {sizeof(ffi::Arguments), nullptr, 2, types.data(), arguments.data()};
    frame.results = {sizeof(ffi::Results), nullptr, 1, types.data(), results.data()};
    frame.attributes.struct_size = sizeof(ffi::Attributes);
    benchmark::DoNotOptimize(add_ffi(&frame));
  }
}

BENCHMARK(frame_kernel);
BENCHMARK(typed_ffi_kernel);
BENCHMARK(typed_ffi_kernel_with_attributes);
BENCHMARK(typed_ffi_frame_built_anew);
BENCHMARK(legacy_kernel);

}  // namespace
}  // namespace mydev
