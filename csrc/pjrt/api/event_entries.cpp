// Entries of errors, events and the plugin itself.
#include <array>
#include <iterator>
#include <string>
#include <string_view>

#include "pjrt/api/entries.h"
#include "pjrt/base/completion.h"

namespace mydev::pjrt {

namespace {

// The newest StableHLO that both JAX and PyTorch/XLA write, and that the reader is for; the oldest that they write.
constexpr std::array<int64_t, 3> kStablehloCurrent = {1, 13, 0};
constexpr std::array<int64_t, 3> kStablehloMinimum = {1, 0, 0};
constexpr int64_t kXlaVersion = 2;

PJRT_NamedValue named_version(std::string_view name, const std::array<int64_t, 3>& version) {
  PJRT_NamedValue value = named_value(name, PJRT_NamedValue_kInt64List, version.size());
  value.int64_array_value = version.data();
  return value;
}

Completion& completion_of(PJRT_Event* event) {
  return *required(event, "the event").completion;
}

}  // namespace

MYDEV_PJRT_ENTRY(PJRT_Plugin_Attributes, num_attributes) {
  static const std::array attributes = [] {
    PJRT_NamedValue version = named_value("xla_version", PJRT_NamedValue_kInt64);
    version.int64_value = kXlaVersion;
    return std::array{version, named_version("stablehlo_current_version", kStablehloCurrent),
                      named_version("stablehlo_minimum_version", kStablehloMinimum)};
  }();
  give_list(attributes, args.attributes, args.num_attributes);
}
MYDEV_PJRT_ENTRY(PJRT_Plugin_Initialize, extension_start) {}

// --- errors ----------------------------------------------------------------------------------------------------------

void entry_point(PJRT_Error_Destroy_Args* args) noexcept {
  delete args->error;
}
void entry_point(PJRT_Error_Message_Args* args) noexcept {
  give_text(args->error->message, args->message, args->message_size);
}
MYDEV_PJRT_GIVE(PJRT_Error_GetCode, code, static_cast<PJRT_Error_Code>(required(args.error, "the error").code));
MYDEV_PJRT_ENTRY(PJRT_Error_ForEachPayload, error) {}  // errors have none

// --- events ----------------------------------------------------------------------------------------------------------

MYDEV_PJRT_DO(PJRT_Event_Destroy, event, delete args.event);
MYDEV_PJRT_GIVE(PJRT_Event_IsReady, is_ready, completion_of(args.event).is_ready());
MYDEV_PJRT_ENTRY_WITH(PJRT_Error*, PJRT_Event_Error, event) {
  const Completion& completion = completion_of(args.event);
  MYDEV_CHECK(completion.is_ready(), MYDEV_FAILED_PRECONDITION,
              "the event is not ready; wait for it before its error is asked for");
  return to_error(completion.failure());
}
MYDEV_PJRT_ENTRY_WITH(PJRT_Error*, PJRT_Event_Await, event) {
  Completion& completion = completion_of(args.event);
  completion.wait();
  return to_error(completion.failure());
}
MYDEV_PJRT_ENTRY(PJRT_Event_OnReady, user_arg) {
  completion_of(args.event).on_ready([callback = args.callback, user = args.user_arg](const Failure& failure) {
    callback(to_error(failure), user);
  });
}
MYDEV_PJRT_GIVE(PJRT_Event_Create, event, new PJRT_Event{std::make_shared<Completion>()});
MYDEV_PJRT_ENTRY(PJRT_Event_Set, error_message_size) {
  completion_of(args.event)
      .set({static_cast<mydev_code>(args.error_code),
            std::string(text_of(args.error_message, args.error_message_size))});
}

}  // namespace mydev::pjrt
