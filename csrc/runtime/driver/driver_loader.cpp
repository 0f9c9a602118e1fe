#include "runtime/driver/driver_loader.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/installed_library.h"
#include "runtime/base/status.h"
#include "runtime/driver/host_services.h"

namespace mydev {

namespace {

struct DriverSpec {
  std::string name;
  std::string options;
};

DriverSpec parse_spec(const std::string& spec) {
  const size_t colon = spec.find(':');
  if (colon == std::string::npos) {
    return {spec, ""};
  }
  return {spec.substr(0, colon), spec.substr(colon + 1)};
}

struct Entry {
  const char* name;
  size_t offset;
};
#define MYDEV_ENTRY(name)                   \
  Entry {                                   \
    #name, offsetof(mydev_driver_api, name) \
  }
constexpr std::array kRequiredEntries = {
    MYDEV_ENTRY(initialize),
    MYDEV_ENTRY(last_error),
    MYDEV_ENTRY(device_count),
    MYDEV_ENTRY(device_properties),
    MYDEV_ENTRY(memory_alloc),
    MYDEV_ENTRY(memory_free),
    MYDEV_ENTRY(copy),
    MYDEV_ENTRY(fill),
    MYDEV_ENTRY(stream_create),
    MYDEV_ENTRY(stream_destroy),
    MYDEV_ENTRY(stream_query),
    MYDEV_ENTRY(stream_synchronize),
    MYDEV_ENTRY(stream_wait_event),
    MYDEV_ENTRY(event_create),
    MYDEV_ENTRY(event_destroy),
    MYDEV_ENTRY(event_record),
    MYDEV_ENTRY(event_query),
    MYDEV_ENTRY(event_synchronize),
    MYDEV_ENTRY(event_elapsed),
    MYDEV_ENTRY(launch),
};
#undef MYDEV_ENTRY

// Entries of which a driver gives both or neither.
struct EntryPair {
  const char* names;
  size_t first, second;
};
constexpr std::array kPairs = {
    EntryPair{"host_alloc and host_free", offsetof(mydev_driver_api, host_alloc),
              offsetof(mydev_driver_api, host_free)},
    EntryPair{"host_access_begin and host_access_end", offsetof(mydev_driver_api, host_access_begin),
              offsetof(mydev_driver_api, host_access_end)},
};

bool has_entry(const mydev_driver_api& api, size_t offset) {
  void* entry = nullptr;
  std::memcpy(static_cast<void*>(&entry), reinterpret_cast<const char*>(&api) + offset, sizeof(entry));
  return entry != nullptr;
}

bool file_exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// The host driver lies beside the library that this file is part of.
std::string host_driver_path() {
  std::string path = installed_library("libmydev_host_driver.so");
  MYDEV_CHECK(file_exists(path), MYDEV_NOT_FOUND, "driver 'host': there is no ", path,
              ", which is installed beside libmydev_runtime.so; install the package again");
  return path;
}

// The path of the shared object that MYDEV_DRIVER names.
std::string driver_path(const std::string& name) {
  if (name == "host") {
    return host_driver_path();
  }
  MYDEV_CHECK(name.find('/') == std::string::npos || file_exists(name), MYDEV_NOT_FOUND, "driver '", name,
              "': no such file; MYDEV_DRIVER takes 'host' or the path of a driver's shared object");
  return name;
}

// Returns the query function of the shared object at `path`.
mydev_driver_query_fn open_driver(const std::string& path) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();  // NOLINT(concurrency-mt-unsafe): glibc keeps it per thread
    raise(MYDEV_FAILED_PRECONDITION, "driver '" + path + "' cannot be loaded: " + (reason != nullptr ? reason : ""));
  }
  void* symbol = ::dlsym(library, MYDEV_DRIVER_QUERY_SYMBOL);
  if (symbol == nullptr) {
    ::dlclose(library);
    raise(MYDEV_FAILED_PRECONDITION,
          "'" + path + "' is not a driver: it does not export " MYDEV_DRIVER_QUERY_SYMBOL " (see mydev/driver.h)");
  }
  return reinterpret_cast<mydev_driver_query_fn>(symbol);
}

std::string version_text(uint32_t major, uint32_t minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

void check_table(const std::string& name, const mydev_driver_api* table) {
  const std::string ours = version_text(MYDEV_DRIVER_VERSION_MAJOR, MYDEV_DRIVER_VERSION_MINOR);
  MYDEV_CHECK(table != nullptr, MYDEV_FAILED_PRECONDITION, "driver '", name, "' refuses version ", ours,
              " of mydev/driver.h (" MYDEV_DRIVER_QUERY_SYMBOL " returned NULL); rebuild it against this version");
  MYDEV_CHECK(table->struct_size >= offsetof(mydev_driver_api, initialize), MYDEV_FAILED_PRECONDITION, "driver '", name,
              "' gives a table of ", table->struct_size, " bytes, too small to hold its version; set struct_size to ",
              "sizeof(mydev_driver_api)");
  MYDEV_CHECK(table->version_major == MYDEV_DRIVER_VERSION_MAJOR, MYDEV_FAILED_PRECONDITION, "driver '", name,
              "' is built for version ", version_text(table->version_major, table->version_minor),
              " of mydev/driver.h, this runtime needs ", MYDEV_DRIVER_VERSION_MAJOR, ".x; rebuild the driver against ",
              ours);
}

const mydev_driver_api& keep(std::unique_ptr<mydev_driver_api> api) {
  static std::mutex& mutex = *new std::mutex;
  static auto& tables = *new std::vector<std::unique_ptr<mydev_driver_api>>;
  const std::lock_guard lock(mutex);
  return *tables.emplace_back(std::move(api));
}

}  // namespace

const mydev_driver_api& load_driver(const std::string& spec) {
  const DriverSpec parsed = parse_spec(spec);
  const mydev_driver_query_fn query = open_driver(driver_path(parsed.name));
  const mydev_driver_api* theirs = query(MYDEV_DRIVER_VERSION_MAJOR, MYDEV_DRIVER_VERSION_MINOR);
  check_table(parsed.name, theirs);

  // A copy of our own size, so that entries which an older driver does not know read as NULL.
  auto api = std::make_unique<mydev_driver_api>();
  std::memcpy(api.get(), theirs, std::min(theirs->struct_size, sizeof(mydev_driver_api)));
  for (const Entry& entry : kRequiredEntries) {
    MYDEV_CHECK(has_entry(*api, entry.offset), MYDEV_FAILED_PRECONDITION, "driver '", parsed.name,
                "' lacks the entry '", entry.name, "', which mydev/driver.h requires");
  }
  for (const EntryPair& pair : kPairs) {
    MYDEV_CHECK(has_entry(*api, pair.first) == has_entry(*api, pair.second), MYDEV_FAILED_PRECONDITION, "driver '",
                parsed.name, "' gives only one of ", pair.names, "; mydev/driver.h wants both or neither");
  }
  if (const mydev_code code = api->initialize(parsed.options.c_str(), &host_services()); code != MYDEV_OK) {
    raise(code, "driver '" + parsed.name + "' does not start: " + api->last_error());
  }
  return keep(std::move(api));
}

}  // namespace mydev
