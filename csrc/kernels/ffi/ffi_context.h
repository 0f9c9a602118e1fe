// The functions that handlers call with the context of a call: what it runs on, its states, its memory, its tasks.
//
// Each returns nullptr, or an error, which then belongs to the handler. If a function's name ends in a number n,
// handlers give it these arguments since version 0.n of XLA's FFI.
#pragma once

#include "kernels/ffi/ffi_abi.h"

namespace mydev::ffi {

Error* stream_get(StreamGetArgs* args);
Error* device_ordinal_get(DeviceOrdinalGetArgs* args);
Error* run_id_get(RunIdGetArgs* args);
Error* context_get(ContextGetArgs* args);
Error* find_extension(FindExtensionArgs* args);
Error* custom_options_get(CustomOptionsGetArgs* args);

Error* state_set_1(void* args);
Error* state_set_2(void* args);
Error* state_set_3(void* args);
Error* state_get_2(void* args);
Error* state_get_3(void* args);

Error* memory_allocate(MemoryAllocateArgs* args);
Error* memory_free(MemoryFreeArgs* args);

Error* thread_pool_schedule(ThreadPoolScheduleArgs* args);

}  // namespace mydev::ffi
