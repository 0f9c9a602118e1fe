#include "aten/core/error.h"

#include <c10/util/Exception.h>

#include "runtime/base/status.h"

namespace mydev {

constinit thread_local int CustomCallErrors::depth_ = 0;

bool CustomCallErrors::active() noexcept {
  return depth_ != 0;
}

namespace {

[[noreturn]] void raise_as_torch(mydev_code code, const std::string& message, ErrorOwner owner) {
  const c10::SourceLocation here{__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  const bool custom_call = owner == ErrorOwner::kCustomCall || CustomCallErrors::active();
  if (code == MYDEV_RESOURCE_EXHAUSTED) throw c10::OutOfMemoryError(here, message);
  if (code == MYDEV_UNIMPLEMENTED) throw c10::NotImplementedError(here, message);
  // A fault of the device is one, whatever its code.
  if (owner == ErrorOwner::kDriver) throw c10::AcceleratorError(here, static_cast<int32_t>(code), message);
  if (code == MYDEV_INVALID_ARGUMENT && custom_call) throw c10::ValueError(here, message);
  if (code == MYDEV_OUT_OF_RANGE && !custom_call) throw c10::IndexError(here, message);
  throw c10::Error(here, message);
}

[[maybe_unused]] const bool installed = [] {
  set_raiser(&raise_as_torch);
  return true;
}();

}  // namespace
}  // namespace mydev
