#include "kernels/kernel_registry.h"

#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "kernels/builtin_kernels.h"
#include "kernels/instruction_set.h"
#include "runtime/status.h"

namespace mydev {

namespace {

constexpr size_t kMaxNameLength = 128;

bool valid_name(std::string_view name) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-";
  return !name.empty() && name.size() <= kMaxNameLength && name.find_first_not_of(kAllowed) == std::string_view::npos;
}

class KernelRegistry {
 public:
  // Never destroyed: kernels may be launched while the process exits.
  static KernelRegistry& instance() {
    static KernelRegistry& registry = *new KernelRegistry;
    return registry;
  }

  void add(const mydev_kernel& kernel) {
    MYDEV_CHECK(kernel.name != nullptr && valid_name(kernel.name), MYDEV_INVALID_ARGUMENT, "bad kernel name '",
                kernel.name == nullptr ? "(null)" : kernel.name, "': give 1 to ", kMaxNameLength,
                " letters, digits or any of _ . : -");
    const std::unique_lock lock(mutex_);
    const auto [position, inserted] = by_name_.emplace(kernel.name, &kernel);
    MYDEV_CHECK(inserted || position->second == &kernel, MYDEV_ALREADY_EXISTS, "a kernel named '", kernel.name,
                "' is registered already; choose another name");
  }

  const mydev_kernel* find(std::string_view name) const {
    const std::shared_lock lock(mutex_);
    const auto position = by_name_.find(name);
    return position == by_name_.end() ? nullptr : position->second;
  }

  std::vector<const mydev_kernel*> all() const {
    const std::shared_lock lock(mutex_);
    std::vector<const mydev_kernel*> kernels;
    kernels.reserve(by_name_.size());
    for (const auto& [name, kernel] : by_name_) kernels.push_back(kernel);
    return kernels;
  }

 private:
  KernelRegistry() {
    for (const mydev_kernel* kernel : kernels::builtin_kernels(instruction_set())) add(*kernel);
  }

  mutable std::shared_mutex mutex_;
  std::map<std::string, const mydev_kernel*, std::less<>> by_name_;
};

}  // namespace

void register_kernel(const mydev_kernel& kernel) {
  KernelRegistry::instance().add(kernel);
}

const mydev_kernel* find_kernel(std::string_view name) {
  return KernelRegistry::instance().find(name);
}

const mydev_kernel* resolve_kernel(const Device& device, const char* name) {
  if (device.driver->find_kernel != nullptr) {
    if (const mydev_kernel* own = device.driver->find_kernel(device.index, name)) return own;
  }
  return device.host_accessible() ? find_kernel(name) : nullptr;
}

std::vector<const mydev_kernel*> all_kernels() {
  return KernelRegistry::instance().all();
}

}  // namespace mydev
