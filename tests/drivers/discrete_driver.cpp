// A driver whose devices have memory of their own, which the host cannot touch (simulated_memory.h). It leaves out
// every optional entry but find_kernel and list_kernels, runs work at once, and brings one kernel: "conformance.scale",
// as docs/conformance.md describes it. docs/driver-tutorial.md walks through the marked parts.
//
// Options: devices=N (1 to 4), memory=MIB (of each device; 256).
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "mydev/driver.h"
#include "simulated_memory.h"

// Kernels that a variant of this driver has besides its own (tests/drivers/kernels).
#ifdef MYDEV_MORE_KERNELS
extern const std::span<const mydev_kernel> kMoreKernels;
#else
static constexpr std::span<const mydev_kernel> kMoreKernels;
#endif

namespace {

constexpr int32_t kMaxDevices = 4;

thread_local std::array<char, 256> error_message;

mydev_code fail(mydev_code code, const std::string& message) {
  std::snprintf(error_message.data(), error_message.size(), "%s", message.c_str());
  return code;
}

struct Stream {
  int32_t device;
};

struct Event {
  std::chrono::steady_clock::time_point time;
  bool recorded = false;
};

int32_t num_devices = 1;
uint64_t memory_bytes = uint64_t{256} << 20;
std::array<SimulatedMemory, kMaxDevices> memories;

SimulatedMemory& memory_of(mydev_stream stream) {
  return memories[static_cast<size_t>(reinterpret_cast<Stream*>(stream)->device)];
}

mydev_code initialize(const char* options, const mydev_host_services* /*host*/) {
  std::string text = options;
  while (!text.empty()) {
    const std::string option = text.substr(0, text.find(','));
    text.erase(0, option.size() + 1);
    const std::string name = option.substr(0, option.find('='));
    const long value = std::atol(option.substr(std::min(option.size(), name.size() + 1)).c_str());
    if (name == "devices" && value >= 1 && value <= kMaxDevices) {
      num_devices = static_cast<int32_t>(value);
    } else if (name == "memory" && value >= 1) {
      memory_bytes = static_cast<uint64_t>(value) << 20;
    } else {
      return fail(MYDEV_INVALID_ARGUMENT,
                  "bad option '" + option + "'; the discrete driver takes devices=N (1 to 4), memory=MIB");
    }
  }
  for (SimulatedMemory& memory : std::span(memories).first(static_cast<size_t>(num_devices))) {
    if (!memory.reserve(memory_bytes)) {
      return fail(MYDEV_RESOURCE_EXHAUSTED, "no address space for the devices' memory");
    }
  }
  return MYDEV_OK;
}

const char* last_error() {
  return error_message.data();
}

mydev_code device_count(int32_t* out_count) {
  *out_count = num_devices;
  return MYDEV_OK;
}

// [docs: properties]
mydev_code device_properties(int32_t /*device*/, mydev_device_properties* out) {
  std::snprintf(out->name, sizeof(out->name), "discrete");
  out->total_memory = memory_bytes;
  out->alignment = SimulatedMemory::kAlignment;
  out->capabilities = 0;
  out->multi_processor_count = 1;
  return MYDEV_OK;
}
// [docs: end]

// --- memory ----------------------------------------------------------------------------------------------------------

mydev_code memory_alloc(int32_t device, uint64_t bytes, void** out_data) {
  void* data = memories[static_cast<size_t>(device)].allocate(bytes);
  if (data == nullptr) {
    return fail(MYDEV_RESOURCE_EXHAUSTED, "no free range of " + std::to_string(bytes) + " bytes on the device");
  }
  *out_data = data;
  return MYDEV_OK;
}

mydev_code memory_free(int32_t device, void* data, uint64_t bytes) {
  const bool ours = memories[static_cast<size_t>(device)].free(data, bytes);
  return ours ? MYDEV_OK : fail(MYDEV_INVALID_ARGUMENT, "not a pointer of this device");
}

// --- copies ----------------------------------------------------------------------------------------------------------

// [docs: copy]
mydev_code copy(mydev_stream stream, void* dst, const void* src, uint64_t bytes, mydev_copy_kind kind) {
  const SimulatedMemory& memory = memory_of(stream);
  const bool from_device = kind != MYDEV_COPY_HOST_TO_DEVICE;
  const bool to_device = kind != MYDEV_COPY_DEVICE_TO_HOST;
  if ((from_device && !memory.holds(src, bytes)) || (to_device && !memory.holds(dst, bytes))) {
    return fail(MYDEV_INVALID_ARGUMENT, "a copy reaches beyond the device's memory");
  }
  std::memcpy(to_device ? memory.translate(dst) : dst, from_device ? memory.translate(src) : src, bytes);
  return MYDEV_OK;
}
// [docs: end]

mydev_code fill(mydev_stream stream, void* dst, uint64_t bytes, const void* pattern, uint32_t pattern_bytes) {
  const SimulatedMemory& memory = memory_of(stream);
  if (!memory.holds(dst, bytes)) {
    return fail(MYDEV_INVALID_ARGUMENT, "a fill reaches beyond the device's memory");
  }
  auto* out = static_cast<char*>(memory.translate(dst));
  for (uint64_t done = 0; done < bytes; done += pattern_bytes) {
    std::memcpy(out + done, pattern, pattern_bytes);
  }
  return MYDEV_OK;
}

// --- streams and events: all work is done when a call returns --------------------------------------------------------

mydev_code stream_create(int32_t device, int32_t /*priority*/, mydev_stream* out_stream) {
  *out_stream = reinterpret_cast<mydev_stream>(new Stream{device});
  return MYDEV_OK;
}
mydev_code stream_destroy(mydev_stream stream) {
  delete reinterpret_cast<Stream*>(stream);
  return MYDEV_OK;
}
mydev_code stream_query(mydev_stream /*stream*/, int32_t* out_done) {
  *out_done = 1;
  return MYDEV_OK;
}
mydev_code stream_synchronize(mydev_stream /*stream*/) {
  return MYDEV_OK;
}
mydev_code stream_wait_event(mydev_stream /*stream*/, mydev_event /*event*/) {
  return MYDEV_OK;
}

mydev_code event_create(int32_t /*device*/, uint32_t /*flags*/, mydev_event* out_event) {
  *out_event = reinterpret_cast<mydev_event>(new Event);
  return MYDEV_OK;
}
mydev_code event_destroy(mydev_event event) {
  delete reinterpret_cast<Event*>(event);
  return MYDEV_OK;
}
mydev_code event_record(mydev_event event, mydev_stream /*stream*/) {
  *reinterpret_cast<Event*>(event) = {std::chrono::steady_clock::now(), true};
  return MYDEV_OK;
}
mydev_code event_query(mydev_event /*event*/, int32_t* out_done) {
  *out_done = 1;
  return MYDEV_OK;
}
mydev_code event_synchronize(mydev_event /*event*/) {
  return MYDEV_OK;
}
mydev_code event_elapsed(mydev_event start, mydev_event end, double* out_milliseconds) {
  const Event& first = *reinterpret_cast<Event*>(start);
  const Event& last = *reinterpret_cast<Event*>(end);
  if (!first.recorded || !last.recorded) {
    return fail(MYDEV_FAILED_PRECONDITION, "an event of the pair was never recorded");
  }
  *out_milliseconds = std::chrono::duration<double, std::milli>(last.time - first.time).count();
  return MYDEV_OK;
}

// --- work ------------------------------------------------------------------------------------------------------------

// [docs: kernel]
// Runs on translated buffers.
mydev_code scale(const mydev_frame* frame) {
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

constexpr mydev_kernel kScale = {sizeof(mydev_kernel),
                                 "conformance.scale",
                                 scale,
                                 nullptr,
                                 "out f32[n], in f32[n]; factor: out = factor * in",
                                 nullptr};
// [docs: end]

// [docs: launch]
const mydev_kernel* find_kernel(int32_t /*device*/, const char* name) {
  if (std::strcmp(name, kScale.name) == 0) return &kScale;
  for (const mydev_kernel& kernel : kMoreKernels) {
    if (std::strcmp(name, kernel.name) == 0) return &kernel;
  }
  return nullptr;
}

mydev_code list_kernels(int32_t /*device*/, const mydev_kernel* const** out_kernels) {
  static const std::vector<const mydev_kernel*> all = [] {
    std::vector<const mydev_kernel*> listed = {&kScale};
    for (const mydev_kernel& kernel : kMoreKernels) listed.push_back(&kernel);
    listed.push_back(nullptr);
    return listed;
  }();
  *out_kernels = all.data();
  return MYDEV_OK;
}

mydev_code launch(mydev_stream stream, const mydev_kernel* kernel, mydev_frame* frame) {
  if (kernel != find_kernel(frame->device, kernel->name)) {
    return fail(MYDEV_UNIMPLEMENTED, std::string("the discrete device has no kernel ") + kernel->name);
  }
  const SimulatedMemory& memory = memory_of(stream);
  const mydev_buffer* untranslated = frame->buffers;
  std::vector<mydev_buffer> buffers(untranslated, untranslated + frame->num_outputs + frame->num_inputs);
  for (mydev_buffer& buffer : buffers) {
    const bool number = (buffer.flags & MYDEV_BUFFER_SCALAR) != 0;  // lies in host memory
    if (!number && buffer.data != nullptr) buffer.data = memory.translate(buffer.data);
  }
  void* const scratch = frame->scratch;
  if (scratch != nullptr) frame->scratch = memory.translate(scratch);
  frame->buffers = buffers.data();
  const mydev_code code = kernel->entry(frame);
  frame->buffers = untranslated;
  frame->scratch = scratch;
  return code;
}
// [docs: end]

// [docs: table]
constexpr mydev_driver_api kApi = {
    .struct_size = sizeof(mydev_driver_api),
    .version_major = MYDEV_DRIVER_VERSION_MAJOR,
    .version_minor = MYDEV_DRIVER_VERSION_MINOR,
    .name = "discrete",
    .version = "1.0",
    .initialize = initialize,
    .finalize = nullptr,
    .last_error = last_error,
    .device_count = device_count,
    .device_properties = device_properties,
    .device_synchronize = nullptr,
    .memory_alloc = memory_alloc,
    .memory_free = memory_free,
    .memory_info = nullptr,
    .host_alloc = nullptr,
    .host_free = nullptr,
    .host_access_begin = nullptr,
    .host_access_end = nullptr,
    .copy = copy,
    .copy_peer = nullptr,
    .fill = fill,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_query = stream_query,
    .stream_synchronize = stream_synchronize,
    .stream_wait_event = stream_wait_event,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .event_synchronize = event_synchronize,
    .event_elapsed = event_elapsed,
    .launch = launch,
    .find_kernel = find_kernel,
    .list_kernels = list_kernels,
};
// [docs: end]

}  // namespace

// [docs: query]
extern "C" MYDEV_EXPORT const mydev_driver_api* mydev_driver_query(uint32_t version_major, uint32_t /*version_minor*/) {
  return version_major == MYDEV_DRIVER_VERSION_MAJOR ? &kApi : nullptr;
}
// [docs: end]
