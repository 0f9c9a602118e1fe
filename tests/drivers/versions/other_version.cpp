// The discrete driver as another minor version of mydev/driver.h would have built it: MYDEV_TEST_MINOR is 0, 1
// or 3. The bytes beyond the tables of 1.0 and 1.1 are no functions. Version 3 has entries that no one knows yet, and
// an extension of a version to come.
#include <array>
#include <cstring>

#include "mydev/driver_extensions.h"

// The driver's own, under another name (tests/cpp/CMakeLists.txt).
extern "C" const mydev_driver_api* discrete_driver_query(uint32_t version_major, uint32_t version_minor);

namespace {

mydev_driver_api* const kNoFunctions = reinterpret_cast<mydev_driver_api*>(1);

// A table, and after its end what a reader must not touch.
struct Table {
  mydev_driver_api api;
  std::array<void*, 8> beyond;
};

// A table with an entry that was appended later.
struct LaterProfiler {
  mydev_profiler_extension known;
  void (*appended)();
};

template <typename... Args>
mydev_code do_nothing(Args...) {
  return MYDEV_OK;
}

const void* extension(const char* name, uint32_t version) {
  static const LaterProfiler profiler = {
      {{sizeof(LaterProfiler), version, 0}, do_nothing, do_nothing, [](uint64_t) {}, do_nothing, do_nothing}, nullptr};
  return std::strcmp(name, MYDEV_PROFILER_EXTENSION) == 0 ? &profiler : nullptr;
}

constexpr std::array kExtensions = {mydev_extension{MYDEV_PROFILER_EXTENSION, 2}, mydev_extension{"time_travel", 7}};

}  // namespace

extern "C" MYDEV_EXPORT const mydev_driver_api* mydev_driver_query(uint32_t version_major, uint32_t version_minor) {
  static Table table;
  table.beyond.fill(kNoFunctions);
  table.api = *discrete_driver_query(version_major, version_minor);
  table.api.version_minor = MYDEV_TEST_MINOR;
  if (MYDEV_TEST_MINOR < MYDEV_DRIVER_VERSION_MINOR) {
    table.api.struct_size =
        MYDEV_TEST_MINOR == 0 ? offsetof(mydev_driver_api, stream_status) : offsetof(mydev_driver_api, list_kernels);
    std::memset(reinterpret_cast<char*>(&table.api) + table.api.struct_size, 1,
                sizeof(mydev_driver_api) - table.api.struct_size);
  } else {
    table.api.struct_size = sizeof(Table);
    table.api.extensions = kExtensions.data();
    table.api.num_extensions = kExtensions.size();
    table.api.extension = extension;
  }
  return &table.api;
}
