// GetPjrtApi: the table, of which each slot is filled.
#include <string>

#include "pjrt/api/entries.h"
#include "pjrt/base/error.h"

namespace mydev::pjrt {

namespace {

PJRT_Error* unimplemented(const char* name) noexcept {
  return to_error({MYDEV_UNIMPLEMENTED, std::string(name) + " is not implemented by this plugin"});
}

PJRT_Api make_table() {
  PJRT_Api api{};
  api.struct_size = sizeof(PJRT_Api);
  api.extension_start = extensions();
  api.pjrt_api_version = {sizeof(PJRT_Api_Version), nullptr, PJRT_API_MAJOR, PJRT_API_MINOR};
#define MYDEV_PJRT_STUB(name) api.name = [](name##_Args*) -> PJRT_Error* { return unimplemented(#name); };
#define MYDEV_PJRT_NO_STUB(name)
  PJRT_FUNCTIONS(MYDEV_PJRT_STUB, MYDEV_PJRT_NO_STUB)
#undef MYDEV_PJRT_STUB
#undef MYDEV_PJRT_NO_STUB
  add_event_entries(api);
  add_client_entries(api);
  add_device_entries(api);
  add_buffer_entries(api);
  add_executable_entries(api);
  add_loaded_executable_entries(api);
  return api;
}

}  // namespace

}  // namespace mydev::pjrt

const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api api = mydev::pjrt::make_table();
  return &api;
}
