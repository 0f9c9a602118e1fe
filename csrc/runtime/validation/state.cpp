#include "runtime/validation/state.h"

#include <utility>

#include "runtime/validation/finding.h"

namespace mydev::validation {

namespace {

std::string described(const Command& command) {
  return text(command.what, " on ", command.stream, command.source.empty() ? "" : ", given at ", command.source);
}

std::string use_text(const Access& access) {
  return text(access.writes ? "writes" : "reads", " its ", access.role, " [",
              reinterpret_cast<const void*>(access.view.begin), ", ",  // NOLINT(performance-no-int-to-ptr)
              reinterpret_cast<const void*>(access.view.end), ")");    // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

State& state() {
  static State& instance = *new State;
  return instance;
}

void put_checks_before(const mydev_driver_api& driver, mydev_driver_api& table) {
  state().driver = driver;
  table = driver;
  put_memory_checks(table);
  put_transfer_checks(table);
  put_stream_checks(table);
  put_launch_checks(table);
  put_module_checks(table);
}

Submission::Submission(State& self, mydev_stream stream, std::string what, std::string source, std::vector<Use> uses)
    : self_(self), stream_(stream) {
  StreamObject& object = self.objects.stream(stream);
  command_ = std::make_shared<Command>(Command{std::move(what), std::move(source), object.name});
  bool finalized = false;
  const uint64_t epoch = self.order.advance(object.order, finalized);
  before_ = object.order.point.clock;
  if (!finalized) return;
  for (Use& use : uses) {
    if (use.view.empty()) continue;
    auto access = std::make_shared<const Access>(
        Access{command_, object.order.timeline, epoch, use.writes, std::move(use.role), std::move(use.view)});
    check(use, *access, object);
    accesses_.emplace_back(use.space, std::move(access));
  }
  for (const auto& [space, access] : accesses_) {
    self.objects.space(space).history.add(access, before_, self.order.host());
  }
}

void Submission::check(const Use& use, const Access& access, const StreamObject& stream) const {
  const SharedAccess other = self_.objects.space(use.space).history.conflict(access, stream.order.point.clock);
  if (other == nullptr) return;
  throw Finding(
      MYDEV_FAILED_PRECONDITION,
      text("two streams use the same memory and nothing orders them: ", described(*command_), ", ", use_text(access),
           ", while ", described(*other->command), ", ", use_text(*other),
           ". Let the later stream wait for the earlier one: record an event on that after its command, and make this "
           "one wait for the event (Stream.wait_stream, or wait_event); or synchronize the earlier one before"));
}

void Submission::finalize(mydev_code code, bool finished) {
  const std::lock_guard lock(self_.mutex);
  if (code != MYDEV_OK) {
    for (const auto& [space, access] : accesses_) self_.objects.space(space).history.forget(*access);
  } else if (finished) {
    self_.order.observe({before_, {}});
  }
}

std::string Submission::description() const {
  return described(*command_);
}

}  // namespace mydev::validation
