// Gives the table of XLA's FFI to handlers that register themselves while their library is loaded, by the two functions
// that XLA's headers declare. They are in a library of their own, which those handlers are linked with. So nothing else
// in the process sees it, and an XLA that is there as well keeps its own. Their headers must be of version 0.2 or
// later, since 0.1 registers types in another way. Each entry for registration takes the arguments of every version
// since.
#include "kernels/ffi/ffi_host.h"
#include "mydev/custom_call.h"

extern "C" MYDEV_EXPORT const mydev::ffi::Api* XLA_FFI_GetApi() {
  return &mydev::ffi::api_table(mydev::ffi::kMaxMinor);
}

namespace xla::ffi {

MYDEV_EXPORT const mydev::ffi::Api* GetXlaFfiApi() {
  return XLA_FFI_GetApi();
}

}  // namespace xla::ffi
