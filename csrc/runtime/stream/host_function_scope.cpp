#include "runtime/stream/host_function_scope.h"

#include "runtime/base/status.h"

namespace mydev {

namespace {

constinit thread_local bool in_host_function = false;

}  // namespace

HostFunctionScope::HostFunctionScope() noexcept : outer_(in_host_function) {
  in_host_function = true;
}

HostFunctionScope::~HostFunctionScope() {
  in_host_function = outer_;
}

void HostFunctionScope::check_waits(const char* what) {
  MYDEV_CHECK(
      !in_host_function, MYDEV_FAILED_PRECONDITION, what,
      " inside of a host function is not allowed: its stream waits for it; wait before the function is launched "
      "or after it, or hand its results to another thread");
}

}  // namespace mydev
