// Where StableHLO is lowered to programs: not in this build.
#include "pjrt/compiled_module.h"
#include "runtime/base/status.h"

namespace mydev::pjrt {

SharedModule compile_stablehlo(std::string_view, const CompileOptions&) {
  raise(MYDEV_UNIMPLEMENTED, "this build of the plugin does not compile StableHLO; it holds and copies arrays");
}

}  // namespace mydev::pjrt
