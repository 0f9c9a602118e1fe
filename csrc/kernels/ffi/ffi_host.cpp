#include "kernels/ffi/ffi_host.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "kernels/ffi/ffi_future.h"
#include "kernels/ffi/ffi_memory.h"
#include "kernels/ffi/ffi_types.h"
#include "kernels/registry/kernel_registry.h"
#include "runtime/device_name.h"
#include "runtime/parallel.h"
#include "runtime/status.h"

namespace mydev::ffi {

namespace {

// Whether the bytes that we are to read and write are there. What lies behind them may be missing: the other side's
// version may not have it.
template <typename Args>
bool big_enough(const Args* args, size_t size) {
  return args != nullptr && args->struct_size >= size;
}

Error* error(mydev_code code, std::string message) {
  return new Error{code, std::move(message)};  // the handler's
}
Error* too_small(const char* what, size_t size) {
  return error(MYDEV_INVALID_ARGUMENT,
               std::string("the arguments of ") + what + " need a struct_size of at least " + std::to_string(size));
}

// A function of the table: no exception leaves it.
template <typename Body>
Error* guarded(const Body& body) noexcept {
  const RaiserBypass bypass;
  try {
    return body();
  } catch (const mydev::Error& caught) {
    return error(caught.code(), caught.what());
  } catch (const std::bad_alloc&) {
    return error(MYDEV_RESOURCE_EXHAUSTED, "out of host memory");
  } catch (const std::exception& caught) {
    return error(MYDEV_INTERNAL, caught.what());
  }
}

// --- errors ----------------------------------------------------------------------------------------------------------

Error* error_create(ErrorCreateArgs* args) {
  return guarded([&]() -> Error* {
    if (!big_enough(args, kErrorCreateArgsSize)) return too_small("Error_Create", kErrorCreateArgsSize);
    const bool known = args->code > MYDEV_OK && args->code <= MYDEV_UNAUTHENTICATED;
    return error(known ? static_cast<mydev_code>(args->code) : MYDEV_UNKNOWN,
                 args->message != nullptr ? args->message : "");
  });
}

void error_get_message(ErrorGetMessageArgs* args) {
  if (!big_enough(args, sizeof(ErrorGetMessageArgs))) return;
  args->message = args->error != nullptr ? args->error->message.c_str() : "";
}

void error_destroy(ErrorDestroyArgs* args) {
  if (big_enough(args, sizeof(ErrorDestroyArgs))) delete args->error;
}

void error_get_code(ErrorGetCodeArgs* args) {
  if (!big_enough(args, kErrorGetCodeArgsSize)) return;
  args->code = args->error != nullptr ? args->error->code : MYDEV_OK;
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

// Handlers for platforms that are not here are left to whoever has the platform.
Error* handler_register(HandlerRegisterArgs* args) {
  return guarded([&]() -> Error* {
    if (!big_enough(args, kHandlerRegisterArgsSize)) return too_small("Handler_Register", kHandlerRegisterArgsSize);
    const std::string_view platform(args->platform.data, args->platform.size);
    const bool on_host = same_word(platform, "Host") || same_word(platform, "CPU");
    if (!on_host && !same_word(platform, MYDEV_DEVICE_NAME)) return nullptr;
    mydev_kernel kernel{};
    kernel.struct_size = sizeof(mydev_kernel);
    kernel.name = keep(args->name);
    kernel.platform = on_host ? nullptr : MYDEV_DEVICE_NAME;
    kernel.kind = MYDEV_KIND_TYPED_FFI;
    kernel.traits = args->traits & kCommandBufferCompatible;
    const auto function = [&](Stage stage) { return reinterpret_cast<mydev_function>(args->bundle.stages[stage]); };
    kernel.instantiate = function(kInstantiate);
    kernel.prepare = function(kPrepare);
    kernel.initialize = function(kInitialize);
    kernel.execute = function(kExecute);
    register_kernel(kernel, {file_of(args->bundle.stages[kExecute]), "XLA_FFI_Handler_Register"});
    return nullptr;
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

// --- the call's context ----------------------------------------------------------------------------------------------

// nullptr, or why a function that needs a device cannot work.
Error* need_device(const ExecutionContext* context, const char* what) {
  if (context == nullptr) return error(MYDEV_INVALID_ARGUMENT, std::string(what) + ": the context is NULL");
  if (context->device >= 0) return nullptr;
  return error(MYDEV_FAILED_PRECONDITION, std::string(what) + ": there is no device while a handler is instantiated");
}

Error* stream_get(StreamGetArgs* args) {
  return guarded([&]() -> Error* {
    if (!big_enough(args, sizeof(StreamGetArgs))) return too_small("Stream_Get", sizeof(StreamGetArgs));
    if (Error* refusal = need_device(args->context, "Stream_Get")) return refusal;
    args->stream = args->context->stream;
    return nullptr;
  });
}

Error* device_ordinal_get(DeviceOrdinalGetArgs* args) {
  return guarded([&]() -> Error* {
    if (!big_enough(args, kDeviceOrdinalGetArgsSize)) return too_small("DeviceOrdinal_Get", kDeviceOrdinalGetArgsSize);
    if (Error* refusal = need_device(args->context, "DeviceOrdinal_Get")) return refusal;
    args->ordinal = args->context->device;
    return nullptr;
  });
}

Error* run_id_get(RunIdGetArgs* args) {
  return guarded([&]() -> Error* {
    if (!big_enough(args, sizeof(RunIdGetArgs))) return too_small("RunId_Get", sizeof(RunIdGetArgs));
    if (Error* refusal = need_device(args->context, "RunId_Get")) return refusal;
    static std::atomic<int64_t> next{1};
    std::atomic<int64_t>& id = args->context->run_id;
    int64_t current = id.load(std::memory_order_relaxed);
    if (current == 0) {
      const int64_t fresh = next.fetch_add(1, std::memory_order_relaxed);
      if (id.compare_exchange_strong(current, fresh, std::memory_order_relaxed)) current = fresh;
    }
    args->run_id = current;
    return nullptr;
  });
}

Error* context_get(ContextGetArgs* args) {
  return guarded([&]() -> Error* {
    if (!big_enough(args, sizeof(ContextGetArgs))) return too_small("ExecutionContext_Get", sizeof(ContextGetArgs));
    if (args->type_id == nullptr) return error(MYDEV_INVALID_ARGUMENT, "type_id is NULL");
    args->data = find_user_data(args->type_id->id);
    if (args->data != nullptr) return nullptr;
    return error(MYDEV_NOT_FOUND, "there is no user data of type " + std::to_string(args->type_id->id));
  });
}

// --- states ----------------------------------------------------------------------------------------------------------

// Where a stage's state is kept; nullptr: nowhere.
State* state_slot(ExecutionContext* context, int32_t stage) {
  if (stage == kInstantiate) return context->instance;
  return stage == kPrepare || stage == kInitialize ? &context->states[static_cast<size_t>(stage)] : nullptr;
}

Error* set_state(ExecutionContext* context, int32_t stage, const TypeId* type_id, void* object,
                 void (*deleter)(void*)) {
  if (context == nullptr || type_id == nullptr) return error(MYDEV_INVALID_ARGUMENT, "the context or type_id is NULL");
  State* slot = stage == context->stage ? state_slot(context, stage) : nullptr;
  if (slot == nullptr) {
    return error(MYDEV_FAILED_PRECONDITION, "a state of stage " + std::to_string(stage) + " cannot be set in stage " +
                                                std::to_string(context->stage));
  }
  if (slot->type != 0) return error(MYDEV_ALREADY_EXISTS, "the stage has set its state already");
  if (type_id->id == 0) {
    return error(MYDEV_FAILED_PRECONDITION, "the state's type is not registered; register it before the handler");
  }
  slot->type = type_id->id;
  slot->object = object;
  slot->deleter = deleter;
  context->used.store(true, std::memory_order_relaxed);
  return nullptr;
}

// From 0.2 on the type knows how its objects are deleted.
Error* set_typed_state(ExecutionContext* context, int32_t stage, const TypeId* type_id, void* object) {
  const RegisteredType type = find_type(type_id != nullptr ? type_id->id : 0);
  if (!type.found) {
    return error(MYDEV_FAILED_PRECONDITION,
                 "the state's type is not registered with this host; register it before the handler");
  }
  return set_state(context, stage, type_id, object, type.deleter);
}

template <typename Args>
Error* get_state(Args* args, int32_t stage) {
  if (args->context == nullptr || args->type_id == nullptr) {
    return error(MYDEV_INVALID_ARGUMENT, "the context or type_id is NULL");
  }
  const State* slot = state_slot(args->context, stage);
  if (slot == nullptr || slot->type == 0) {
    return error(MYDEV_NOT_FOUND, "there is no state of stage " + std::to_string(stage));
  }
  if (slot->type != args->type_id->id) {
    return error(MYDEV_INVALID_ARGUMENT,
                 "the state has type " + std::to_string(slot->type) + ", not " + std::to_string(args->type_id->id));
  }
  args->state = slot->object;
  return nullptr;
}

Error* state_set_1(void* pointer) {
  return guarded([&]() -> Error* {
    const auto* args = static_cast<const StateSetArgs1*>(pointer);
    if (!big_enough(args, sizeof(StateSetArgs1))) return too_small("State_Set", sizeof(StateSetArgs1));
    return set_state(args->context, kInstantiate, args->type_id, args->state, args->deleter);
  });
}
Error* state_set_2(void* pointer) {
  return guarded([&]() -> Error* {
    const auto* args = static_cast<const StateSetArgs2*>(pointer);
    if (!big_enough(args, sizeof(StateSetArgs2))) return too_small("State_Set", sizeof(StateSetArgs2));
    return set_typed_state(args->context, kInstantiate, args->type_id, args->state);
  });
}
Error* state_set_3(void* pointer) {
  return guarded([&]() -> Error* {
    const auto* args = static_cast<const StateSetArgs3*>(pointer);
    if (!big_enough(args, sizeof(StateSetArgs3))) return too_small("State_Set", sizeof(StateSetArgs3));
    return set_typed_state(args->context, args->stage, args->type_id, args->state);
  });
}
Error* state_get_2(void* pointer) {
  return guarded([&]() -> Error* {
    auto* args = static_cast<StateGetArgs2*>(pointer);
    if (!big_enough(args, sizeof(StateGetArgs2))) return too_small("State_Get", sizeof(StateGetArgs2));
    return get_state(args, kInstantiate);
  });
}
Error* state_get_3(void* pointer) {
  return guarded([&]() -> Error* {
    auto* args = static_cast<StateGetArgs3*>(pointer);
    if (!big_enough(args, sizeof(StateGetArgs3))) return too_small("State_Get", sizeof(StateGetArgs3));
    return get_state(args, args->stage);
  });
}

// --- device memory ---------------------------------------------------------------------------------------------------

constexpr size_t kAlignment = 64;  // the least that a device gives

Error* memory_allocate(MemoryAllocateArgs* args) {
  return guarded([&]() -> Error* {
    if (!big_enough(args, sizeof(MemoryAllocateArgs))) {
      return too_small("DeviceMemory_Allocate", sizeof(MemoryAllocateArgs));
    }
    if (Error* refusal = need_device(args->context, "DeviceMemory_Allocate")) return refusal;
    const size_t alignment = args->alignment;
    if (alignment > kAlignment || (alignment & (alignment - 1)) != 0) {
      return error(MYDEV_INVALID_ARGUMENT, "an alignment of " + std::to_string(alignment) +
                                               "; give a power of two up to " + std::to_string(kAlignment));
    }
    if (args->size > (size_t{1} << 62)) {
      return error(MYDEV_RESOURCE_EXHAUSTED, std::to_string(args->size) + " bytes are more than any device has");
    }
    ExecutionContext& context = *args->context;
    Block* block = allocate_while_running(context.device, context.stream, args->size);
    const std::lock_guard lock(context.mutex);
    context.allocations.push_back(block);
    context.used.store(true, std::memory_order_relaxed);
    args->data = block->data;
    return nullptr;
  });
}

Error* memory_free(MemoryFreeArgs* args) {
  return guarded([&]() -> Error* {
    if (!big_enough(args, sizeof(MemoryFreeArgs))) return too_small("DeviceMemory_Free", sizeof(MemoryFreeArgs));
    if (Error* refusal = need_device(args->context, "DeviceMemory_Free")) return refusal;
    Block* block = nullptr;
    {
      const std::lock_guard lock(args->context->mutex);
      std::vector<Block*>& blocks = args->context->allocations;
      const auto position =
          std::find_if(blocks.begin(), blocks.end(), [&](const Block* b) { return b->data == args->data; });
      if (position == blocks.end()) {
        return error(MYDEV_INVALID_ARGUMENT, "the memory was not allocated by DeviceMemory_Allocate in this call");
      }
      block = *position;
      blocks.erase(position);
    }
    release(*block);
    return nullptr;
  });
}

// --- threads ---------------------------------------------------------------------------------------------------------

Error* thread_pool_schedule(ThreadPoolScheduleArgs* args) {
  return guarded([&]() -> Error* {
    if (!big_enough(args, sizeof(ThreadPoolScheduleArgs))) {
      return too_small("ThreadPool_Schedule", sizeof(ThreadPoolScheduleArgs));
    }
    if (args->context == nullptr || args->context->pool == nullptr || args->task == nullptr) {
      return error(MYDEV_INVALID_ARGUMENT, "the context or the task is NULL");
    }
    args->context->scheduled.store(true, std::memory_order_relaxed);
    args->context->pool->schedule(args->task, args->data);
    return nullptr;
  });
}

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

// Of 0.1, where thread_pool_num_threads was put in between without a new version: of the functions after it nobody can
// tell which one a handler means.
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
  api.struct_size = minor >= 4 ? sizeof(Api) : kApiSize3;
  api.api_version = {sizeof(ApiVersion), nullptr, kMajor, minor};
  api.error_create = error_create;
  api.error_get_message = error_get_message;
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
  api.error_get_code = minor >= 4 ? error_get_code : nullptr;
  return api;
}

constexpr std::array kTables = {make_table(1), make_table(2), make_table(3), make_table(4)};
static_assert(kTables.size() == kMaxMinor);

}  // namespace

void ExecutionContext::release_all() noexcept {
  for (State& state : states) state.reset();
  for (Block* block : allocations) release(*block);
  allocations.clear();
  used.store(false, std::memory_order_relaxed);
}

const Api& api_table(int minor) noexcept {
  return kTables[static_cast<size_t>(std::clamp(minor, kMinMinor, kMaxMinor) - 1)];
}

}  // namespace mydev::ffi
