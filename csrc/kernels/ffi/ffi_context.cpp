#include "kernels/ffi/ffi_context.h"

#include <algorithm>

#include "kernels/ffi/ffi_attributes.h"
#include "kernels/ffi/ffi_guard.h"
#include "kernels/ffi/ffi_types.h"
#include "runtime/memory/workspace.h"

namespace mydev::ffi {

// --- the call's context ----------------------------------------------------------------------------------------------

namespace {

// nullptr, or why a function that needs a device cannot work.
Error* need_device(const ExecutionContext* context, const char* what) {
  if (context == nullptr) return error(MYDEV_INVALID_ARGUMENT, std::string(what) + ": the context is NULL");
  if (context->device >= 0) return nullptr;
  return error(MYDEV_FAILED_PRECONDITION, std::string(what) + ": there is no device while a handler is instantiated");
}

}  // namespace

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

// Extensions are of XLA's runtimes for particular devices: collectives, recorded commands. This host adds none.
Error* find_extension(FindExtensionArgs* args) {
  return guarded([&]() -> Error* {
    if (!big_enough(args, sizeof(FindExtensionArgs))) {
      return too_small("InvokeContext_FindExtension", sizeof(FindExtensionArgs));
    }
    args->extension = nullptr;
    return nullptr;
  });
}

// A call has no options beside its attributes.
Error* custom_options_get(CustomOptionsGetArgs* args) {
  return guarded([&]() -> Error* {
    if (!big_enough(args, sizeof(CustomOptionsGetArgs))) {
      return too_small("CustomOptions_Get", sizeof(CustomOptionsGetArgs));
    }
    args->options = &kNoAttributes;
    return nullptr;
  });
}

// --- states ----------------------------------------------------------------------------------------------------------

namespace {

// Returns the slot in which a stage keeps its state; nullptr if the stage has none.
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

}  // namespace

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

namespace {

constexpr size_t kAlignment = 64;  // the least that a device gives

}  // namespace

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

// --- tasks -----------------------------------------------------------------------------------------------------------

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

// --- the end of a call -----------------------------------------------------------------------------------------------

void ExecutionContext::release_all() noexcept {
  for (State& state : states) state.reset();
  for (Block* block : allocations) release(*block);
  allocations.clear();
  used.store(false, std::memory_order_relaxed);
}

}  // namespace mydev::ffi
