#include "runtime/host_driver.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

#include "runtime/status.h"

struct mydev_stream_s {
  int32_t device;
};

struct mydev_event_s {
  bool recorded = false;
  std::chrono::steady_clock::time_point time;
};

namespace mydev {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr int32_t kMaxHostDevices = 16;

struct Options {
  int32_t devices = 1;
  uint64_t memory = 0;  // 0: as much as the machine has
};

struct HostDevice {
  std::atomic<uint64_t> allocated{0};
};

struct HostDriver {
  Options options;
  uint64_t memory_limit = 0;
  std::array<HostDevice, kMaxHostDevices> devices;
};

HostDriver& driver() {
  static HostDriver& instance = *new HostDriver;
  return instance;
}

std::string& error_message() {
  thread_local std::string message;
  return message;
}

mydev_code fail(mydev_code code, std::string message) {
  error_message() = std::move(message);
  return code;
}

// Runs body, which may raise; nothing is thrown across the C boundary.
template <typename Body>
mydev_code guarded_call(Body body) noexcept {
  try {
    return body();
  } catch (const Error& error) {
    return fail(error.code(), error.what());
  } catch (const std::exception& error) {
    return fail(MYDEV_INTERNAL, error.what());
  }
}

uint64_t physical_memory() {
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

// --- options ---------------------------------------------------------------------------------------------------------

constexpr const char* kValidOptions = "devices=N, memory=SIZE (bytes, or with suffix K, M or G)";

uint64_t parse_number(std::string_view option, std::string_view text, const char* wanted) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  MYDEV_CHECK(error == std::errc() && end == text.data() + text.size(), MYDEV_INVALID_ARGUMENT, "option '", option,
              "': '", text, "' is not ", wanted);
  return value;
}

uint64_t parse_size(std::string_view option, std::string_view text) {
  constexpr const char* kWanted = "a size in bytes, or with suffix K, M or G, such as 512M";
  int shift = 0;
  if (!text.empty()) {
    switch (text.back()) {
      case 'K':
        shift = 10;
        break;
      case 'M':
        shift = 20;
        break;
      case 'G':
        shift = 30;
        break;
      default:
        break;
    }
  }
  const uint64_t value = parse_number(option, text.substr(0, text.size() - (shift != 0 ? 1 : 0)), kWanted);
  MYDEV_CHECK(value > 0 && value <= (UINT64_MAX >> shift), MYDEV_INVALID_ARGUMENT, "option '", option, "': '", text,
              "' is not ", kWanted);
  return value << shift;
}

Options parse_options(std::string_view text) {
  Options options;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view option = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    const size_t equals = option.find('=');
    const std::string_view name = option.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? std::string_view() : option.substr(equals + 1);
    if (name == "devices") {
      const uint64_t devices = parse_number(option, value, "a number of devices");
      MYDEV_CHECK(devices <= kMaxHostDevices, MYDEV_INVALID_ARGUMENT, "option '", option, "': from 0 to ",
                  kMaxHostDevices, " devices are supported");
      options.devices = static_cast<int32_t>(devices);
    } else if (name == "memory") {
      options.memory = parse_size(option, value);
    } else {
      raise(MYDEV_INVALID_ARGUMENT,
            "unknown option '" + std::string(option) + "' of the host driver; valid ones: " + kValidOptions);
    }
  }
  return options;
}

mydev_code initialize(const char* options, const mydev_host_services* /*host*/) {
  return guarded_call([&] {
    HostDriver& self = driver();
    self.options = parse_options(options);
    self.memory_limit = self.options.memory != 0 ? self.options.memory : physical_memory();
    return MYDEV_OK;
  });
}

const char* last_error() {
  return error_message().c_str();
}

// --- devices ---------------------------------------------------------------------------------------------------------

mydev_code device_count(int32_t* out_count) {
  *out_count = driver().options.devices;
  return MYDEV_OK;
}

mydev_code device_properties(int32_t device, mydev_device_properties* out) {
  std::snprintf(out->name, sizeof(out->name), "host");
  out->total_memory = driver().memory_limit;
  out->alignment = 64;
  out->capabilities = MYDEV_CAPABILITY_HOST_ACCESSIBLE | MYDEV_CAPABILITY_PEER;
  out->major = 1;
  out->minor = 0;
  out->multi_processor_count = static_cast<int32_t>(std::thread::hardware_concurrency());
  out->stream_priority_low = 0;
  out->stream_priority_high = -1;
  return MYDEV_OK;
}

// --- memory ----------------------------------------------------------------------------------------------------------

mydev_code memory_alloc(int32_t device, uint64_t bytes, void** out_data) {
  HostDriver& self = driver();
  std::atomic<uint64_t>& allocated = self.devices[static_cast<size_t>(device)].allocated;
  uint64_t before = allocated.load(std::memory_order_relaxed);
  do {
    if (bytes > self.memory_limit - before) {
      return fail(MYDEV_RESOURCE_EXHAUSTED, "out of memory: " + std::to_string(bytes) + " bytes asked for, " +
                                                std::to_string(self.memory_limit - before) + " of " +
                                                std::to_string(self.memory_limit) + " free");
    }
  } while (!allocated.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  void* data = nullptr;
  if (::posix_memalign(&data, bytes >= kHugePage ? kHugePage : 64, bytes) != 0) {
    allocated.fetch_sub(bytes, std::memory_order_relaxed);
    return fail(MYDEV_RESOURCE_EXHAUSTED, "out of memory: the machine refuses " + std::to_string(bytes) + " bytes");
  }
  if (bytes >= kHugePage) {
    ::madvise(data, bytes, MADV_HUGEPAGE);
  }
  *out_data = data;
  return MYDEV_OK;
}

mydev_code memory_free(int32_t device, void* data, uint64_t bytes) {
  std::free(data);
  driver().devices[static_cast<size_t>(device)].allocated.fetch_sub(bytes, std::memory_order_relaxed);
  return MYDEV_OK;
}

mydev_code memory_info(int32_t device, uint64_t* out_free, uint64_t* out_total) {
  HostDriver& self = driver();
  *out_total = self.memory_limit;
  *out_free = self.memory_limit - self.devices[static_cast<size_t>(device)].allocated.load(std::memory_order_relaxed);
  return MYDEV_OK;
}

mydev_code host_alloc(uint64_t bytes, void** out_data) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  if (::posix_memalign(out_data, page, bytes) != 0) {
    return fail(MYDEV_RESOURCE_EXHAUSTED, "out of host memory: " + std::to_string(bytes) + " bytes asked for");
  }
  return MYDEV_OK;
}

mydev_code host_free(void* data, uint64_t /*bytes*/) {
  std::free(data);
  return MYDEV_OK;
}

// --- copies ----------------------------------------------------------------------------------------------------------

mydev_code copy(mydev_stream /*stream*/, void* dst, const void* src, uint64_t bytes, mydev_copy_kind /*kind*/) {
  std::memcpy(dst, src, bytes);
  return MYDEV_OK;
}

mydev_code copy_peer(mydev_stream /*stream*/, void* dst, int32_t /*dst_device*/, const void* src,
                     int32_t /*src_device*/, uint64_t bytes) {
  std::memcpy(dst, src, bytes);
  return MYDEV_OK;
}

mydev_code fill(mydev_stream /*stream*/, void* dst, uint64_t bytes, const void* pattern, uint32_t pattern_bytes) {
  if (pattern_bytes == 1) {
    std::memset(dst, *static_cast<const unsigned char*>(pattern), bytes);
    return MYDEV_OK;
  }
  for (uint64_t done = 0; done < bytes; done += pattern_bytes) {
    std::memcpy(static_cast<char*>(dst) + done, pattern, pattern_bytes);
  }
  return MYDEV_OK;
}

// --- streams and events ----------------------------------------------------------------------------------------------

mydev_code stream_create(int32_t device, int32_t /*priority*/, mydev_stream* out_stream) {
  *out_stream = new mydev_stream_s{device};
  return MYDEV_OK;
}

mydev_code stream_destroy(mydev_stream stream) {
  delete stream;
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
  *out_event = new mydev_event_s;
  return MYDEV_OK;
}

mydev_code event_destroy(mydev_event event) {
  delete event;
  return MYDEV_OK;
}

mydev_code event_record(mydev_event event, mydev_stream /*stream*/) {
  event->recorded = true;
  event->time = std::chrono::steady_clock::now();
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
  if (!start->recorded || !end->recorded) {
    return fail(MYDEV_FAILED_PRECONDITION, "an event of the pair was never recorded");
  }
  *out_milliseconds = std::chrono::duration<double, std::milli>(end->time - start->time).count();
  return MYDEV_OK;
}

// --- work ------------------------------------------------------------------------------------------------------------

mydev_code launch(mydev_stream /*stream*/, const mydev_kernel* kernel, mydev_frame* frame) {
  return kernel->entry(frame);
}

constexpr mydev_driver_api kApi = {
    .struct_size = sizeof(mydev_driver_api),
    .version_major = MYDEV_DRIVER_VERSION_MAJOR,
    .version_minor = MYDEV_DRIVER_VERSION_MINOR,
    .name = "host",
    .version = "1",
    .initialize = initialize,
    .finalize = nullptr,
    .last_error = last_error,
    .device_count = device_count,
    .device_properties = device_properties,
    .device_synchronize = nullptr,
    .memory_alloc = memory_alloc,
    .memory_free = memory_free,
    .memory_info = memory_info,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .host_access_begin = nullptr,
    .host_access_end = nullptr,
    .copy = copy,
    .copy_peer = copy_peer,
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
    .find_kernel = nullptr,
};

}  // namespace

const mydev_driver_api* host_driver_query(uint32_t version_major, uint32_t /*version_minor*/) noexcept {
  return version_major == MYDEV_DRIVER_VERSION_MAJOR ? &kApi : nullptr;
}

}  // namespace mydev
