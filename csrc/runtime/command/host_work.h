// Work of the host on a device's memory, or in a stream's order, as commands: CPU kernels by alias, generated code of
// graphs, callbacks.
#pragma once

#include <functional>
#include <optional>

#include "runtime/base/api.h"
#include "runtime/command/command_hooks.h"

namespace mydev {

// While one lives, the host works on the memory of the stream's device, whose earlier work is done. `name` lives as
// long as the process. Costs two loads without hooks. Raises if the stream captures: the host would work now.
class HostWork {
 public:
  HostWork(const char* name, Stream& stream) : stream_(stream) {
    if (stream.capture() != nullptr) [[unlikely]]
      raise_not_captured(stream, name);
    if (detail::observing()) [[unlikely]] {
      observed_.emplace(CommandRecord{.kind = CommandKind::kHostCall, .name = name, .stream = &stream});
    }
  }
  ~HostWork() {
    if (observed_) [[unlikely]] {
      observed_->submitted(stream_, MYDEV_OK, /*ends_here=*/true);
    }
  }
  HostWork(const HostWork&) = delete;
  HostWork& operator=(const HostWork&) = delete;

 private:
  Stream& stream_;
  std::optional<detail::ObservedCommand> observed_;
};

// Submits Stream::host_call as a command. An exception of the function sticks to the stream, with the name and the
// Python line.
MYDEV_API void submit_host_call(Stream& stream, const char* name, std::function<void()> function);
// The same, but a stream that is not asynchronous calls the function as HostWork, and its exceptions are raised here:
// as INTERNAL those that are no Error.
MYDEV_API void call_in_order(Stream& stream, const char* name, std::function<void()> function);

}  // namespace mydev
