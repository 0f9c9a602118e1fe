#include "runtime/validation/finding.h"

#include <array>
#include <atomic>
#include <cstdio>

#include "runtime/base/log.h"

namespace mydev::validation {

namespace {

std::atomic<uint64_t> total{0};

// The runtime calls drivers at exit, when the main thread's message is gone already.
constinit thread_local bool thread_ended = false;
struct OwnError {
  bool set = false;
  std::string message;
  OwnError() = default;
  ~OwnError() { thread_ended = true; }
  OwnError(const OwnError&) = delete;
  OwnError& operator=(const OwnError&) = delete;
};
thread_local OwnError last;

}  // namespace

void report(const std::string& message) noexcept {
  count_finding();
  try {
    log(MYDEV_LOG_ERROR, ("validate: " + message).c_str());
  } catch (const std::bad_alloc&) {
    return;  // no memory for a message about it
  }
}

void count_finding() noexcept {
  total.fetch_add(1, std::memory_order_relaxed);
}

uint64_t findings() noexcept {
  return total.load(std::memory_order_relaxed);
}

mydev_code fail(mydev_code code, const char* entry, const char* message) noexcept {
  if (thread_ended) return code;
  try {
    last.message = text("validate: ", entry, ": ", message);
    last.set = true;
  } catch (const std::bad_alloc&) {
    last.set = false;
  }
  return code;
}

const char* own_error() noexcept {
  return !thread_ended && last.set ? last.message.c_str() : nullptr;
}

void forget_own_error() noexcept {
  if (!thread_ended) last.set = false;
}

mydev_code known_code(const char* entry, mydev_code code) noexcept {
  const auto number = static_cast<int>(code);
  if (number >= MYDEV_OK && number <= MYDEV_UNAUTHENTICATED) return code;
  count_finding();
  std::array<char, 128> message{};
  std::snprintf(message.data(), message.size(), "the driver returned %d, which is no mydev_code; return one of 0 to %d",
                number, static_cast<int>(MYDEV_UNAUTHENTICATED));
  return fail(MYDEV_FAILED_PRECONDITION, entry, message.data());
}

}  // namespace mydev::validation
