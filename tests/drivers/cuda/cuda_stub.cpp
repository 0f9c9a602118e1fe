// libcuda for machines without a GPU, for csrc/cuda_driver: memory is the host's, a stream is a thread with a queue.
//
// Machine code for a GPU (of NVRTC) is loaded, and its functions are found, but a launch runs nothing. Modules of
// nvrtc_stub run on the processor: blocks one after the other, their threads as contexts that take turns at barriers.
//
// Environment: CUDA_STUB_DEVICES (2), CUDA_STUB_MEMORY (bytes of each; 256 MiB), CUDA_STUB_CAPABILITY (90),
// CUDA_STUB_THREADS (of a block; 1024), CUDA_STUB_FAIL=ENTRY:RESULT, of an entry that always fails.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "cuda_driver/library/cuda_api.h"
#include "stub_memory.h"
#include "stub_module.h"
#include "stub_stream.h"

namespace cuda = mydev::cuda_driver;
using cuda::DevicePointer;
using cuda::EventRef;
using cuda::Ordinal;
using cuda::Result;
using cuda::StreamRef;

namespace {

// --- streams, events, graphs -----------------------------------------------------------------------------------------

std::mutex streams_mutex;
std::set<StubStream*> all_streams;

StubStream& as_stream(StreamRef stream) {
  return *reinterpret_cast<StubStream*>(stream);
}
StubEvent& as_event(EventRef event) {
  return *reinterpret_cast<StubEvent*>(event);
}

}  // namespace

#define NEEDS_CONTEXT \
  if (current == nullptr) return 201 /* CUDA_ERROR_INVALID_CONTEXT */
#define EXPORT extern "C" __attribute__((visibility("default"))) Result

EXPORT cuInit(unsigned /*flags*/) {
  if (const Result result = forced("cuInit")) return result;
  return num_devices == 0 ? cuda::kErrorNoDevice : cuda::kSuccess;
}
EXPORT cuDriverGetVersion(int* version) {
  *version = 13000;
  return cuda::kSuccess;
}
EXPORT cuGetErrorName(Result result, const char** name) {
  // clang-format off
  static const std::map<Result, const char*> names = {
      {1, "CUDA_ERROR_INVALID_VALUE"},
      {2, "CUDA_ERROR_OUT_OF_MEMORY"},
      {400, "CUDA_ERROR_INVALID_HANDLE"},
      {500, "CUDA_ERROR_NOT_FOUND"},
      {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"}};
  // clang-format on
  const auto known = names.find(result);
  if (known == names.end()) return cuda::kErrorInvalidValue;
  *name = known->second;
  return cuda::kSuccess;
}
EXPORT cuGetErrorString(Result result, const char** text) {
  *text = result == cuda::kErrorOutOfMemory ? "out of memory" : "said by the stub";
  return cuda::kSuccess;
}

// --- devices ---------------------------------------------------------------------------------------------------------

EXPORT cuDeviceGetCount(int* count) {
  if (num_devices == 0) return cuda::kErrorNotInitialized;
  *count = num_devices;
  return cuda::kSuccess;
}
EXPORT cuDeviceGet(Ordinal* device, int ordinal) {
  *device = ordinal;
  return cuda::kSuccess;
}
EXPORT cuDeviceGetName(char* name, int length, Ordinal /*device*/) {
  std::snprintf(name, static_cast<size_t>(length), "CUDA stub");
  return cuda::kSuccess;
}
EXPORT cuDeviceGetAttribute(int* value, cuda::Attribute attribute, Ordinal /*device*/) {
  using cuda::Attribute;
  const auto threads = static_cast<int>(setting("CUDA_STUB_THREADS", 1024));
  const auto capability = static_cast<int>(setting("CUDA_STUB_CAPABILITY", 90));
  switch (attribute) {
    case Attribute::kMaxThreadsPerBlock:
    case Attribute::kMaxBlockX:
    case Attribute::kMaxBlockY:
      *value = threads;
      break;
    case Attribute::kMaxBlockZ:
      *value = std::min(threads, 64);
      break;
    case Attribute::kMaxGridX:
      *value = 0x7fffffff;
      break;
    case Attribute::kMaxGridY:
    case Attribute::kMaxGridZ:
      *value = 65535;
      break;
    case Attribute::kWarpSize:
      *value = std::min(threads, 32);
      break;
    case Attribute::kMultiProcessors:
      *value = 2;
      break;
    case Attribute::kMajor:
      *value = capability / 10;
      break;
    case Attribute::kMinor:
      *value = capability % 10;
      break;
    case Attribute::kMaxSharedPerBlock:
    case Attribute::kSharedPerMultiProcessor:
      *value = 164 << 10;
      break;
    default:
      *value = 0;
      break;
  }
  return cuda::kSuccess;
}
EXPORT cuDeviceGetUuid_v2(cuda::Uuid* uuid, Ordinal device) {
  *uuid = {};
  uuid->bytes[0] = 1;
  uuid->bytes[15] = static_cast<unsigned char>(device);
  return cuda::kSuccess;
}
EXPORT cuDeviceTotalMem_v2(size_t* bytes, Ordinal /*device*/) {
  *bytes = memory_bytes;
  return cuda::kSuccess;
}
EXPORT cuDeviceCanAccessPeer(int* can, Ordinal /*device*/, Ordinal /*peer*/) {
  *can = 1;
  return cuda::kSuccess;
}
EXPORT cuDevicePrimaryCtxRetain(cuda::Context* context, Ordinal device) {
  if (const Result result = forced("cuDevicePrimaryCtxRetain")) return result;
  *context = reinterpret_cast<cuda::Context>(&contexts[static_cast<size_t>(device)]);
  return cuda::kSuccess;
}
EXPORT cuCtxGetCurrent(cuda::Context* context) {
  *context = reinterpret_cast<cuda::Context>(current);
  return cuda::kSuccess;
}
EXPORT cuCtxSetCurrent(cuda::Context context) {
  current = reinterpret_cast<StubContext*>(context);
  return cuda::kSuccess;
}
EXPORT cuCtxEnablePeerAccess(cuda::Context /*peer*/, unsigned /*flags*/) {
  return cuda::kSuccess;
}

// --- memory ----------------------------------------------------------------------------------------------------------

EXPORT cuMemAlloc_v2(DevicePointer* pointer, size_t bytes) {
  NEEDS_CONTEXT;
  if (const Result result = forced("cuMemAlloc")) return result;
  const std::lock_guard lock(memory_mutex);
  if (current->used + bytes > memory_bytes) return cuda::kErrorOutOfMemory;
  void* data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (data == nullptr) return cuda::kErrorOutOfMemory;
  current->used += bytes;
  *pointer = reinterpret_cast<DevicePointer>(data);
  allocations[*pointer] = {bytes, current->ordinal};
  return cuda::kSuccess;
}
EXPORT cuMemFree_v2(DevicePointer pointer) {
  NEEDS_CONTEXT;
  const std::lock_guard lock(memory_mutex);
  const auto found = allocations.find(pointer);
  if (found == allocations.end() || found->second.device != current->ordinal) return cuda::kErrorInvalidValue;
  current->used -= found->second.bytes;
  std::free(at(pointer));
  allocations.erase(found);
  return cuda::kSuccess;
}
EXPORT cuMemGetInfo_v2(size_t* free, size_t* total) {
  NEEDS_CONTEXT;
  const std::lock_guard lock(memory_mutex);
  *free = memory_bytes - current->used;
  *total = memory_bytes;
  return cuda::kSuccess;
}
EXPORT cuMemHostAlloc(void** pointer, size_t bytes, unsigned /*flags*/) {
  NEEDS_CONTEXT;
  if (const Result result = forced("cuMemHostAlloc")) return result;
  *pointer = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  const std::lock_guard lock(memory_mutex);
  allocations[reinterpret_cast<DevicePointer>(*pointer)] = {bytes, -1};
  return cuda::kSuccess;
}
EXPORT cuMemFreeHost(void* pointer) {
  NEEDS_CONTEXT;
  const std::lock_guard lock(memory_mutex);
  if (allocations.erase(reinterpret_cast<DevicePointer>(pointer)) == 0) return cuda::kErrorInvalidValue;
  std::free(pointer);
  return cuda::kSuccess;
}
EXPORT cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned /*flags*/) {
  NEEDS_CONTEXT;
  const std::lock_guard lock(memory_mutex);
  allocations[reinterpret_cast<DevicePointer>(pointer)] = {bytes, -1};
  return cuda::kSuccess;
}
EXPORT cuMemHostUnregister(void* pointer) {
  NEEDS_CONTEXT;
  const std::lock_guard lock(memory_mutex);
  return allocations.erase(reinterpret_cast<DevicePointer>(pointer)) == 0 ? cuda::kErrorHostNotRegistered
                                                                          : cuda::kSuccess;
}
EXPORT cuPointerGetAttribute(void* data, int attribute, DevicePointer pointer) {
  const auto [begin, found] = allocation_of(pointer, 1);
  if (found.device == -2) return cuda::kErrorInvalidValue;
  if (attribute == cuda::kPointerMemoryType) {
    *static_cast<unsigned*>(data) = found.device < 0 ? cuda::kMemoryTypeHost : cuda::kMemoryTypeDevice;
  } else if (attribute == cuda::kPointerOrdinal) {
    *static_cast<int*>(data) = found.device;
  } else if (attribute == cuda::kPointerBegin) {
    *static_cast<DevicePointer*>(data) = begin;
  } else {
    *static_cast<size_t*>(data) = found.bytes;
  }
  return cuda::kSuccess;
}

// --- copies, fills ---------------------------------------------------------------------------------------------------

// CUDA copies ordinary memory when it comes to it: the driver has to wait.
static Result enqueue(StreamRef stream, bool valid, Task task) {
  if (current == nullptr) return 201;
  if (!valid) return cuda::kErrorInvalidValue;
  as_stream(stream).run(std::move(task));
  return cuda::kSuccess;
}

EXPORT cuMemcpyHtoDAsync_v2(DevicePointer dst, const void* src, size_t bytes, StreamRef stream) {
  if (const Result result = forced("cuMemcpyHtoDAsync")) return result;
  return enqueue(stream, on_device(dst, bytes), [=] { std::memcpy(at(dst), src, bytes); });
}
EXPORT cuMemcpyDtoHAsync_v2(void* dst, DevicePointer src, size_t bytes, StreamRef stream) {
  return enqueue(stream, on_device(src, bytes), [=] { std::memcpy(dst, at(src), bytes); });
}
EXPORT cuMemcpyDtoDAsync_v2(DevicePointer dst, DevicePointer src, size_t bytes, StreamRef stream) {
  const bool valid = on_device(src, bytes) && on_device(dst, bytes);
  return enqueue(stream, valid, [=] { std::memcpy(at(dst), at(src), bytes); });
}
EXPORT cuMemcpyPeerAsync(DevicePointer dst, cuda::Context dst_context, DevicePointer src, cuda::Context src_context,
                         size_t bytes, StreamRef stream) {
  const auto is_of = [&](DevicePointer pointer, cuda::Context context) {
    return allocation_of(pointer, bytes).second.device == reinterpret_cast<StubContext*>(context)->ordinal;
  };
  const bool valid = is_of(dst, dst_context) && is_of(src, src_context);
  return enqueue(stream, valid, [=] { std::memcpy(at(dst), at(src), bytes); });
}
EXPORT cuMemcpy2DAsync_v2(const cuda::Copy2D* copy, StreamRef stream) {
  const cuda::Copy2D plane = *copy;
  const bool from_host = plane.src_type == cuda::kMemoryTypeHost;
  const DevicePointer device = from_host ? plane.dst_device : plane.src_device;
  const size_t pitch = from_host ? plane.dst_pitch : plane.src_pitch;
  const bool valid = plane.width_bytes <= std::min(plane.src_pitch, plane.dst_pitch) &&
                     on_device(device, (plane.height - 1) * pitch + plane.width_bytes);
  return enqueue(stream, valid, [=] {
    const char* from = from_host ? static_cast<const char*>(plane.src_host) : at(plane.src_device);
    char* to = from_host ? at(plane.dst_device) : static_cast<char*>(plane.dst_host);
    for (size_t row = 0; row < plane.height; ++row) {
      std::memcpy(to + row * plane.dst_pitch, from + row * plane.src_pitch, plane.width_bytes);
    }
  });
}

template <typename Unit>
static Result fill(DevicePointer dst, Unit value, size_t count, StreamRef stream) {
  const bool valid = dst % sizeof(Unit) == 0 && on_device(dst, count * sizeof(Unit));
  return enqueue(stream, valid, [=] { std::fill_n(reinterpret_cast<Unit*>(dst), count, value); });
}
EXPORT cuMemsetD8Async(DevicePointer dst, unsigned char value, size_t count, StreamRef stream) {
  return fill(dst, value, count, stream);
}
EXPORT cuMemsetD16Async(DevicePointer dst, unsigned short value, size_t count, StreamRef stream) {
  return fill(dst, value, count, stream);
}
EXPORT cuMemsetD32Async(DevicePointer dst, unsigned value, size_t count, StreamRef stream) {
  return fill(dst, value, count, stream);
}

// --- streams, events -------------------------------------------------------------------------------------------------

EXPORT cuStreamCreateWithPriority(StreamRef* stream, unsigned /*flags*/, int /*priority*/) {
  NEEDS_CONTEXT;
  auto made = std::make_unique<StubStream>();
  const std::lock_guard lock(streams_mutex);
  all_streams.insert(made.get());
  *stream = reinterpret_cast<StreamRef>(made.release());
  return cuda::kSuccess;
}
EXPORT cuStreamDestroy_v2(StreamRef stream) {
  const std::unique_ptr<StubStream> owned(&as_stream(stream));
  const std::lock_guard lock(streams_mutex);
  all_streams.erase(owned.get());
  return cuda::kSuccess;
}
EXPORT cuStreamQuery(StreamRef stream) {
  NEEDS_CONTEXT;
  if (as_stream(stream).capture != nullptr) return cuda::kErrorCaptureFirst;
  return as_stream(stream).done() ? cuda::kSuccess : cuda::kErrorNotReady;
}
EXPORT cuStreamSynchronize(StreamRef stream) {
  NEEDS_CONTEXT;
  if (const Result result = forced("cuStreamSynchronize")) return result;
  if (as_stream(stream).capture != nullptr) return cuda::kErrorCaptureFirst;
  as_stream(stream).wait();
  return cuda::kSuccess;
}
EXPORT cuStreamAddCallback(StreamRef stream, cuda::StreamCallback callback, void* context, unsigned /*flags*/) {
  return enqueue(stream, true, [=] { callback(stream, cuda::kSuccess, context); });
}
EXPORT cuStreamWaitEvent(StreamRef stream, EventRef event, unsigned /*flags*/) {
  StubEvent& awaited = as_event(event);
  if (awaited.capture != nullptr) {
    as_stream(stream).capture = awaited.capture;
    return cuda::kSuccess;
  }
  if (awaited.moment == nullptr) return cuda::kSuccess;
  return enqueue(stream, true, [moment = awaited.moment] { moment->wait(); });
}
EXPORT cuEventCreate(EventRef* event, unsigned flags) {
  NEEDS_CONTEXT;
  *event = reinterpret_cast<EventRef>(new StubEvent{(flags & cuda::kEventDisableTiming) == 0, nullptr});
  return cuda::kSuccess;
}
EXPORT cuEventDestroy_v2(EventRef event) {
  delete &as_event(event);
  return cuda::kSuccess;
}
EXPORT cuEventRecord(EventRef event, StreamRef stream) {
  StubEvent& recorded = as_event(event);
  recorded.capture = as_stream(stream).capture;
  if (recorded.capture != nullptr) return cuda::kSuccess;
  recorded.moment = std::make_shared<Moment>();
  return enqueue(stream, true, [moment = recorded.moment] { moment->reach(); });
}
EXPORT cuEventQuery(EventRef event) {
  NEEDS_CONTEXT;
  const auto moment = as_event(event).moment;
  return moment == nullptr || moment->is_done() ? cuda::kSuccess : cuda::kErrorNotReady;
}
EXPORT cuEventSynchronize(EventRef event) {
  NEEDS_CONTEXT;
  if (const auto moment = as_event(event).moment) moment->wait();
  return cuda::kSuccess;
}
EXPORT cuEventElapsedTime(float* milliseconds, EventRef start, EventRef end) {
  const StubEvent &first = as_event(start), &last = as_event(end);
  if (!first.timed || !last.timed || first.moment == nullptr || last.moment == nullptr)
    return cuda::kErrorInvalidHandle;
  if (!first.moment->is_done() || !last.moment->is_done()) return cuda::kErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(last.moment->time - first.moment->time).count();
  return cuda::kSuccess;
}

// --- graphs ----------------------------------------------------------------------------------------------------------

EXPORT cuStreamIsCapturing(StreamRef stream, int* status) {
  *status = as_stream(stream).capture != nullptr ? 1 : cuda::kCaptureNone;
  return cuda::kSuccess;
}
EXPORT cuStreamBeginCapture_v2(StreamRef stream, int /*mode*/) {
  NEEDS_CONTEXT;
  as_stream(stream).capture = new StubGraph;
  return cuda::kSuccess;
}
EXPORT cuStreamEndCapture(StreamRef stream, cuda::GraphRef* graph) {
  StubGraph* captured = as_stream(stream).capture;
  *graph = reinterpret_cast<cuda::GraphRef>(captured);
  const std::lock_guard lock(streams_mutex);
  for (StubStream* each : all_streams) {
    if (each->capture == captured) each->capture = nullptr;
  }
  return cuda::kSuccess;
}
EXPORT cuGraphInstantiateWithFlags(cuda::GraphExecRef* exec, cuda::GraphRef graph, unsigned long long /*flags*/) {
  *exec = reinterpret_cast<cuda::GraphExecRef>(new StubGraph(*reinterpret_cast<StubGraph*>(graph)));
  return cuda::kSuccess;
}
EXPORT cuGraphLaunch(cuda::GraphExecRef exec, StreamRef stream) {
  NEEDS_CONTEXT;
  for (const Task& node : reinterpret_cast<StubGraph*>(exec)->nodes) as_stream(stream).run(node);
  return cuda::kSuccess;
}
EXPORT cuGraphDestroy(cuda::GraphRef graph) {
  delete reinterpret_cast<StubGraph*>(graph);
  return cuda::kSuccess;
}
EXPORT cuGraphExecDestroy(cuda::GraphExecRef exec) {
  delete reinterpret_cast<StubGraph*>(exec);
  return cuda::kSuccess;
}

// --- modules, launches -----------------------------------------------------------------------------------------------

EXPORT cuModuleLoadDataEx(cuda::ModuleRef* module, const void* image, unsigned /*num_options*/, int* /*options*/,
                          void** /*values*/) {
  NEEDS_CONTEXT;
  if (const Result result = forced("cuModuleLoadDataEx")) return result;
  const auto* begin = static_cast<const char*>(image);
  if (std::strncmp(begin,
                   "\x7f"
                   "ELF",
                   4) != 0)
    return cuda::kErrorInvalidImage;
  auto made = std::make_unique<StubModule>();
  made->image.assign(begin, elf_bytes(begin));
  if (is_elf(made->image, kX86)) {
    made->library = open_library(made->image);
    if (made->library == nullptr) return cuda::kErrorInvalidImage;
  } else if (!is_elf(made->image, kCuda)) {
    return cuda::kErrorNoBinary;
  }
  *module = reinterpret_cast<cuda::ModuleRef>(made.release());
  return cuda::kSuccess;
}
EXPORT cuModuleUnload(cuda::ModuleRef module) {
  const std::unique_ptr<StubModule> owned(reinterpret_cast<StubModule*>(module));
  if (owned->library != nullptr) ::dlclose(owned->library);
  return cuda::kSuccess;
}
EXPORT cuModuleGetFunction(cuda::FunctionRef* function, cuda::ModuleRef module, const char* name) {
  NEEDS_CONTEXT;
  auto& in = *reinterpret_cast<StubModule*>(module);
  std::unique_ptr<StubFunction>& found = in.functions[name];
  if (found == nullptr) {
    // In machine code for a GPU each function has a section of its name.
    const std::string section = std::string(".text.") + name + '\0';
    if (in.library == nullptr && in.image.find(section) == std::string::npos) return cuda::kErrorNotFound;
    auto made = std::make_unique<StubFunction>();
    if (in.library != nullptr && !made->find(in.library, name)) return cuda::kErrorNotFound;
    found = std::move(made);
  }
  *function = reinterpret_cast<cuda::FunctionRef>(found.get());
  return cuda::kSuccess;
}
EXPORT cuFuncSetAttribute(cuda::FunctionRef /*function*/, int /*attribute*/, int /*value*/) {
  return cuda::kSuccess;
}
EXPORT cuLaunchKernel(cuda::FunctionRef function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared_bytes, StreamRef stream, void** parameters,
                      void** /*extra*/) {
  if (const Result result = forced("cuLaunchKernel")) return result;
  const auto& launched = *reinterpret_cast<StubFunction*>(function);
  const LaunchShape shape{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
  const bool valid = uint64_t{block_x} * block_y * block_z <= 1024 && grid_y <= 65535 && grid_z <= 65535;
  return enqueue(stream, valid, launched.launch(shape, parameters));
}
