#include "runtime/command/host_function.h"

#include <optional>
#include <utility>

#include "runtime/command/host_work.h"
#include "runtime/memory/no_reclaim.h"
#include "runtime/stream/host_function_scope.h"

namespace mydev {

void launch_host_function(Stream& stream, const char* name, std::function<void()> function) {
  stream.check_open();
  auto scoped = [function = std::move(function)] {
    const HostFunctionScope scope;
    std::optional<NoReclaim> no_reclaim;  // who reclaims memory may be waiting for this stream
    if (!NoReclaim::active()) no_reclaim.emplace();
    function();
  };
  Capture* capture = stream.capture();
  if (capture == nullptr) return submit_host_call(stream, name, std::move(scoped));
  auto* taker = dynamic_cast<HostFunctionCapture*>(capture);
  if (taker != nullptr && taker->host_function(stream, name, std::move(scoped))) return;
  const std::string what =
      std::string("the host function ") + name + ", in a capture_error_mode other than \"relaxed\",";
  raise_not_captured(stream, what.c_str());
}

}  // namespace mydev
