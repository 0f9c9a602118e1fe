// The record that the runtime keeps for each thread: the current device, the current stream of each device, a launch
// counter.
//
// Read on every launch and allocation, so both variables are constant-initialized and trivially destructible: reading
// one is one instruction. A thread's record is made at its first use and freed when the thread ends; before and after,
// thread_state points to a shared record that no one writes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "runtime/base/api.h"

// For the few thread-local words that hot paths read: static thread-local storage, so that a read is one instruction.
// Use it for no more than these, since all libraries that are loaded late share 512 bytes of it. It is no compiler flag
// either: that would reach libstdc++'s own thread-local variables (std::call_once), which are not static in a process
// that loaded libstdc++ late.
#define MYDEV_STATIC_TLS [[gnu::tls_model("initial-exec")]]

namespace mydev {

inline constexpr int kMaxDevices = 64;

class Stream;

namespace detail {

struct ThreadState {
  bool registered = false;                             // false: the shared record
  std::atomic<uint64_t> launches{0};                   // written by the owning thread alone
  std::array<Stream*, kMaxDevices> current_streams{};  // nullptr: not looked up yet
};

MYDEV_API MYDEV_STATIC_TLS extern constinit thread_local ThreadState* thread_state;
MYDEV_API MYDEV_STATIC_TLS extern constinit thread_local int current_device_index;

// The calling thread's own record, made if need be; nullptr when the thread is past its end.
ThreadState* register_thread();
// For launches that have no thread record to be counted in.
void count_unregistered_launch() noexcept;
// Launches of all threads, past ones included.
MYDEV_API uint64_t total_launches() noexcept;
// Clears the current streams of the calling thread: for a forked child.
void forget_current_streams() noexcept;

}  // namespace detail
}  // namespace mydev
