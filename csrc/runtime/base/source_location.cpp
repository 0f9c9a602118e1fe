#include "runtime/base/source_location.h"

#include <atomic>
#include <utility>

namespace mydev {

namespace {

std::atomic<SourceLocator> installed_locator{nullptr};
constinit thread_local const char* scoped_location = nullptr;

}  // namespace

void set_source_locator(SourceLocator locator) noexcept {
  installed_locator.store(locator, std::memory_order_release);
}

const char* source_location() noexcept {
  if (scoped_location != nullptr) return scoped_location;
  const SourceLocator locator = installed_locator.load(std::memory_order_acquire);
  return locator != nullptr ? locator() : "";
}

SourceLocationScope::SourceLocationScope(const char* text) noexcept : outer_(std::exchange(scoped_location, text)) {}

SourceLocationScope::~SourceLocationScope() {
  scoped_location = outer_;
}

}  // namespace mydev
