// A driver that fails on request: the host driver with each entry behind a switch.
//
// Options: fail=ENTRY (that entry fails), decline=1 (with UNIMPLEMENTED), times=N (at most N times), alignment=BYTES
// (of its memory, more than the host driver's); any other option is the host driver's. Later, broken_driver_fail(entry,
// times) does the same, and after broken_driver_fail_at_random(seed, percent) each call fails with that chance. A
// defect of the table itself must be known before there are options, so it comes from the environment:
// BROKEN_DRIVER_DEFECT=version, null, small, the names of entries to leave out ("copy_peer+memory_info"), or a row of
// kExtensionDefects or kPropertyDefects.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <string_view>

#include "mydev/driver_extensions.h"

namespace {

const mydev_driver_api* host_driver = nullptr;
std::string failing_entry;
std::atomic<long> failures_left{0};
mydev_code code_of_failure = MYDEV_INTERNAL;
std::atomic<unsigned> chance_percent{0};
thread_local std::array<char, 64> error_message;  // "" if the host driver failed, not this one

struct Chances {
  std::mutex mutex;
  std::mt19937 random;
} chances;

bool fails_by_chance() {
  if (chance_percent == 0) return false;
  const std::lock_guard lock(chances.mutex);
  return chances.random() % 100 < chance_percent;
}

bool must_fail(const char* entry) {
  if (!fails_by_chance() && (failing_entry != entry || failures_left.fetch_sub(1) <= 0)) {
    return false;
  }
  std::snprintf(error_message.data(), error_message.size(), "%s fails on request", entry);
  return true;
}

#define BROKEN_CODE_ENTRIES(ENTRY) \
  ENTRY(device_count)              \
  ENTRY(device_properties)         \
  ENTRY(memory_alloc)              \
  ENTRY(memory_free)               \
  ENTRY(memory_info)               \
  ENTRY(host_alloc)                \
  ENTRY(host_free)                 \
  ENTRY(host_access_begin)         \
  ENTRY(host_access_end)           \
  ENTRY(copy)                      \
  ENTRY(copy_peer)                 \
  ENTRY(fill)                      \
  ENTRY(stream_create)             \
  ENTRY(stream_destroy)            \
  ENTRY(stream_query)              \
  ENTRY(stream_synchronize)        \
  ENTRY(stream_wait_event)         \
  ENTRY(event_create)              \
  ENTRY(event_destroy)             \
  ENTRY(event_record)              \
  ENTRY(event_query)               \
  ENTRY(event_synchronize)         \
  ENTRY(event_elapsed)             \
  ENTRY(launch)                    \
  ENTRY(stream_status)             \
  ENTRY(stream_host_call)          \
  ENTRY(event_on_done)             \
  ENTRY(copy_strided)              \
  ENTRY(peer_access)               \
  ENTRY(host_register)             \
  ENTRY(host_unregister)           \
  ENTRY(pointer_info)              \
  ENTRY(list_kernels)              \
  ENTRY(host_access_begin_range)   \
  ENTRY(host_access_end_range)

// Breakable<Entry>::call<&name> has the entry's own type and asks must_fail first.
template <typename Entry>
struct Breakable;
template <typename... Args>
struct Breakable<mydev_code (*)(Args...)> {
  template <mydev_code (*mydev_driver_api::*kEntry)(Args...), const char* kName>
  static mydev_code call(Args... args) {
    error_message[0] = '\0';
    if (!must_fail(kName)) {
      return (host_driver->*kEntry)(args...);
    }
    if (std::string_view(kName).ends_with("_destroy")) {
      (host_driver->*kEntry)(args...);  // fails, but does not leak on top
    }
    return code_of_failure;
  }
};

#define BROKEN_NAME(entry) constexpr char kName_##entry[] = #entry;
BROKEN_CODE_ENTRIES(BROKEN_NAME)
#undef BROKEN_NAME

// --- memory of a larger alignment ------------------------------------------------------------------------------------

uint64_t alignment = 0;  // 0: the host driver's
struct Allocations {
  std::mutex mutex;
  std::map<void*, void*> of_host_driver;
} allocations;
decltype(mydev_driver_api::memory_alloc) allocate = nullptr;  // these may fail
decltype(mydev_driver_api::memory_free) release = nullptr;

mydev_code allocate_aligned(int32_t device, uint64_t bytes, void** out_data) {
  if (alignment == 0) return allocate(device, bytes, out_data);
  void* data = nullptr;
  const mydev_code code = allocate(device, bytes + alignment, &data);
  if (code != MYDEV_OK) return code;
  const auto address = reinterpret_cast<uintptr_t>(data);
  *out_data = static_cast<char*>(data) + ((alignment - address % alignment) % alignment);
  const std::lock_guard lock(allocations.mutex);
  allocations.of_host_driver[*out_data] = data;
  return MYDEV_OK;
}

mydev_code release_aligned(int32_t device, void* data, uint64_t bytes) {
  if (alignment == 0) return release(device, data, bytes);
  const std::lock_guard lock(allocations.mutex);
  const mydev_code code = release(device, allocations.of_host_driver.at(data), bytes + alignment);
  if (code == MYDEV_OK) allocations.of_host_driver.erase(data);
  return code;
}

mydev_code properties_with_alignment(int32_t device, mydev_device_properties* out) {
  const mydev_code code =
      Breakable<decltype(mydev_driver_api::device_properties)>::call<&mydev_driver_api::device_properties,
                                                                     kName_device_properties>(device, out);
  if (code == MYDEV_OK && alignment != 0) out->alignment = static_cast<uint32_t>(alignment);
  return code;
}

mydev_code initialize(const char* options, const mydev_host_services* host) {
  std::string rest;
  std::string text = options;
  error_message[0] = '\0';
  failing_entry.clear();
  failures_left = 1L << 30;
  while (!text.empty()) {
    const std::string option = text.substr(0, text.find(','));
    text.erase(0, option.size() + 1);
    if (option.starts_with("fail=")) {
      failing_entry = option.substr(5);
    } else if (option == "decline=1") {
      code_of_failure = MYDEV_UNIMPLEMENTED;
    } else if (option.starts_with("alignment=")) {
      alignment = std::strtoul(option.c_str() + 10, nullptr, 10);
    } else if (option.starts_with("times=")) {
      failures_left = std::atol(option.c_str() + 6);
    } else {
      rest += (rest.empty() ? "" : ",") + option;
    }
  }
  return must_fail("initialize") ? MYDEV_INTERNAL : host_driver->initialize(rest.c_str(), host);
}

const char* last_error() {
  return error_message[0] == '\0' ? host_driver->last_error() : error_message.data();
}

// --- extensions: a profiler that is whole, and what can be wrong with one --------------------------------------------

template <typename... Args>
mydev_code do_nothing(Args... /*args*/) {
  return MYDEV_OK;
}

constexpr mydev_profiler_extension kProfiler = {{sizeof(mydev_profiler_extension), MYDEV_PROFILER_VERSION, 0},
                                                do_nothing,
                                                do_nothing,
                                                [](uint64_t) {},
                                                do_nothing,
                                                do_nothing};
constexpr std::array kListed = {mydev_extension{MYDEV_PROFILER_EXTENSION, MYDEV_PROFILER_VERSION},
                                mydev_extension{MYDEV_PROFILER_EXTENSION, MYDEV_PROFILER_VERSION}};

struct ExtensionDefect {
  std::string_view name;
  void (*apply)(mydev_driver_api& api, mydev_extension& listed, mydev_profiler_extension& profiler);
};
constexpr std::array kExtensionDefects = {
    ExtensionDefect{"extension_whole", [](auto&, auto&, auto&) {}},
    ExtensionDefect{
        "extension_without_table",
        [](auto& api, auto&, auto&) { api.extension = [](const char*, uint32_t) -> const void* { return nullptr; }; }},
    ExtensionDefect{"extension_without_entry", [](auto& api, auto&, auto&) { api.extension = nullptr; }},
    ExtensionDefect{"extension_without_list", [](auto& api, auto&, auto&) { api.extensions = nullptr; }},
    ExtensionDefect{"extension_without_name", [](auto&, auto& listed, auto&) { listed.name = nullptr; }},
    ExtensionDefect{"extension_of_version_0", [](auto&, auto& listed, auto&) { listed.version = 0; }},
    ExtensionDefect{"extension_twice",
                    [](auto& api, auto&, auto&) { api.extensions = kListed.data(), api.num_extensions = 2; }},
    ExtensionDefect{"extension_too_small", [](auto&, auto&, auto& profiler) { profiler.head.struct_size = 24; }},
    ExtensionDefect{"extension_too_new", [](auto&, auto&, auto& profiler) { profiler.head.version = 9; }},
    ExtensionDefect{"extension_incomplete", [](auto&, auto&, auto& profiler) { profiler.flush = nullptr; }},
    ExtensionDefect{"extensions_absurd", [](auto& api, auto&, auto&) { api.num_extensions = uint64_t{1} << 40; }},
};

void break_extension(mydev_driver_api& api, std::string_view defect) {
  static mydev_extension listed;
  static mydev_profiler_extension profiler;
  for (const ExtensionDefect& row : kExtensionDefects) {
    if (row.name != defect) continue;
    listed = kListed[0];
    profiler = kProfiler;
    api.extensions = &listed;
    api.num_extensions = 1;
    api.extension = [](const char*, uint32_t) -> const void* { return &profiler; };
    row.apply(api, listed, profiler);
  }
}

// --- properties that contradict themselves ---------------------------------------------------------------------------

struct PropertyDefect {
  std::string_view name;
  void (*apply)(mydev_device_properties& properties);
};
constexpr std::array kPropertyDefects = {
    PropertyDefect{"alignment", [](auto& properties) { properties.alignment = 96; }},
    PropertyDefect{"small_alignment", [](auto& properties) { properties.alignment = 32; }},
    PropertyDefect{"priorities", [](auto& properties) { properties.stream_priority_high = 5; }},
    PropertyDefect{"max_allocation", [](auto& properties) { properties.max_allocation = properties.total_memory + 1; }},
    PropertyDefect{"launch_copies",
                   [](auto& properties) { properties.capabilities |= MYDEV_CAPABILITY_LAUNCH_COPIES; }},
    // No defect: memory that the host reaches slowly.
    PropertyDefect{"slow_access",
                   [](auto& properties) { properties.capabilities |= MYDEV_CAPABILITY_HOST_ACCESS_SLOW; }},
};
const PropertyDefect* property_defect = nullptr;
decltype(mydev_driver_api::device_properties) whole_properties = nullptr;

mydev_code broken_properties(int32_t device, mydev_device_properties* out) {
  const mydev_code code = whole_properties(device, out);
  if (code == MYDEV_OK) property_defect->apply(*out);
  return code;
}

void break_properties(mydev_driver_api& api, std::string_view defect) {
  for (const PropertyDefect& row : kPropertyDefects) {
    if (row.name != defect) continue;
    property_defect = &row;
    whole_properties = api.device_properties;
    api.device_properties = broken_properties;
  }
}

bool is_left_out(std::string_view defects, std::string_view entry) {
  for (size_t begin = 0; begin <= defects.size();) {
    const size_t end = std::min(defects.find('+', begin), defects.size());
    if (defects.substr(begin, end - begin) == entry) return true;
    begin = end + 1;
  }
  return false;
}

mydev_driver_api make_table(const char* defect) {
  mydev_driver_api api = *host_driver;
  api.name = "broken";
  api.initialize = initialize;
  api.last_error = last_error;
#define BROKEN_ENTRY(entry) api.entry = Breakable<decltype(api.entry)>::call<&mydev_driver_api::entry, kName_##entry>;
  BROKEN_CODE_ENTRIES(BROKEN_ENTRY)
#undef BROKEN_ENTRY
  allocate = api.memory_alloc;
  release = api.memory_free;
  api.memory_alloc = allocate_aligned;
  api.memory_free = release_aligned;
  api.device_properties = properties_with_alignment;
  if (std::strcmp(defect, "version") == 0) {
    api.version_major = MYDEV_DRIVER_VERSION_MAJOR + 1;
  } else if (std::strcmp(defect, "small") == 0) {
    api.struct_size = sizeof(size_t);
  }
#define BROKEN_OMIT(entry) \
  if (is_left_out(defect, #entry)) api.entry = nullptr;
  BROKEN_CODE_ENTRIES(BROKEN_OMIT)
  BROKEN_OMIT(initialize)
  BROKEN_OMIT(last_error)
  BROKEN_OMIT(finalize)
  BROKEN_OMIT(device_synchronize)
  BROKEN_OMIT(find_kernel)
#undef BROKEN_OMIT
  break_extension(api, defect);
  break_properties(api, defect);
  return api;
}

const mydev_driver_api* query_host_driver(uint32_t version_major, uint32_t version_minor) {
  void* library = ::dlopen(MYDEV_HOST_DRIVER, RTLD_NOW | RTLD_LOCAL);
  void* query = library == nullptr ? nullptr : ::dlsym(library, MYDEV_DRIVER_QUERY_SYMBOL);
  if (query == nullptr) {
    std::fprintf(stderr, "broken_driver: %s\n", ::dlerror());  // NOLINT(concurrency-mt-unsafe)
    std::abort();
  }
  return reinterpret_cast<mydev_driver_query_fn>(query)(version_major, version_minor);
}

}  // namespace

// While no work is pending. Returns how many of the failures asked for before did not happen.
extern "C" MYDEV_EXPORT long broken_driver_fail(const char* entry, long times) {
  failing_entry = entry;
  const long left = failures_left.exchange(times);
  return left > 0 ? left : 0;
}

// Until it is called with 0 percent.
extern "C" MYDEV_EXPORT void broken_driver_fail_at_random(unsigned seed, unsigned percent) {
  const std::lock_guard lock(chances.mutex);
  chances.random.seed(seed);
  chance_percent = percent;
}

extern "C" MYDEV_EXPORT const mydev_driver_api* mydev_driver_query(uint32_t version_major, uint32_t version_minor) {
  const char* variable = std::getenv("BROKEN_DRIVER_DEFECT");
  const char* defect = variable != nullptr ? variable : "";
  host_driver = query_host_driver(version_major, version_minor);
  if (std::strcmp(defect, "null") == 0) {
    return nullptr;
  }
  static mydev_driver_api api;
  api = make_table(defect);
  return &api;
}
