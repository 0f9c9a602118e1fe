// Errors of the torch-free layers as PyTorch's exceptions, so that Python sees the types that users expect.
#include <c10/util/Exception.h>

#include "runtime/status.h"

namespace mydev {
namespace {

[[noreturn]] void raise_as_torch(mydev_code code, const std::string& message) {
  const c10::SourceLocation here{__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  switch (code) {
    case MYDEV_RESOURCE_EXHAUSTED:
      throw c10::OutOfMemoryError(here, message);
    case MYDEV_UNIMPLEMENTED:
      throw c10::NotImplementedError(here, message);
    case MYDEV_OUT_OF_RANGE:
      throw c10::IndexError(here, message);
    default:
      throw c10::Error(here, message);
  }
}

[[maybe_unused]] const bool installed = [] {
  set_raiser(&raise_as_torch);
  return true;
}();

}  // namespace
}  // namespace mydev
