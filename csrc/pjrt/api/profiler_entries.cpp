// The profiler extension: rows of what devices did in the traces of jax.profiler (profile.h).
#include <cstring>
#include <string>
#include <utility>

#include "pjrt/api/entries.h"
#include "pjrt/base/arguments.h"
#include "pjrt/c_api/profiler.h"
#include "pjrt/device/profile.h"

struct PLUGIN_Profiler {
  bool running = false;
  std::string data;
};
struct PLUGIN_Profiler_Error {
  mydev::pjrt::Failure failure;
};

namespace mydev::pjrt {

namespace {

template <typename Body>
PLUGIN_Profiler_Error* profiler_guarded(const Body& body) noexcept {
  Failure failure = failure_of(body);
  if (!failure.failed()) return nullptr;
  // A host without memory for an error cannot be told of it. NOLINTNEXTLINE(bugprone-unhandled-exception-at-new)
  return new PLUGIN_Profiler_Error{std::move(failure)};
}

void destroy_error(PLUGIN_Profiler_Error_Destroy_Args* args) {
  delete args->error;
}
void get_message(PLUGIN_Profiler_Error_Message_Args* args) {
  give_text(args->error->failure.message, args->message, args->message_size);
}
PLUGIN_Profiler_Error* get_code(PLUGIN_Profiler_Error_GetCode_Args* args) {
  args->code = args->error->failure.code;
  return nullptr;
}
PLUGIN_Profiler_Error* create(PLUGIN_Profiler_Create_Args* args) {
  return profiler_guarded([&] { args->profiler = new PLUGIN_Profiler(); });
}
void stop(PLUGIN_Profiler& profiler) {
  if (std::exchange(profiler.running, false)) stop_profile();
}
PLUGIN_Profiler_Error* destroy(PLUGIN_Profiler_Destroy_Args* args) {
  return profiler_guarded([&] {
    if (args->profiler != nullptr) stop(*args->profiler);
    delete args->profiler;
  });
}
PLUGIN_Profiler_Error* start(PLUGIN_Profiler_Start_Args* args) {
  return profiler_guarded([&] {
    PLUGIN_Profiler& profiler = required(args->profiler, "the profiler");
    start_profile();
    profiler.running = true;
  });
}
PLUGIN_Profiler_Error* stop(PLUGIN_Profiler_Stop_Args* args) {
  return profiler_guarded([&] { stop(required(args->profiler, "the profiler")); });
}
// Clients take the data where they lie. If a client asks a second time, with a buffer, the data are copied there.
PLUGIN_Profiler_Error* collect(PLUGIN_Profiler_CollectData_Args* args) {
  return profiler_guarded([&] {
    std::string& data = required(args->profiler, "the profiler").data;
    if (args->buffer == nullptr) {
      data = serialized_profile();
      args->buffer = reinterpret_cast<uint8_t*>(data.data());
    } else {
      std::memcpy(args->buffer, data.data(), data.size());
    }
    args->buffer_size_in_bytes = data.size();
  });
}

}  // namespace

PJRT_Extension_Base* profiler_extension(PJRT_Extension_Base* next) noexcept {
  static PLUGIN_Profiler_Api profiler = {.struct_size = sizeof profiler,
                                         .priv = nullptr,
                                         .error_destroy = destroy_error,
                                         .error_message = get_message,
                                         .error_get_code = get_code,
                                         .create = create,
                                         .destroy = destroy,
                                         .start = start,
                                         .stop = stop,
                                         .collect_data = collect};
  static PJRT_Profiler_Extension extension = {.base = {sizeof extension, PJRT_Extension_Type_Profiler, next},
                                              .profiler_api = &profiler,
                                              .traceme_context_id = 0};
  return &extension.base;
}

}  // namespace mydev::pjrt
