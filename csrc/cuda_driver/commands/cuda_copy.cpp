#include "cuda_driver/commands/cuda_copy.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "cuda_driver/commands/rows.h"
#include "cuda_driver/device/cuda_device.h"
#include "cuda_driver/memory/cuda_memory.h"
#include "cuda_driver/observe/profiler.h"
#include "cuda_driver/stream/cuda_stream.h"

namespace mydev::cuda_driver {

namespace {

// Whether the call must wait for the copy: CUDA may still use ordinary memory of the host when its own call returns.
bool must_wait(const CudaStream& stream, const void* dst, const void* src, mydev_copy_kind kind) {
  if (kind == MYDEV_COPY_DEVICE_TO_DEVICE) return false;
  if (is_pinned(kind == MYDEV_COPY_HOST_TO_DEVICE ? src : dst)) return false;
  stream.refuse_capture("a copy with ordinary host memory");
  return true;
}

const char* name_of(mydev_copy_kind kind) {
  constexpr const char* kNames[] = {"cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync"};
  return kNames[kind];
}

void enqueue_copy(CudaStream& stream, void* dst, const void* src, uint64_t bytes, mydev_copy_kind kind) {
  const CudaApi& api = cuda();
  auto* const ref = stream.ref();
  const Result result = kind == MYDEV_COPY_HOST_TO_DEVICE ? api.cuMemcpyHtoDAsync(as_device(dst), src, bytes, ref)
                        : kind == MYDEV_COPY_DEVICE_TO_HOST
                            ? api.cuMemcpyDtoHAsync(dst, as_device(src), bytes, ref)
                            : api.cuMemcpyDtoDAsync(as_device(dst), as_device(src), bytes, ref);
  check(result, name_of(kind), " of ", bytes, " bytes from ", src, " to ", dst);
}

// Lets each device reach the other's memory, where the hardware can: copies are then made without the host.
void connect(CudaDevice& device, CudaDevice& peer) {
  static std::mutex& mutex = *new std::mutex;
  static auto& asked = *new std::set<std::pair<int32_t, int32_t>>;
  const std::lock_guard lock(mutex);
  if (!asked.emplace(device.index(), peer.index()).second) return;
  int can = 0;
  check(cuda().cuDeviceCanAccessPeer(&can, device.ordinal(), peer.ordinal()), "cuDeviceCanAccessPeer");
  if (can == 0) return;
  const CurrentContext context(device);
  const Result result = cuda().cuCtxEnablePeerAccess(peer.context(), 0);
  if (result != kErrorPeerAlreadyEnabled) check(result, "cuCtxEnablePeerAccess of device ", peer.ordinal());
}

void fill_units(StreamRef stream, DevicePointer dst, const unsigned char* pattern, uint32_t unit, uint64_t count) {
  const CudaApi& api = cuda();
  uint16_t two = 0;
  uint32_t four = 0;
  std::memcpy(&two, pattern, std::min<size_t>(unit, sizeof(two)));
  std::memcpy(&four, pattern, unit);
  const Result result = unit == 1   ? api.cuMemsetD8Async(dst, *pattern, count, stream)
                        : unit == 2 ? api.cuMemsetD16Async(dst, two, count, stream)
                                    : api.cuMemsetD32Async(dst, four, count, stream);
  check(result, "cuMemsetD", 8 * unit, "Async of ", count, " at ", reinterpret_cast<void*>(dst));
}

// The largest unit of CUDA's fills that divides the pattern and the address.
uint32_t unit_of(const void* dst, uint32_t pattern_bytes) {
  uint32_t unit = std::min<uint32_t>(pattern_bytes, 4);
  while (reinterpret_cast<uintptr_t>(dst) % unit != 0) unit /= 2;
  return unit;
}

}  // namespace

mydev_code copy(mydev_stream stream, void* dst, const void* src, uint64_t bytes, mydev_copy_kind kind) {
  return run_checked([&] {
    CudaStream& on = as_stream(stream);
    const CurrentContext context(on.device());
    const bool waits = must_wait(on, dst, src, kind);
    {
      const RecordedActivity activity(on, {MYDEV_ACTIVITY_COPY, nullptr, bytes});
      enqueue_copy(on, dst, src, bytes, kind);
    }
    if (waits) on.synchronize();
  });
}

mydev_code copy_peer(mydev_stream stream, void* dst, int32_t dst_device, const void* src, int32_t src_device,
                     uint64_t bytes) {
  return run_checked([&] {
    CudaStream& on = as_stream(stream);
    CudaDevice& from = device_at(src_device);
    CudaDevice& to = device_at(dst_device);
    connect(from, to);
    connect(to, from);
    const CurrentContext context(on.device());
    const RecordedActivity activity(on, {MYDEV_ACTIVITY_COPY, nullptr, bytes});
    check(cuda().cuMemcpyPeerAsync(as_device(dst), to.context(), as_device(src), from.context(), bytes, on.ref()),
          "cuMemcpyPeerAsync of ", bytes, " bytes from device ", from.ordinal(), " to device ", to.ordinal());
  });
}

mydev_code peer_access(int32_t device, int32_t peer, int32_t* out_can) {
  return run_checked([&] {
    device_at(device);
    device_at(peer);
    *out_can = 1;  // CUDA goes through host memory itself, where it must
  });
}

mydev_code copy_strided(mydev_stream stream, const mydev_buffer* dst, const mydev_buffer* src, mydev_copy_kind kind) {
  return run_checked([&] {
    CudaStream& on = as_stream(stream);
    // On the device a kernel is faster than these copies, which moreover may refuse its pitches.
    require(kind != MYDEV_COPY_DEVICE_TO_DEVICE, MYDEV_UNIMPLEMENTED, "a strided copy on the device is a kernel's");
    const Rows rows(*dst, *src);
    const CurrentContext context(on.device());
    const bool waits = must_wait(on, dst->data, src->data, kind);
    const bool from_host = kind == MYDEV_COPY_HOST_TO_DEVICE;
    {
      const RecordedActivity activity(on, {MYDEV_ACTIVITY_COPY, nullptr, rows.bytes()});
      rows.for_each_plane([&](uint64_t dst_offset, uint64_t src_offset) {
        auto* const to = static_cast<char*>(dst->data) + dst_offset;
        const auto* const from = static_cast<const char*>(src->data) + src_offset;
        Copy2D plane{.src_type = from_host ? kMemoryTypeHost : kMemoryTypeDevice,
                     .src_host = from_host ? from : nullptr,
                     .src_device = from_host ? 0 : as_device(from),
                     .src_pitch = rows.src_pitch(),
                     .dst_type = from_host ? kMemoryTypeDevice : kMemoryTypeHost,
                     .dst_host = from_host ? nullptr : to,
                     .dst_device = from_host ? as_device(to) : 0,
                     .dst_pitch = rows.dst_pitch(),
                     .width_bytes = rows.width(),
                     .height = rows.height()};
        check(cuda().cuMemcpy2DAsync(&plane, on.ref()), "cuMemcpy2DAsync of ", rows.height(), " rows of ", rows.width(),
              " bytes");
      });
    }
    if (waits) on.synchronize();
  });
}

mydev_code fill(mydev_stream stream, void* dst, uint64_t bytes, const void* pattern, uint32_t pattern_bytes) {
  return run_checked([&] {
    const bool known =
        pattern_bytes == 1 || pattern_bytes == 2 || pattern_bytes == 4 || pattern_bytes == 8 || pattern_bytes == 16;
    require(known, MYDEV_INVALID_ARGUMENT, "a fill pattern has 1, 2, 4, 8 or 16 bytes; this one has ", pattern_bytes);
    CudaStream& on = as_stream(stream);
    const CurrentContext context(on.device());
    const RecordedActivity activity(on, {MYDEV_ACTIVITY_FILL, nullptr, bytes});
    const auto* const units = static_cast<const unsigned char*>(pattern);
    const bool uniform = std::all_of(units, units + pattern_bytes, [&](unsigned char byte) { return byte == *units; });
    const uint32_t size = uniform ? 1 : pattern_bytes;
    const uint32_t unit = unit_of(dst, size);
    const DevicePointer begin = as_device(dst);
    if (unit == size) return fill_units(on.ref(), begin, units, unit, bytes / unit);
    // The pattern once, then twice as much with each copy.
    for (uint32_t at = 0; at < size; at += unit) fill_units(on.ref(), begin + at, units + at, unit, 1);
    for (uint64_t done = size; done < bytes; done *= 2) {
      const uint64_t more = std::min(done, bytes - done);
      check(cuda().cuMemcpyDtoDAsync(begin + done, begin, more, on.ref()), "cuMemcpyDtoDAsync of ", more,
            " bytes, for a fill at ", dst);
    }
  });
}

}  // namespace mydev::cuda_driver
