#include "distributed/collective_error.h"

namespace mydev {

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error& caught) {
    return caught.what_without_backtrace();
  } catch (const std::exception& caught) {
    return caught.what();
  } catch (...) {
    return "unknown exception";
  }
}

c10::DistBackendError backend_error(const std::string& message) {
  return {c10::SourceLocation{__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, message};
}

}  // namespace mydev
