// The two functions with which kernels of XLA's API versions 2 and 3 report errors, for processes that have no XLA.
// They are in a library of their own. It is loaded for everyone to see, and only if nobody else provides the functions.
#include <cstring>
#include <string_view>

#include "kernels/custom_call/legacy_status.h"
#include "mydev/custom_call.h"

extern "C" {

MYDEV_EXPORT void XlaCustomCallStatusSetSuccess(mydev::LegacyStatus* status) {
  status->message.reset();
}

// Copies up to `size` bytes, or to the first NUL.
MYDEV_EXPORT void XlaCustomCallStatusSetFailure(mydev::LegacyStatus* status, const char* message, size_t size) {
  status->message.emplace(message, ::strnlen(message, size));
}

}  // extern "C"
