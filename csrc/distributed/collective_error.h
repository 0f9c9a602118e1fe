// The errors of collectives: torch.distributed.DistBackendError.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>

namespace mydev {

// The message of an exception, without a backtrace.
std::string message_of(const std::exception_ptr& error);

c10::DistBackendError backend_error(const std::string& message);

}  // namespace mydev
