// The table of functions that handlers call, one for each version of XLA's FFI, and the functions that need no call.
#include "kernels/ffi/ffi_host.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "kernels/ffi/ffi_context.h"
#include "kernels/ffi/ffi_future.h"
#include "kernels/ffi/ffi_guard.h"
#include "kernels/registry/kernel_registry.h"
#include "runtime/base/device_name.h"
#include "runtime/base/parallel.h"
#include "runtime/base/status.h"

namespace mydev::ffi {

namespace {

// --- errors ----------------------------------------------------------------------------------------------------------

Error* error_create(ErrorCreateArgs* args) {
  return guarded([&]() -> Error* {
    if (!big_enough(args, kErrorCreateArgsSize)) return too_small("Error_Create", kErrorCreateArgsSize);
    const bool known = args->code > MYDEV_OK && args->code <= MYDEV_UNAUTHENTICATED;
    return error(known ? static_cast<mydev_code>(args->code) : MYDEV_UNKNOWN,
                 args->message != nullptr ? args->message : "");
  });
}

// To 0.3 the arguments end with the message.
void error_get_details(ErrorGetDetailsArgs* args) {
  if (!big_enough(args, kErrorGetMessageArgsSize)) return;
  args->message = args->error != nullptr ? args->error->message.c_str() : "";
  if (big_enough(args, kErrorGetDetailsArgsSize)) args->code = args->error != nullptr ? args->error->code : MYDEV_OK;
}

void error_destroy(ErrorDestroyArgs* args) {
  if (big_enough(args, sizeof(ErrorDestroyArgs))) delete args->error;
}

// --- registration ----------------------------------------------------------------------------------------------------

// Copies that outlive the registry.
const char* keep(ByteSpan text) {
  return (new std::string(text.data, text.size))->c_str();
}

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// The library that a handler is in; "" if none is.
std::string file_of(Handler handler) {
  Dl_info info;
  std::error_code error;
  if (::dladdr(reinterpret_cast<const void*>(handler), &info) == 0 || info.dli_fname == nullptr) return "";
  const auto path = std::filesystem::canonical(info.dli_fname, error);
  return error ? info.dli_fname : path.string();
}

// Handlers for platforms that are not here are left to whoever has the platform. Handlers of the stage record are left
// to whoever records commands: no launch of ours is recorded.
template <typename Args>
Error* register_bundle(const Args& args) {
  const std::string_view platform(args.platform.data, args.platform.size);
  const bool on_host = same_word(platform, "Host") || same_word(platform, "CPU");
  if (!on_host && !same_word(platform, device_name())) return nullptr;
  mydev_kernel kernel{};
  kernel.struct_size = sizeof(mydev_kernel);
  kernel.name = keep(args.name);
  kernel.platform = on_host ? nullptr : device_name();
  kernel.kind = MYDEV_KIND_TYPED_FFI;
  kernel.traits = args.traits & kCommandBufferCompatible;
  const auto function = [&](Stage stage) { return reinterpret_cast<mydev_function>(args.bundle.stages[stage]); };
  kernel.instantiate = function(kInstantiate);
  kernel.prepare = function(kPrepare);
  kernel.initialize = function(kInitialize);
  kernel.execute = function(kExecute);
  register_kernel(kernel, {file_of(args.bundle.stages[kExecute]), "XLA_FFI_Handler_Register"});
  return nullptr;
}

// A library asks for the table before anybody knows its version; the size says what its bundle is.
Error* handler_register(void* pointer) {
  return guarded([&]() -> Error* {
    const auto* args = static_cast<const HandlerRegisterArgs*>(pointer);
    if (big_enough(args, kHandlerRegisterArgsSize)) return register_bundle(*args);
    if (!big_enough(args, kHandlerRegisterArgsSize3)) return too_small("Handler_Register", kHandlerRegisterArgsSize3);
    return register_bundle(*static_cast<const HandlerRegisterArgs3*>(pointer));
  });
}

Error* do_register_type(TypeRegisterArgs* args, bool has_info) {
  return guarded([&]() -> Error* {
    if (!big_enough(args, kTypeRegisterArgsSize)) return too_small("Type_Register", kTypeRegisterArgsSize);
    if (args->type_id == nullptr) return error(MYDEV_INVALID_ARGUMENT, "type_id is NULL");
    // From 0.2 on type_info is always there, although struct_size does not count it.
    return register_type({args->name.data, args->name.size}, *args->type_id, has_info ? args->type_info : nullptr)
        .release();
  });
}
Error* type_id_register(TypeRegisterArgs* args) {
  return do_register_type(args, false);
}
Error* type_register(TypeRegisterArgs* args) {
  return do_register_type(args, true);
}

// --- threads ---------------------------------------------------------------------------------------------------------

Error* thread_pool_num_threads(ThreadPoolNumThreadsArgs* args) {
  return guarded([&]() -> Error* {
    if (!big_enough(args, sizeof(ThreadPoolNumThreadsArgs)) || args->num_threads == nullptr) {
      return too_small("ThreadPool_NumThreads", sizeof(ThreadPoolNumThreadsArgs));
    }
    *args->num_threads = parallel_threads();
    return nullptr;
  });
}

// --- futures ---------------------------------------------------------------------------------------------------------

Error* future_create(FutureCreateArgs* args) {
  return guarded([&]() -> Error* {
    if (!big_enough(args, kFutureCreateArgsSize)) return too_small("Future_Create", kFutureCreateArgsSize);
    args->future = create_future();
    return nullptr;
  });
}
Error* future_set_available(FutureSetAvailableArgs* args) {
  return guarded([&]() -> Error* {
    if (!big_enough(args, sizeof(FutureSetAvailableArgs))) {
      return too_small("Future_SetAvailable", sizeof(FutureSetAvailableArgs));
    }
    return complete_future(args->future, nullptr).release();
  });
}
Error* future_set_error(FutureSetErrorArgs* args) {
  return guarded([&]() -> Error* {
    if (!big_enough(args, sizeof(FutureSetErrorArgs))) return too_small("Future_SetError", sizeof(FutureSetErrorArgs));
    std::unique_ptr<Error> given(args->error);
    if (given == nullptr) given = std::make_unique<Error>(MYDEV_UNKNOWN, "a future was set to an error that is NULL");
    return complete_future(args->future, std::move(given)).release();
  });
}

// --- tables ----------------------------------------------------------------------------------------------------------

// Stands in the table for 0.1, in which thread_pool_num_threads was inserted without a new version. So nobody can tell
// which of the functions after it a handler means.
Error* unsupported(void* /*args*/) {
  return error(MYDEV_UNIMPLEMENTED,
               "handlers built with XLA FFI 0.1 can use no futures, run ids or device ordinals here; "
               "rebuild with the headers of jaxlib 0.8.1 or later");
}
Error* num_threads_or_future(ThreadPoolNumThreadsArgs* args) {
  return big_enough(args, sizeof(ThreadPoolNumThreadsArgs)) ? thread_pool_num_threads(args) : unsupported(args);
}
template <typename Args>
Error* unsupported_entry(Args* args) {
  return unsupported(args);
}

constexpr Api make_table(int minor) {
  Api api{};
  api.struct_size = minor <= 3 ? kApiSize3 : minor == 4 ? kApiSize4 : sizeof(Api);
  api.api_version = {sizeof(ApiVersion), nullptr, kMajor, minor};
  api.error_create = error_create;
  api.error_get_details = error_get_details;
  api.error_destroy = error_destroy;
  api.handler_register = handler_register;
  api.stream_get = stream_get;
  api.type_register = minor == 1 ? type_id_register : type_register;
  api.context_get = context_get;
  api.state_set = minor == 1 ? state_set_1 : minor == 2 ? state_set_2 : state_set_3;
  api.state_get = minor <= 2 ? state_get_2 : state_get_3;
  api.memory_allocate = memory_allocate;
  api.memory_free = memory_free;
  api.thread_pool_schedule = thread_pool_schedule;
  api.thread_pool_num_threads = minor == 1 ? num_threads_or_future : thread_pool_num_threads;
  api.future_create = minor == 1 ? unsupported_entry<FutureCreateArgs> : future_create;
  api.future_set_available = minor == 1 ? unsupported_entry<FutureSetAvailableArgs> : future_set_available;
  api.future_set_error = minor == 1 ? unsupported_entry<FutureSetErrorArgs> : future_set_error;
  api.run_id_get = minor == 1 ? unsupported_entry<RunIdGetArgs> : run_id_get;
  api.device_ordinal_get = minor == 1 ? unsupported_entry<DeviceOrdinalGetArgs> : device_ordinal_get;
  api.find_extension = minor >= 4 ? find_extension : nullptr;
  api.custom_options_get = minor >= 5 ? custom_options_get : nullptr;
  return api;
}

constexpr std::array kTables = {make_table(1), make_table(2), make_table(3), make_table(4), make_table(5)};
static_assert(kTables.size() == kMaxMinor);

}  // namespace

const Api& api_table(int minor) noexcept {
  return kTables[static_cast<size_t>(std::clamp(minor, kMinMinor, kMaxMinor) - 1)];
}

}  // namespace mydev::ffi
