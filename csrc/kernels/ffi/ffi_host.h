// The host's side of XLA's typed FFI: the bodies of its opaque types, and the table of functions that handlers call.
//
// Errors belong to whoever received them last. A context lives for one call of a handler's stages; what it owns (states
// of the call, device memory that the handler did not free) goes with it. Types are registered once per process. All
// functions are thread-safe; those of one context may be called from the threads of its call.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/ffi/ffi_abi.h"
#include "kernels/ffi/ffi_thread_pool.h"
#include "mydev/custom_call.h"
#include "runtime/base/api.h"
#include "runtime/memory/caching_allocator.h"

namespace mydev::ffi {

struct Error {
  mydev_code code;
  std::string message;
};

// An object that a stage left for later ones.
struct State {
  int64_t type = 0;  // 0: none
  void* object = nullptr;
  void (*deleter)(void* object) = nullptr;

  State() = default;
  ~State() { reset(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  void reset() noexcept {
    if (type != 0 && deleter != nullptr) deleter(object);
    type = 0;
  }
};

struct ExecutionContext {
  ExecutionContext() = default;
  ~ExecutionContext() { finish(); }
  ExecutionContext(const ExecutionContext&) = delete;
  ExecutionContext& operator=(const ExecutionContext&) = delete;

  // Ends a call: gives back what it owns.
  void finish() noexcept {
    if (used.load(std::memory_order_relaxed)) release_all();
  }
  void release_all() noexcept;

  int32_t stage = kExecute;
  int32_t device = -1;  // -1: none, while instantiating
  mydev_stream stream = nullptr;
  State* instance = nullptr;           // the state that instantiate left, or is to leave
  TaskPool* pool = nullptr;            // nullptr: only during the handshake
  std::atomic<bool> used{false};       // there is something to give back
  std::atomic<bool> scheduled{false};  // the handler used the thread pool
  std::atomic<int64_t> run_id{0};      // given when first asked for
  std::array<State, kNumStages> states;
  std::mutex mutex;                 // guards the next
  std::vector<Block*> allocations;  // device memory
};

// The table for handlers of version 0.minor, 1 <= minor <= kMaxMinor.
MYDEV_API const Api& api_table(int minor) noexcept;

// Registers a type id of this process. A type_id of 0 is given a new one, another is taken as it is. Returns nullptr,
// or the error.
MYDEV_API std::unique_ptr<Error> register_type(std::string_view name, TypeId& type_id, const TypeInfo* info);
// Sets the data that ExecutionContext_Get gives for this type in every call from now on; nullptr removes it.
MYDEV_API void set_user_data(TypeId type_id, void* data);

}  // namespace mydev::ffi
