#include "runtime/base/source_location.h"

#include <atomic>

namespace mydev {

namespace {

std::atomic<SourceLocator> installed_locator{nullptr};

}  // namespace

void set_source_locator(SourceLocator locator) noexcept {
  installed_locator.store(locator, std::memory_order_release);
}

const char* source_location() noexcept {
  const SourceLocator locator = installed_locator.load(std::memory_order_acquire);
  return locator != nullptr ? locator() : "";
}

}  // namespace mydev
