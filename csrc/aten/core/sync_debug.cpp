#include "aten/core/sync_debug.h"

#include <c10/util/Exception.h>

#include <string>

#include "runtime/base/device_name.h"
#include "runtime/base/source_location.h"

namespace mydev::detail {

std::atomic<SyncDebugMode> sync_debug_mode{SyncDebugMode::kDefault};

void tell_of_wait(const char* what) {
  const std::string line = source_location();
  const std::string text = std::string("the host waits for ") + device_name() + " in " + what +
                           (line.empty() ? "" : ", called at " + line) + " (torch." + device_name() +
                           ".set_sync_debug_mode)";
  TORCH_CHECK(mydev::sync_debug_mode() != SyncDebugMode::kError, text);
  TORCH_WARN(text);
}

}  // namespace mydev::detail
