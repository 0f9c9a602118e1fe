// The built-in host driver: this machine's processor and memory as devices. A driver like any other, on the public
// header alone; the runtime loads it from its own directory.
//
// Inline by default: a launch or copy runs on the caller's thread and is done when the call returns. Options give it
// the behaviour of real devices, for tests. With `async` each stream is a thread. With `guarded` device memory is out
// of the host's reach between launches. With `remote` the device says that it always is, and brings all kernels. With
// `faults` commands are late or fail. See host_options.h.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "driver_support/streams.h"
#include "host_driver/compiler/kernel_modules.h"
#include "host_driver/faults.h"
#include "host_driver/host_copy.h"
#include "host_driver/host_error.h"
#include "host_driver/host_launch.h"
#include "host_driver/host_options.h"
#include "host_driver/memory/host_memory.h"
#include "host_driver/memory/pinned_memory.h"
#include "host_driver/observe/hardware.h"
#include "host_driver/observe/profiler.h"
#include "host_driver/observe/telemetry.h"
#include "host_driver/remote_kernels.h"
#include "host_driver/stream/host_stream.h"
#include "mydev/driver_extensions.h"

namespace mydev::host_driver {

namespace {

struct HostDriver {
  HostOptions options;
  const mydev_host_services* host = nullptr;
  Faults faults;
  std::array<HostMemory, kMaxHostDevices> memories;
  PinnedMemory pinned;
  Streams<HostStream> streams;
};

// Never destroyed: streams may be used until the process is gone.
HostDriver& driver() {
  static HostDriver& instance = *new HostDriver;
  return instance;
}

HostMemory& memory_of(int32_t device) {
  return driver().memories[static_cast<size_t>(device)];
}

HostEvent& as_event(mydev_event event) {
  return *reinterpret_cast<HostEvent*>(event);
}

// --- life, devices ---------------------------------------------------------------------------------------------------

void omit_compiler();

mydev_code initialize(const char* options, const mydev_host_services* host) {
  return run_checked([&] {
    HostDriver& self = driver();
    self.options = parse_host_options(options);
    self.host = host;
    self.faults.configure(self.options.faults);
    if (self.options.remote && self.options.kernels == RemoteKernels::kAll) load_remote_kernels();
    if (self.options.remote && self.options.kernels == RemoteKernels::kNone) omit_compiler();
    const auto physical =
        static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    const uint64_t limit = self.options.memory != 0 ? self.options.memory : physical;
    for (int32_t device = 0; device < self.options.devices; ++device) {
      memory_of(device).configure(device, limit, self.options.guarded, self.options.remote);
    }
  });
}

void finalize() {
  driver().streams.for_each([](HostStream& stream) { stream.stop_thread(); });
}

mydev_code device_count(int32_t* out_count) {
  *out_count = driver().options.devices;
  return MYDEV_OK;
}

mydev_code device_properties(int32_t device, mydev_device_properties* out) {
  const HostOptions& options = driver().options;
  std::snprintf(out->name, sizeof(out->name), "host");
  out->total_memory = memory_of(device).limit();
  out->alignment = 64;
  out->capabilities = MYDEV_CAPABILITY_PEER;
  if (!options.remote) out->capabilities |= MYDEV_CAPABILITY_HOST_ACCESSIBLE | MYDEV_CAPABILITY_UNIFIED_MEMORY;
  if (options.asynchronous) out->capabilities |= MYDEV_CAPABILITY_ASYNC;
  out->major = 1;
  out->minor = 0;
  out->multi_processor_count = static_cast<int32_t>(std::thread::hardware_concurrency());
  out->stream_priority_low = 0;
  out->stream_priority_high = -1;
  if (out->struct_size >= sizeof(*out)) {  // the runtime knows 1.1
    out->max_allocation = out->total_memory;
    describe_hardware(device, *out);
  }
  return MYDEV_OK;
}

// --- memory ----------------------------------------------------------------------------------------------------------

mydev_code memory_alloc(int32_t device, uint64_t bytes, void** out_data) {
  return run_checked([&] {
    raise_if_injected(FaultKind::kAlloc, driver().faults.inject(FaultKind::kAlloc));
    *out_data = memory_of(device).allocate(bytes);
  });
}

mydev_code memory_free(int32_t device, void* data, uint64_t /*bytes*/) {
  return run_checked([&] { memory_of(device).free(data); });
}

mydev_code memory_info(int32_t device, uint64_t* out_free, uint64_t* out_total) {
  const HostMemory& memory = memory_of(device);
  *out_total = memory.limit();
  *out_free = memory.limit() - memory.allocated();
  return MYDEV_OK;
}

mydev_code host_alloc(uint64_t bytes, void** out_data) {
  return run_checked([&] { *out_data = driver().pinned.allocate(bytes); });
}

mydev_code host_free(void* data, uint64_t /*bytes*/) {
  return run_checked([&] { driver().pinned.free(data); });
}

mydev_code host_register(void* data, uint64_t bytes) {
  return run_checked([&] { driver().pinned.register_range(data, bytes); });
}

mydev_code host_unregister(void* data, uint64_t /*bytes*/) {
  return run_checked([&] { driver().pinned.unregister_range(data); });
}

mydev_code pointer_info(const void* pointer, mydev_pointer_info* out) {
  return run_checked([&] {
    HostDriver& self = driver();
    mydev_pointer_info info{out->struct_size, MYDEV_MEMORY_ORDINARY, -1, nullptr, 0};
    if (self.pinned.find(pointer, info.base, info.bytes)) info.kind = MYDEV_MEMORY_PINNED;
    for (int32_t device = 0; device < self.options.devices; ++device) {
      if (!memory_of(device).find(pointer, info.base, info.bytes)) continue;
      info.kind = MYDEV_MEMORY_DEVICE;
      info.device = device;
    }
    *out = info;
  });
}

mydev_code host_access_begin(int32_t device) {
  return run_checked([&] {
    require(!driver().options.remote, MYDEV_FAILED_PRECONDITION, "a remote device gives the host no access");
    memory_of(device).begin_access();
  });
}

mydev_code host_access_end(int32_t device) {
  return run_checked([&] { memory_of(device).end_access(); });
}

mydev_code host_access_begin_range(int32_t device, void* pointer, uint64_t bytes, uint32_t /*access*/) {
  return run_checked([&] {
    require(!driver().options.remote, MYDEV_FAILED_PRECONDITION, "a remote device gives the host no access");
    memory_of(device).begin_access(pointer, bytes);
  });
}

mydev_code host_access_end_range(int32_t device, void* pointer, uint64_t bytes, uint32_t /*access*/) {
  return run_checked([&] { memory_of(device).end_access(pointer, bytes); });
}

// Raises INVALID_ARGUMENT unless the address lies in an allocation. The host does not reach remote memory: a stray
// address is an error there, and does not end the process.
void check_address(HostMemory& memory, const void* data) {
  void* base = nullptr;
  uint64_t bytes = 0;
  require(memory.find(data, base, bytes), MYDEV_INVALID_ARGUMENT, "no allocation of device ", memory.device(),
          " lies at ", data);
}

// --- copies ----------------------------------------------------------------------------------------------------------

// Copies take several threads only on the caller's thread: a stream's own thread would bring a thread pool of its own.
const mydev_host_services* threads_for(const HostStream& stream) {
  return stream.asynchronous() ? nullptr : driver().host;
}

// Whether the host's side of a copy may be used after the call has returned.
bool may_return_early(const void* dst, const void* src, mydev_copy_kind kind) {
  const void* host_side = kind == MYDEV_COPY_HOST_TO_DEVICE ? src : dst;
  return kind == MYDEV_COPY_DEVICE_TO_DEVICE || driver().pinned.contains(host_side);
}

mydev_code copy(mydev_stream stream, void* dst, const void* src, uint64_t bytes, mydev_copy_kind kind) {
  HostStream& host_stream = as_stream(stream);
  if (host_stream.copies_directly()) {
    if (!copy_number(dst, src, bytes)) copy_bytes(dst, src, bytes, driver().host);
    return MYDEV_OK;
  }
  return run_checked([&] {
    HostMemory& memory = host_stream.memory();
    const bool remote = memory.remote();
    const uint64_t injected = driver().faults.inject(FaultKind::kCopy);
    if (remote && kind != MYDEV_COPY_DEVICE_TO_HOST) check_address(memory, dst);
    if (remote && kind != MYDEV_COPY_HOST_TO_DEVICE) check_address(memory, src);
    const auto task = [=, threads = threads_for(host_stream), &memory] {
      raise_if_injected(FaultKind::kCopy, injected);
      const MemoryAccess access(memory);
      copy_bytes(dst, src, bytes, threads);
    };
    if (may_return_early(dst, src, kind)) {
      host_stream.run(task, {MYDEV_ACTIVITY_COPY, nullptr, bytes});
    } else {
      host_stream.run_and_wait(task, {MYDEV_ACTIVITY_COPY, nullptr, bytes});
    }
  });
}

mydev_code copy_peer(mydev_stream stream, void* dst, int32_t dst_device, const void* src, int32_t src_device,
                     uint64_t bytes) {
  return run_checked([&] {
    HostStream& host_stream = as_stream(stream);
    const uint64_t injected = driver().faults.inject(FaultKind::kCopy);
    const auto task = [=, threads = threads_for(host_stream)] {
      raise_if_injected(FaultKind::kCopy, injected);
      const MemoryAccess to(memory_of(dst_device));
      const MemoryAccess from(memory_of(src_device));
      copy_bytes(dst, src, bytes, threads);
    };
    host_stream.run(task, {MYDEV_ACTIVITY_COPY, nullptr, bytes});
  });
}

mydev_code copy_strided(mydev_stream stream, const mydev_buffer* dst, const mydev_buffer* src, mydev_copy_kind kind) {
  return run_checked([&] {
    HostStream& host_stream = as_stream(stream);
    HostMemory& memory = host_stream.memory();
    const uint64_t injected = driver().faults.inject(FaultKind::kCopy);
    StridedCopy strided(*dst, *src);
    const Work work{MYDEV_ACTIVITY_COPY, nullptr, strided.bytes()};
    const auto task = [copy = std::move(strided), threads = threads_for(host_stream), &memory, injected] {
      raise_if_injected(FaultKind::kCopy, injected);
      const MemoryAccess access(memory);
      copy.run(threads);
    };
    if (may_return_early(dst->data, src->data, kind)) {
      host_stream.run(task, work);
    } else {
      host_stream.run_and_wait(task, work);
    }
  });
}

mydev_code peer_access(int32_t /*device*/, int32_t /*peer*/, int32_t* out_can) {
  *out_can = 1;
  return MYDEV_OK;
}

mydev_code fill(mydev_stream stream, void* dst, uint64_t bytes, const void* pattern, uint32_t pattern_bytes) {
  Pattern copied{.size = pattern_bytes};
  if (pattern_bytes == 0 || pattern_bytes > copied.bytes.size()) {
    return fail(MYDEV_INVALID_ARGUMENT, "a fill pattern has 1, 2, 4, 8 or 16 bytes");
  }
  std::memcpy(copied.bytes.data(), pattern, pattern_bytes);
  HostStream& host_stream = as_stream(stream);
  if (host_stream.copies_directly()) {
    fill_bytes(dst, bytes, copied);
    return MYDEV_OK;
  }
  return run_checked([&] {
    HostMemory& memory = host_stream.memory();
    if (memory.remote()) check_address(memory, dst);
    const uint64_t injected = driver().faults.inject(FaultKind::kFill);
    const auto task = [=, &memory] {
      raise_if_injected(FaultKind::kFill, injected);
      const MemoryAccess access(memory);
      fill_bytes(dst, bytes, copied);
    };
    host_stream.run(task, {MYDEV_ACTIVITY_FILL, nullptr, bytes});
  });
}

// --- streams ---------------------------------------------------------------------------------------------------------

mydev_code stream_create(int32_t device, int32_t /*priority*/, mydev_stream* out_stream) {
  return run_checked([&] {
    HostDriver& self = driver();
    auto stream = std::make_unique<HostStream>(memory_of(device), self.options.asynchronous, self.faults);
    *out_stream = self.streams.add(std::move(stream));
  });
}

mydev_code stream_destroy(mydev_stream stream) {
  return run_checked([&] { driver().streams.destroy(stream); });
}

mydev_code stream_query(mydev_stream stream, int32_t* out_done) {
  *out_done = as_stream(stream).idle() ? 1 : 0;
  return MYDEV_OK;
}

mydev_code stream_synchronize(mydev_stream stream) {
  if (as_stream(stream).asynchronous()) {
    as_stream(stream).wait();
  }
  return MYDEV_OK;
}

mydev_code stream_wait_event(mydev_stream stream, mydev_event event) {
  return run_checked([&] { as_event(event).make_wait(as_stream(stream)); });
}

mydev_code stream_status(mydev_stream stream, mydev_code* out_status) {
  const HostStream::Failure failure = as_stream(stream).take_failure();
  *out_status = failure.code;
  if (failure.code != MYDEV_OK) fail(failure.code, failure.message.c_str());
  return MYDEV_OK;
}

mydev_code stream_host_call(mydev_stream stream, mydev_host_function function, void* context) {
  return run_checked([&] {
    raise_if_injected(FaultKind::kHostCall, driver().faults.inject(FaultKind::kHostCall));
    as_stream(stream).run([=] { function(context); }, {MYDEV_ACTIVITY_HOST_CALL});
  });
}

// --- events ----------------------------------------------------------------------------------------------------------

mydev_code event_create(int32_t /*device*/, uint32_t /*flags*/, mydev_event* out_event) {
  return run_checked([&] { *out_event = reinterpret_cast<mydev_event>(std::make_unique<HostEvent>().release()); });
}

mydev_code event_destroy(mydev_event event) {
  const std::unique_ptr<HostEvent> owned(&as_event(event));
  return MYDEV_OK;
}

mydev_code event_record(mydev_event event, mydev_stream stream) {
  return run_checked([&] { as_event(event).record(as_stream(stream)); });
}

mydev_code event_query(mydev_event event, int32_t* out_done) {
  *out_done = as_event(event).done() ? 1 : 0;
  return MYDEV_OK;
}

mydev_code event_synchronize(mydev_event event) {
  as_event(event).wait();
  return MYDEV_OK;
}

mydev_code event_on_done(mydev_event event, mydev_host_function function, void* context) {
  return run_checked([&] { as_event(event).on_done([=] { function(context); }); });
}

mydev_code event_elapsed(mydev_event start, mydev_event end, double* out_milliseconds) {
  const HostEvent& first = as_event(start);
  const HostEvent& last = as_event(end);
  if (!first.recorded() || !last.recorded()) {
    return fail(MYDEV_FAILED_PRECONDITION, "an event of the pair was never recorded");
  }
  if (!first.done() || !last.done()) {
    return fail(MYDEV_FAILED_PRECONDITION, "an event of the pair is not finished; synchronize it first");
  }
  *out_milliseconds = std::chrono::duration<double, std::milli>(last.time() - first.time()).count();
  return MYDEV_OK;
}

// --- work ------------------------------------------------------------------------------------------------------------

const mydev_kernel* find_kernel(int32_t /*device*/, const char* name) {
  return driver().options.remote ? remote_kernel(name) : nullptr;
}

mydev_code list_kernels(int32_t /*device*/, const mydev_kernel* const** out_kernels) {
  static constexpr const mydev_kernel* kNone = nullptr;
  return run_checked([&] { *out_kernels = driver().options.remote ? remote_kernels() : &kNone; });
}

// --- extensions ------------------------------------------------------------------------------------------------------

const void* extension(const char* name, uint32_t /*version*/) {
  const std::string_view asked = name;
  if (asked == MYDEV_COMPILER_EXTENSION) return &compiler_extension();
  if (asked == MYDEV_PROFILER_EXTENSION) return &profiler_extension();
  if (asked == MYDEV_TELEMETRY_EXTENSION) return &telemetry_extension();
  return nullptr;
}

// clang-format off: a line for what belongs together
constexpr mydev_driver_api kApi = {
    .struct_size = sizeof(mydev_driver_api),
    .version_major = MYDEV_DRIVER_VERSION_MAJOR, .version_minor = MYDEV_DRIVER_VERSION_MINOR,
    .name = "host", .version = "1.2",
    .initialize = initialize, .finalize = finalize, .last_error = last_error,
    .device_count = device_count, .device_properties = device_properties,
    .memory_alloc = memory_alloc, .memory_free = memory_free, .memory_info = memory_info,
    .host_alloc = host_alloc, .host_free = host_free,
    .host_access_begin = host_access_begin, .host_access_end = host_access_end,
    .copy = copy, .copy_peer = copy_peer, .fill = fill,
    .stream_create = stream_create, .stream_destroy = stream_destroy, .stream_query = stream_query,
    .stream_synchronize = stream_synchronize, .stream_wait_event = stream_wait_event,
    .event_create = event_create, .event_destroy = event_destroy, .event_record = event_record,
    .event_query = event_query, .event_synchronize = event_synchronize, .event_elapsed = event_elapsed,
    .launch = launch, .find_kernel = find_kernel,
    .stream_status = stream_status, .stream_host_call = stream_host_call, .event_on_done = event_on_done,
    .copy_strided = copy_strided, .peer_access = peer_access,
    .host_register = host_register, .host_unregister = host_unregister, .pointer_info = pointer_info,
    .extension = extension,
    .list_kernels = list_kernels,
    .host_access_begin_range = host_access_begin_range, .host_access_end_range = host_access_end_range,
};
// clang-format on

// The compiler last: it is there only on machines that have one, and not with kernels=none.
constexpr std::array kExtensions = {mydev_extension{MYDEV_PROFILER_EXTENSION, MYDEV_PROFILER_VERSION},
                                    mydev_extension{MYDEV_TELEMETRY_EXTENSION, MYDEV_TELEMETRY_VERSION},
                                    mydev_extension{MYDEV_COMPILER_EXTENSION, MYDEV_COMPILER_VERSION}};

mydev_driver_api& api() {
  static mydev_driver_api table = [] {
    mydev_driver_api made = kApi;
    made.extensions = kExtensions.data();
    made.num_extensions = kExtensions.size() - (has_compiler() ? 0 : 1);
    return made;
  }();
  return table;
}

void omit_compiler() {
  api().num_extensions = kExtensions.size() - 1;
}

}  // namespace

}  // namespace mydev::host_driver

extern "C" MYDEV_EXPORT const mydev_driver_api* mydev_driver_query(uint32_t version_major, uint32_t /*version_minor*/) {
  return version_major == MYDEV_DRIVER_VERSION_MAJOR ? &mydev::host_driver::api() : nullptr;
}
