#include "runtime/driver/driver_loader.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/installed_library.h"
#include "runtime/base/status.h"
#include "runtime/driver/driver_table.h"
#include "runtime/driver/host_services.h"

namespace mydev {

namespace {

struct DriverSpec {
  std::string name;
  std::string options;
  bool validated;
};

constexpr std::string_view kValidate = "validate:";

DriverSpec parse_spec(std::string spec) {
  const bool validated = spec.starts_with(kValidate);
  if (validated) spec.erase(0, kValidate.size());
  const size_t colon = spec.find(':');
  if (colon == std::string::npos) {
    return {spec, "", validated};
  }
  return {spec.substr(0, colon), spec.substr(colon + 1), validated};
}

void put_validation_before(const std::string& name, mydev_driver_api& api) {
  static std::atomic<bool> validating{false};
  MYDEV_CHECK(!validating.exchange(true, std::memory_order_relaxed), MYDEV_FAILED_PRECONDITION, "driver '", name,
              "': this process validates a driver already; there is one validation layer in a process");
  detail::validate_driver(api);
}

#define ENTRY(name) MYDEV_TABLE_ENTRY(mydev_driver_api, name)
constexpr std::array kRequiredEntries = {
    ENTRY(initialize),        ENTRY(last_error),        ENTRY(device_count),  ENTRY(device_properties),
    ENTRY(memory_alloc),      ENTRY(memory_free),       ENTRY(copy),          ENTRY(fill),
    ENTRY(stream_create),     ENTRY(stream_destroy),    ENTRY(stream_query),  ENTRY(stream_synchronize),
    ENTRY(stream_wait_event), ENTRY(event_create),      ENTRY(event_destroy), ENTRY(event_record),
    ENTRY(event_query),       ENTRY(event_synchronize), ENTRY(event_elapsed), ENTRY(launch),
};

// Entries of which a driver gives both or neither.
constexpr std::array kHostMemory = {ENTRY(host_alloc), ENTRY(host_free)};
constexpr std::array kHostAccess = {ENTRY(host_access_begin), ENTRY(host_access_end)};
constexpr std::array kHostRegistration = {ENTRY(host_register), ENTRY(host_unregister)};
constexpr std::array kHostRanges = {ENTRY(host_access_begin_range), ENTRY(host_access_end_range)};
constexpr std::array<EntryGroup, 4> kPairs = {kHostMemory, kHostAccess, kHostRegistration, kHostRanges};
#undef ENTRY

bool file_exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

std::string installed_driver_path(const std::string& name) {
  std::string path = installed_library(("libmydev_" + name + "_driver.so").c_str());
  MYDEV_CHECK(file_exists(path), MYDEV_NOT_FOUND, "driver '", name, "': there is no ", path,
              ", which is installed beside libmydev_runtime; install the package again");
  return path;
}

// The path of the shared object that MYDEV_DRIVER names.
std::string driver_path(const std::string& name) {
  if (std::ranges::find(kInstalledDrivers, name) != kInstalledDrivers.end()) {
    return installed_driver_path(name);
  }
  MYDEV_CHECK(
      name.find('/') == std::string::npos || file_exists(name), MYDEV_NOT_FOUND, "driver '", name,
      "': no such file; MYDEV_DRIVER takes 'host', 'opencl', 'cuda' or the path of a driver's shared object, after "
      "'validate:' to check it");
  return name;
}

// Returns the query function of the shared object at `path`.
mydev_driver_query_fn open_driver(const std::string& path) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();  // NOLINT(concurrency-mt-unsafe): glibc keeps it per thread
    const bool in_this_folder = path.find('/') == std::string::npos && file_exists(path);
    raise(MYDEV_FAILED_PRECONDITION, "driver '" + path + "' cannot be loaded: " + (reason != nullptr ? reason : "") +
                                         (in_this_folder ? "; for the file in this folder write ./" + path : ""));
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

const OpenDriver& keep(std::unique_ptr<OpenDriver> driver) {
  static std::mutex& mutex = *new std::mutex;
  static auto& drivers = *new std::vector<std::unique_ptr<OpenDriver>>;
  const std::lock_guard lock(mutex);
  return *drivers.emplace_back(std::move(driver));
}

void check_entries(const std::string& name, const mydev_driver_api& api) {
  for (const TableEntry& entry : kRequiredEntries) {
    MYDEV_CHECK(has_entry(&api, entry), MYDEV_FAILED_PRECONDITION, "driver '", name, "' lacks the entry '", entry.name,
                "', which mydev/driver.h requires");
  }
  for (const EntryGroup pair : kPairs) {
    MYDEV_CHECK(entries_given(&api, pair) != 1, MYDEV_FAILED_PRECONDITION, "driver '", name, "' gives only one of ",
                names_of(pair), "; mydev/driver.h wants both or neither");
  }
  MYDEV_CHECK(api.host_access_begin_range == nullptr || api.host_access_begin != nullptr, MYDEV_FAILED_PRECONDITION,
              "driver '", name, "' gives ", names_of(kHostRanges), " without ", names_of(kHostAccess),
              "; mydev/driver.h wants these too, for memory that the runtime does not know beforehand");
}

}  // namespace

const OpenDriver& load_driver(const std::string& spec) {
  const DriverSpec parsed = parse_spec(spec);
  const mydev_driver_query_fn query = open_driver(driver_path(parsed.name));
  const mydev_driver_api* theirs = query(MYDEV_DRIVER_VERSION_MAJOR, MYDEV_DRIVER_VERSION_MINOR);
  check_table(parsed.name, theirs);

  // The copy has our own size, so that entries which an older driver does not know read as NULL.
  auto driver = std::make_unique<OpenDriver>();
  mydev_driver_api& api = driver->api;
  std::memcpy(&api, theirs, std::min(theirs->struct_size, sizeof(mydev_driver_api)));
  check_entries(parsed.name, api);
  if (parsed.validated) put_validation_before(parsed.name, api);
  if (const mydev_code code = api.initialize(parsed.options.c_str(), &host_services()); code != MYDEV_OK) {
    raise(code, "driver '" + parsed.name + "' does not start: " + api.last_error());
  }
  // The extensions may depend on the options.
  if (theirs->struct_size >= offsetof(mydev_driver_api, num_extensions) + sizeof(api.num_extensions)) {
    api.extensions = theirs->extensions;
    api.num_extensions = theirs->num_extensions;
  }
  driver->extensions = load_extensions(parsed.name, api);
  return keep(std::move(driver));
}

}  // namespace mydev
