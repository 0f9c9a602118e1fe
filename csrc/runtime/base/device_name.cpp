#include "runtime/base/device_name.h"

#include <atomic>

namespace mydev {

namespace {

// Set once, and never destroyed: messages name the device until the process is gone.
std::atomic<const std::string*> chosen{nullptr};

}  // namespace

const char* device_name() noexcept {
  const std::string* name = chosen.load(std::memory_order_acquire);
  return name != nullptr ? name->c_str() : "mydev";
}

std::string device_text(int index) {
  return std::string(device_name()) + ":" + std::to_string(index);
}

bool set_device_name(const std::string& name) {
  const auto* own = new std::string(name);
  const std::string* before = nullptr;
  if (chosen.compare_exchange_strong(before, own, std::memory_order_acq_rel)) return true;
  delete own;
  return *before == name;
}

}  // namespace mydev
