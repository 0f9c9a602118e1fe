#include "runtime/command/host_work.h"

#include <utility>

#include "runtime/base/source_location.h"

namespace mydev {

void submit_host_call(Stream& stream, const char* name, std::function<void()> function) {
  std::optional<detail::ObservedCommand> observed;
  if (detail::observing()) [[unlikely]] {
    observed.emplace(CommandRecord{.kind = CommandKind::kHostCall, .name = name, .stream = &stream});
  }
  stream.host_call(std::move(function), name, source_location());
  if (observed) observed->submitted(stream, MYDEV_OK);
}

}  // namespace mydev
