// The OpenCL driver: devices of an OpenCL platform, with a compiler, so that portable kernels run on them. A driver
// like any other, on the public headers alone; the runtime loads it from its own directory, and it loads OpenCL.
//
// A stream is a queue in order, and work returns as soon as it is given. The driver has no kernels of its own.
#include <algorithm>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>

#include "driver_support/streams.h"
#include "mydev/driver_extensions.h"
#include "opencl_driver/api/errors.h"
#include "opencl_driver/api/opencl_api.h"
#include "opencl_driver/compiler/kernel_modules.h"
#include "opencl_driver/memory/device_memory.h"
#include "opencl_driver/memory/pinned_memory.h"
#include "opencl_driver/observe/profiler.h"
#include "opencl_driver/options.h"
#include "opencl_driver/platform/device_facts.h"
#include "opencl_driver/platform/platform.h"
#include "opencl_driver/stream/stream.h"

namespace mydev::opencl_driver {

namespace {

struct OpenclDriver {
  explicit OpenclDriver(const Options& options)
      : platform(options), memory(DeviceMemory::make(platform, options.memory)), pinned(platform) {}

  const Platform platform;
  const std::unique_ptr<DeviceMemory> memory;
  PinnedMemory pinned;
  Streams<OpenclStream> streams;
};

// Made by initialize and never destroyed: streams may be used until the process is gone.
OpenclDriver* the_driver = nullptr;

OpenclDriver& driver() {
  return *the_driver;
}

KernelModule& as_module(mydev_module module) {
  return *reinterpret_cast<KernelModule*>(module);
}

// --- life, devices ---------------------------------------------------------------------------------------------------

mydev_code initialize(const char* options, const mydev_host_services* /*host*/) {
  return run_checked([&] {
    const Options parsed = parse_options(options);
    load_opencl();
    the_driver = std::make_unique<OpenclDriver>(parsed).release();
  });
}

void finalize() {
  driver().streams.for_each([](OpenclStream& stream) { stream.stop_host_calls(); });
}

mydev_code device_count(int32_t* out_count) {
  *out_count = static_cast<int32_t>(driver().platform.devices().size());
  return MYDEV_OK;
}

mydev_code device_properties(int32_t device, mydev_device_properties* out) {
  return run_checked([&] {
    const OpenclDevice& described = driver().platform.device(device);
    const DeviceMemory& memory = *driver().memory;
    out->total_memory = described.limit;
    out->alignment = DeviceMemory::kAlignment;
    out->capabilities = MYDEV_CAPABILITY_ASYNC | MYDEV_CAPABILITY_LAUNCH_COPIES;
    if (memory.has_peers()) out->capabilities |= MYDEV_CAPABILITY_PEER;
    // Slow, so that kernels run on the device, and only what it has none for on the host.
    if (memory.host_accessible()) {
      out->capabilities |= MYDEV_CAPABILITY_HOST_ACCESSIBLE | MYDEV_CAPABILITY_HOST_ACCESS_SLOW;
    }
    describe_device(described.id, described.part, *out);
    if (out->struct_size < sizeof(*out)) return;  // a runtime before 1.1
    out->max_allocation =
        std::min(described.limit, device_number<cl_ulong>(described.id, CL_DEVICE_MAX_MEM_ALLOC_SIZE));
  });
}

// --- memory ----------------------------------------------------------------------------------------------------------

mydev_code memory_alloc(int32_t device, uint64_t bytes, void** out_data) {
  return run_checked([&] { *out_data = driver().memory->allocate(device, bytes); });
}

mydev_code memory_free(int32_t /*device*/, void* data, uint64_t /*bytes*/) {
  return run_checked([&] { driver().memory->free(data); });
}

mydev_code memory_info(int32_t device, uint64_t* out_free, uint64_t* out_total) {
  *out_total = driver().platform.device(device).limit;
  *out_free = *out_total - std::min(*out_total, driver().memory->allocated(device));
  return MYDEV_OK;
}

mydev_code host_alloc(uint64_t bytes, void** out_data) {
  return run_checked([&] { *out_data = driver().pinned.allocate(bytes); });
}

mydev_code host_free(void* data, uint64_t /*bytes*/) {
  return run_checked([&] { driver().pinned.free(data); });
}

mydev_code pointer_info(const void* pointer, mydev_pointer_info* out) {
  return run_checked([&] {
    mydev_pointer_info info{out->struct_size, MYDEV_MEMORY_ORDINARY, -1, nullptr, 0};
    if (const auto pinned = driver().pinned.find(pointer, 1)) {
      info = {out->struct_size, MYDEV_MEMORY_PINNED, -1, pinned->begin, pinned->bytes};
    } else if (const auto allocation = driver().memory->find(pointer, 1)) {
      info = {out->struct_size, MYDEV_MEMORY_DEVICE, allocation->value.device, allocation->begin, allocation->bytes};
    }
    *out = info;
  });
}

// --- copies ----------------------------------------------------------------------------------------------------------

// Waits for a copy whose host memory is the caller's again when the call returns.
void wait_unless_pinned(const EventHandle& end, const void* dst, const void* src, mydev_copy_kind kind) {
  if (kind == MYDEV_COPY_DEVICE_TO_DEVICE) return;
  if (driver().pinned.find(kind == MYDEV_COPY_HOST_TO_DEVICE ? src : dst, 1)) return;
  end.wait();
}

mydev_code copy(mydev_stream stream, void* dst, const void* src, uint64_t bytes, mydev_copy_kind kind) {
  return run_checked([&] {
    const EventHandle end = as_stream(stream).enqueue({MYDEV_ACTIVITY_COPY, nullptr, bytes},
                                                      [&](cl_command_queue queue, cl_event* out_event) {
                                                        driver().memory->copy(queue, dst, src, bytes, kind, out_event);
                                                      });
    wait_unless_pinned(end, dst, src, kind);
  });
}

mydev_code copy_peer(mydev_stream stream, void* dst, int32_t /*dst_device*/, const void* src, int32_t /*src_device*/,
                     uint64_t bytes) {
  return copy(stream, dst, src, bytes, MYDEV_COPY_DEVICE_TO_DEVICE);
}

mydev_code copy_strided(mydev_stream stream, const mydev_buffer* dst, const mydev_buffer* src, mydev_copy_kind kind) {
  const std::optional<Rectangles> rectangles = driver().memory->rectangles(*dst, *src, kind);
  if (!rectangles) return fail(MYDEV_UNIMPLEMENTED, "the views are no rectangles that the device copies");
  return run_checked([&] {
    const EventHandle end = as_stream(stream).enqueue(
        {MYDEV_ACTIVITY_COPY, nullptr, rectangles->bytes()}, [&](cl_command_queue queue, cl_event* out_event) {
          driver().memory->copy_rectangles(queue, dst->data, src->data, *rectangles, kind, out_event);
        });
    wait_unless_pinned(end, dst->data, src->data, kind);
  });
}

mydev_code fill(mydev_stream stream, void* dst, uint64_t bytes, const void* pattern, uint32_t pattern_bytes) {
  return run_checked([&] {
    as_stream(stream).enqueue({MYDEV_ACTIVITY_FILL, nullptr, bytes}, [&](cl_command_queue queue, cl_event* out_event) {
      driver().memory->fill(queue, dst, bytes, pattern, pattern_bytes, out_event);
    });
  });
}

// --- streams ---------------------------------------------------------------------------------------------------------

mydev_code stream_create(int32_t device, int32_t /*priority*/, mydev_stream* out_stream) {
  return run_checked(
      [&] { *out_stream = driver().streams.add(std::make_unique<OpenclStream>(driver().platform, device)); });
}

mydev_code stream_destroy(mydev_stream stream) {
  return run_checked([&] { driver().streams.destroy(stream); });
}

mydev_code stream_query(mydev_stream stream, int32_t* out_done) {
  return run_checked([&] { *out_done = as_stream(stream).idle() ? 1 : 0; });
}

mydev_code stream_synchronize(mydev_stream stream) {
  return run_checked([&] { as_stream(stream).finish(); });
}

mydev_code stream_wait_event(mydev_stream stream, mydev_event event) {
  return run_checked([&] { as_stream(stream).wait_for(as_event(event).latest()); });
}

mydev_code stream_status(mydev_stream stream, mydev_code* out_status) {
  return run_checked([&] {
    const OpenclStream::Failure failure = as_stream(stream).take_failure();
    if (failure.code != MYDEV_OK) fail(failure.code, failure.message.c_str());
    *out_status = failure.code;
  });
}

mydev_code stream_host_call(mydev_stream stream, mydev_host_function function, void* context) {
  return run_checked([&] { as_stream(stream).call_host([=] { function(context); }); });
}

// --- events ----------------------------------------------------------------------------------------------------------

mydev_code event_create(int32_t /*device*/, uint32_t /*flags*/, mydev_event* out_event) {
  return run_checked([&] { *out_event = reinterpret_cast<mydev_event>(std::make_unique<OpenclEvent>().release()); });
}

mydev_code event_destroy(mydev_event event) {
  const std::unique_ptr<OpenclEvent> owned(&as_event(event));
  return MYDEV_OK;
}

mydev_code event_record(mydev_event event, mydev_stream stream) {
  return run_checked([&] { as_event(event).record(as_stream(stream)); });
}

mydev_code event_query(mydev_event event, int32_t* out_done) {
  return run_checked([&] {
    const EventHandle latest = as_event(event).latest();
    *out_done = !latest || latest.done() ? 1 : 0;
  });
}

mydev_code event_synchronize(mydev_event event) {
  return run_checked([&] {
    if (const EventHandle latest = as_event(event).latest()) latest.wait();
  });
}

mydev_code event_elapsed(mydev_event start, mydev_event end, double* out_milliseconds) {
  return run_checked(
      [&] { *out_milliseconds = elapsed_milliseconds(as_event(start).latest(), as_event(end).latest()); });
}

// --- work ------------------------------------------------------------------------------------------------------------

// Takes records without a geometry: kernels of the host's, on memory that the host reaches. They run on the stream's
// thread for host calls, when the stream comes to them.
mydev_code launch(mydev_stream stream, const mydev_kernel* kernel, mydev_frame* frame) {
  if (kernel->entry == nullptr || kernel->runs == MYDEV_RUNS_DRIVER || !driver().memory->host_accessible()) {
    return fail(MYDEV_UNIMPLEMENTED,
                "the OpenCL driver runs kernels that it compiled, with a geometry, and, with "
                "memory=fine, those of the host");
  }
  return run_checked([&] {
    as_stream(stream).call_host([=] {
      mydev_code code = MYDEV_INTERNAL;
      try {  // kernels come from users too
        code = kernel->entry(frame);
      } catch (const std::exception& error) {
        frame->host->set_error(frame, error.what());
      } catch (...) {
        frame->host->set_error(frame, "the kernel threw something that is no std::exception");
      }
      frame->host->complete(frame, code);
    });
  });
}

// --- extensions ------------------------------------------------------------------------------------------------------

mydev_code languages(int32_t /*device*/, const char* const** out_languages) {
  static constexpr const char* kLanguages[] = {"opencl-c", nullptr};
  *out_languages = kLanguages;
  return MYDEV_OK;
}

mydev_code module_create(int32_t device, const mydev_module_source* source, mydev_module* out_module) {
  return run_checked([&] {
    const Platform& platform = driver().platform;
    auto module = KernelModule::make(platform, platform.device(device), *source);
    *out_module = reinterpret_cast<mydev_module>(module.release());
  });
}

mydev_code module_destroy(mydev_module module) {
  const std::unique_ptr<KernelModule> owned(&as_module(module));
  return MYDEV_OK;
}

mydev_code module_binary(mydev_module module, const void** out_data, uint64_t* out_bytes) {
  return run_checked([&] {
    const std::string_view binary = as_module(module).binary();
    *out_data = binary.data();
    *out_bytes = binary.size();
  });
}

mydev_code module_kernel(mydev_module module, const char* name, const mydev_kernel** out_kernel) {
  return run_checked([&] { *out_kernel = as_module(module).kernel(name); });
}

mydev_code launch_compiled(mydev_stream stream, const mydev_kernel* kernel, mydev_frame* frame,
                           const mydev_geometry* geometry) {
  return run_checked([&] { launch_of_module(as_stream(stream), *driver().memory, *kernel, *frame, *geometry); });
}

mydev_code properties(int32_t device, mydev_compiler_properties* out) {
  return run_checked([&] {
    const size_t struct_size = out->struct_size;
    *out = compiler_properties(driver().platform.device(device), driver().memory->parameters());
    out->struct_size = struct_size;
  });
}

constexpr mydev_compiler_extension kCompiler = {
    .head = {.struct_size = sizeof(mydev_compiler_extension), .version = MYDEV_COMPILER_VERSION},
    .languages = languages,
    .module_create = module_create,
    .module_destroy = module_destroy,
    .module_binary = module_binary,
    .module_kernel = module_kernel,
    .launch = launch_compiled,
    .properties = properties,
};

constexpr mydev_profiler_extension kProfiler = {
    .head = {.struct_size = sizeof(mydev_profiler_extension), .version = MYDEV_PROFILER_VERSION},
    .start = start_recording,
    .stop = stop_recording,
    .set_launch_id = set_launch_id,
    .flush = [](int32_t device, void (*sink)(void*, const mydev_activity*),
                void* context) { return run_checked([&] { profiler().flush(device, sink, context); }); },
    .clock_pair =
        [](int32_t device, mydev_clock_pair* out_pair) {
          return run_checked([&] { read_clocks(driver().platform.device(device), *out_pair); });
        },
};

constexpr mydev_extension kExtensions[] = {{MYDEV_COMPILER_EXTENSION, MYDEV_COMPILER_VERSION},
                                           {MYDEV_PROFILER_EXTENSION, MYDEV_PROFILER_VERSION}};

const void* extension(const char* name, uint32_t /*version*/) {
  const std::string_view asked = name;
  if (asked == MYDEV_COMPILER_EXTENSION) return &kCompiler;
  if (asked == MYDEV_PROFILER_EXTENSION) return &kProfiler;
  return nullptr;
}

// clang-format off: a line for what belongs together
constexpr mydev_driver_api kApi = {
    .struct_size = sizeof(mydev_driver_api),
    .version_major = MYDEV_DRIVER_VERSION_MAJOR, .version_minor = MYDEV_DRIVER_VERSION_MINOR,
    .name = "opencl", .version = "1.0",
    .initialize = initialize, .finalize = finalize, .last_error = last_error,
    .device_count = device_count, .device_properties = device_properties,
    .memory_alloc = memory_alloc, .memory_free = memory_free, .memory_info = memory_info,
    .host_alloc = host_alloc, .host_free = host_free,
    .copy = copy, .copy_peer = copy_peer, .fill = fill,
    .stream_create = stream_create, .stream_destroy = stream_destroy, .stream_query = stream_query,
    .stream_synchronize = stream_synchronize, .stream_wait_event = stream_wait_event,
    .event_create = event_create, .event_destroy = event_destroy, .event_record = event_record,
    .event_query = event_query, .event_synchronize = event_synchronize, .event_elapsed = event_elapsed,
    .launch = launch,
    .stream_status = stream_status, .stream_host_call = stream_host_call,
    .copy_strided = copy_strided,
    .pointer_info = pointer_info,
    .extensions = kExtensions, .num_extensions = std::size(kExtensions), .extension = extension,
};
// clang-format on

}  // namespace

}  // namespace mydev::opencl_driver

extern "C" MYDEV_EXPORT const mydev_driver_api* mydev_driver_query(uint32_t version_major, uint32_t /*version_minor*/) {
  return version_major == MYDEV_DRIVER_VERSION_MAJOR ? &mydev::opencl_driver::kApi : nullptr;
}
