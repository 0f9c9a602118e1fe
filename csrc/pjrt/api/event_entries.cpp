// Entries of errors, events and the plugin itself.
#include <array>
#include <iterator>
#include <string>
#include <string_view>

#include "pjrt/api/entries.h"
#include "pjrt/base/arguments.h"
#include "pjrt/base/completion.h"

namespace mydev::pjrt {

namespace {

// The newest StableHLO that both JAX and PyTorch/XLA write, and that the reader is for; the oldest that they write.
constexpr std::array<int64_t, 3> kStablehloCurrent = {1, 13, 0};
constexpr std::array<int64_t, 3> kStablehloMinimum = {1, 0, 0};
constexpr int64_t kXlaVersion = 2;

PJRT_NamedValue named(std::string_view name, PJRT_NamedValue_Type type, size_t size) {
  PJRT_NamedValue value{};
  value.struct_size = sizeof value;
  value.name = name.data();
  value.name_size = name.size();
  value.type = type;
  value.value_size = size;
  return value;
}

PJRT_NamedValue named(std::string_view name, const std::array<int64_t, 3>& version) {
  PJRT_NamedValue value = named(name, PJRT_NamedValue_kInt64List, version.size());
  value.int64_array_value = version.data();
  return value;
}

void get_plugin_attributes(PJRT_Plugin_Attributes_Args& args) {
  static const std::array attributes = [] {
    PJRT_NamedValue version = named("xla_version", PJRT_NamedValue_kInt64, 1);
    version.int64_value = kXlaVersion;
    return std::array{version, named("stablehlo_current_version", kStablehloCurrent),
                      named("stablehlo_minimum_version", kStablehloMinimum)};
  }();
  args.attributes = attributes.data();
  args.num_attributes = attributes.size();
}

void initialize_plugin(PJRT_Plugin_Initialize_Args&) {}

// --- errors ----------------------------------------------------------------------------------------------------------

void destroy_error(PJRT_Error_Destroy_Args* args) {
  delete args->error;
}

void get_error_message(PJRT_Error_Message_Args* args) {
  give_text(args->error->message, args->message, args->message_size);
}

void get_error_code(PJRT_Error_GetCode_Args& args) {
  args.code = static_cast<PJRT_Error_Code>(required(args.error, "the error").code);
}

void visit_payloads(PJRT_Error_ForEachPayload_Args&) {}  // errors have none

// --- events ----------------------------------------------------------------------------------------------------------

Completion& completion_of(PJRT_Event* event) {
  return *required(event, "the event").completion;
}

void destroy_event(PJRT_Event_Destroy_Args& args) {
  delete args.event;
}

void is_event_ready(PJRT_Event_IsReady_Args& args) {
  args.is_ready = completion_of(args.event).is_ready();
}

PJRT_Error* get_event_error(PJRT_Event_Error_Args& args) {
  const Completion& completion = completion_of(args.event);
  MYDEV_CHECK(completion.is_ready(), MYDEV_FAILED_PRECONDITION,
              "the event is not ready; wait for it before its error is asked for");
  return to_error(completion.failure());
}

PJRT_Error* await_event(PJRT_Event_Await_Args& args) {
  Completion& completion = completion_of(args.event);
  completion.wait();
  return to_error(completion.failure());
}

void call_when_ready(PJRT_Event_OnReady_Args& args) {
  completion_of(args.event).on_ready([callback = args.callback, user = args.user_arg](const Failure& failure) {
    callback(to_error(failure), user);
  });
}

void create_event(PJRT_Event_Create_Args& args) {
  args.event = new PJRT_Event{std::make_shared<Completion>()};
}

void set_event(PJRT_Event_Set_Args& args) {
  completion_of(args.event)
      .set({static_cast<mydev_code>(args.error_code),
            std::string(text_of(args.error_message, args.error_message_size))});
}

}  // namespace

void add_event_entries(PJRT_Api& api) {
  api.PJRT_Error_Destroy = destroy_error;
  api.PJRT_Error_Message = get_error_message;
  MYDEV_PJRT_ENTRY(api, PJRT_Error_GetCode, get_error_code, code);
  MYDEV_PJRT_ENTRY(api, PJRT_Error_ForEachPayload, visit_payloads, error);
  MYDEV_PJRT_ENTRY(api, PJRT_Plugin_Initialize, initialize_plugin, extension_start);
  MYDEV_PJRT_ENTRY(api, PJRT_Plugin_Attributes, get_plugin_attributes, num_attributes);
  MYDEV_PJRT_ENTRY(api, PJRT_Event_Destroy, destroy_event, event);
  MYDEV_PJRT_ENTRY(api, PJRT_Event_IsReady, is_event_ready, is_ready);
  MYDEV_PJRT_ENTRY(api, PJRT_Event_Error, get_event_error, event);
  MYDEV_PJRT_ENTRY(api, PJRT_Event_Await, await_event, event);
  MYDEV_PJRT_ENTRY(api, PJRT_Event_OnReady, call_when_ready, user_arg);
  MYDEV_PJRT_ENTRY(api, PJRT_Event_Create, create_event, event);
  MYDEV_PJRT_ENTRY(api, PJRT_Event_Set, set_event, error_message_size);
}

}  // namespace mydev::pjrt
