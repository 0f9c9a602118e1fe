// GetPjrtApi: the table, of which each slot is filled.
#include <string>

#include "pjrt/api/entries.h"

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
#define MYDEV_PJRT_SLOT(name) api.name = entry_point;
#define MYDEV_PJRT_STUB(name) api.name = [](name##_Args*) -> PJRT_Error* { return unimplemented(#name); };
  PJRT_FUNCTIONS(MYDEV_PJRT_SLOT, MYDEV_PJRT_SLOT, MYDEV_PJRT_STUB)
#undef MYDEV_PJRT_SLOT
#undef MYDEV_PJRT_STUB
  return api;
}

}  // namespace

}  // namespace mydev::pjrt

const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api api = mydev::pjrt::make_table();
  return &api;
}
