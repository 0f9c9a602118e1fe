#include "runtime/base/status.h"

#include <array>
#include <atomic>
#include <utility>

#include "runtime/base/utf8.h"

namespace mydev {

namespace {

constexpr std::array<const char*, 17> kCodeNames = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

std::atomic<Raiser> installed_raiser{nullptr};
thread_local constinit bool raiser_bypassed = false;

}  // namespace

const char* code_name(mydev_code code) noexcept {
  const auto index = static_cast<size_t>(code);
  return index < kCodeNames.size() ? kCodeNames[index] : "UNKNOWN";
}

void raise(mydev_code given_code, const std::string& given, ErrorOwner owner) {
  // A vendor's function can return any number, and an Error that held one beyond the enum could not be copied.
  const mydev_code code = static_cast<size_t>(given_code) < kCodeNames.size() ? given_code : MYDEV_UNKNOWN;
  const std::string message = to_utf8(given);
  if (const Raiser raiser = installed_raiser.load(std::memory_order_acquire); raiser != nullptr && !raiser_bypassed) {
    raiser(code, message, owner);
  }
  throw Error(code, message);
}

RaiserBypass::RaiserBypass() noexcept : outer_(std::exchange(raiser_bypassed, true)) {}

RaiserBypass::~RaiserBypass() {
  raiser_bypassed = outer_;
}

void set_raiser(Raiser raiser) noexcept {
  installed_raiser.store(raiser, std::memory_order_release);
}

}  // namespace mydev
