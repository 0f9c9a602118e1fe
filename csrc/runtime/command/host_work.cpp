#include "runtime/command/host_work.h"

#include <exception>
#include <utility>

#include "runtime/base/source_location.h"
#include "runtime/base/status.h"

namespace mydev {

void submit_host_call(Stream& stream, const char* name, std::function<void()> function) {
  std::optional<detail::ObservedCommand> observed;
  if (detail::observing()) [[unlikely]] {
    observed.emplace(CommandRecord{.kind = CommandKind::kHostCall, .name = name, .stream = &stream});
  }
  stream.host_call(std::move(function), name, source_location());
  if (observed) observed->submitted(stream, MYDEV_OK);
}

void call_in_order(Stream& stream, const char* name, std::function<void()> function) {
  if (stream.asynchronous()) return submit_host_call(stream, name, std::move(function));
  const HostWork work(name, stream);
  try {
    function();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    raise(MYDEV_INTERNAL, error.what());
  }
}

}  // namespace mydev
