#include "pjrt/base/error.h"

#include <new>

namespace mydev::pjrt {

Failure current_failure() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return {error.code(), error.what()};
  } catch (const std::bad_alloc&) {
    return {MYDEV_RESOURCE_EXHAUSTED, "the host is out of memory"};
  } catch (const std::exception& error) {
    return {MYDEV_INTERNAL, error.what()};
  } catch (...) {
    return {MYDEV_INTERNAL, "an exception of a type that is not known was thrown"};
  }
}

PJRT_Error* to_error(Failure failure) noexcept {
  if (!failure.failed()) return nullptr;
  // A host without memory for an error cannot be told of it. NOLINTNEXTLINE(bugprone-unhandled-exception-at-new)
  return new PJRT_Error{failure.code, std::move(failure.message)};
}

}  // namespace mydev::pjrt
