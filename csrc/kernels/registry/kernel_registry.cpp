#include "kernels/registry/kernel_registry.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "kernels/language/kernel_language.h"
#include "kernels/registry/builtin_library.h"
#include "kernels/registry/description.h"
#include "kernels/registry/kernel_library.h"
#include "kernels/registry/registered_kernel.h"
#include "kernels/spec/struct_copy.h"
#include "runtime/base/status.h"
#include "runtime/command/launch.h"
#include "runtime/command/launch_errors.h"
#include "runtime/driver/kernel_module.h"

namespace mydev {

namespace {

const KernelOrigin& builtin_origin() {
  static const KernelOrigin& origin = *new KernelOrigin{"", "built-in"};
  return origin;
}

class KernelRegistry {
 public:
  // Never destroyed: kernels may be launched while the process exits.
  static KernelRegistry& instance() {
    static KernelRegistry& registry = *new KernelRegistry;
    return registry;
  }

  bool has_builtins() const noexcept { return has_builtins_.load(std::memory_order_acquire); }

  // Adds them once; later calls do nothing. No other record has such a name: whoever registers one waits for these.
  void add_builtins(std::span<const mydev_kernel* const> kernels) {
    const std::unique_lock lock(mutex_);
    if (has_builtins()) return;
    for (const mydev_kernel* kernel : kernels) by_name_.emplace(kernel->name, Entry{kernel, &builtin_origin()});
    has_builtins_.store(true, std::memory_order_release);  // for readers that then look by_name_ up, under the lock
    generation_.fetch_add(1, std::memory_order_release);
  }

  const mydev_kernel* add(std::vector<std::unique_ptr<RegisteredKernel>> copies, const KernelOrigin& origin,
                          bool replace) {
    const std::unique_lock lock(mutex_);
    std::map<std::string_view, const RegisteredKernel*> together;
    for (const auto& copy : copies) {
      check_free(*copy, replace);
      const auto [other, first_of_name] = together.try_emplace(copy->name, copy.get());
      MYDEV_CHECK(first_of_name || same_record(*other->second, *copy), MYDEV_ALREADY_EXISTS, origin_text(copy->origin),
                  " has two kernels named '", copy->name, "'");
    }
    if (replace) {
      std::erase_if(by_name_, [&](const auto& item) { return item.second.origin->file == origin.file; });
    }
    const mydev_kernel* first = nullptr;
    for (auto& copy : copies) {
      // If the name is there already, its record is the same one, and stays.
      const auto [position, inserted] = by_name_.try_emplace(copy->name, Entry{copy.get(), &copy->origin});
      if (inserted) copies_.push_back(std::move(copy));
      if (first == nullptr) first = position->second.kernel;
    }
    generation_.fetch_add(1, std::memory_order_release);
    return first;
  }

  void remove(std::string_view name) {
    const std::unique_lock lock(mutex_);
    const auto position = by_name_.find(name);
    MYDEV_CHECK(position != by_name_.end(), MYDEV_NOT_FOUND, "no kernel '", name, "' is registered");
    MYDEV_CHECK(position->second.origin != &builtin_origin(), MYDEV_FAILED_PRECONDITION, "kernel '", name,
                "' is built in; only users' kernels can be taken out");
    by_name_.erase(position);
    generation_.fetch_add(1, std::memory_order_release);
  }

  const mydev_kernel* find(std::string_view name) const {
    const std::shared_lock lock(mutex_);
    const auto position = by_name_.find(name);
    return position == by_name_.end() ? nullptr : position->second.kernel;
  }

  // nullptr if there is no such kernel. Never freed.
  const KernelOrigin* origin(std::string_view name) const {
    const std::shared_lock lock(mutex_);
    const auto position = by_name_.find(name);
    return position == by_name_.end() ? nullptr : position->second.origin;
  }

  // Raises NOT_FOUND.
  std::pair<const mydev_kernel*, KernelOrigin> get(std::string_view name) const {
    const std::shared_lock lock(mutex_);
    const auto position = by_name_.find(name);
    MYDEV_CHECK(position != by_name_.end(), MYDEV_NOT_FOUND, "no kernel '", name, "' is registered");
    return {position->second.kernel, *position->second.origin};
  }

  std::vector<const mydev_kernel*> all() const {
    const std::shared_lock lock(mutex_);
    std::vector<const mydev_kernel*> kernels;
    kernels.reserve(by_name_.size());
    for (const auto& [name, entry] : by_name_) kernels.push_back(entry.kernel);
    return kernels;
  }

  std::vector<const mydev_kernel*> registered() const {
    const std::shared_lock lock(mutex_);
    std::vector<const mydev_kernel*> kernels;
    for (const auto& [name, entry] : by_name_) {
      if (entry.origin != &builtin_origin()) kernels.push_back(entry.kernel);
    }
    return kernels;
  }

  std::vector<std::string> names_of(const std::string& file) const {
    const std::shared_lock lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, entry] : by_name_) {
      if (entry.origin->file == file) names.push_back(name);
    }
    return names;
  }

  uint64_t generation() const noexcept { return generation_.load(std::memory_order_acquire); }

 private:
  struct Entry {
    const mydev_kernel* kernel;
    const KernelOrigin* origin;
  };

  KernelRegistry() = default;

  void check_free(const RegisteredKernel& copy, bool replace) const {
    const auto position = by_name_.find(std::string_view(copy.name));
    if (position == by_name_.end()) return;
    const auto& [kernel, origin] = position->second;
    if (replace && origin->file == copy.origin.file) return;
    const bool same = origin != &builtin_origin() && same_record(*kernel, copy);
    MYDEV_CHECK(same, MYDEV_ALREADY_EXISTS, "a kernel named '", copy.name, "' is registered already, by ",
                origin_text(*origin), "; that of ", origin_text(copy.origin), " is refused: choose another name");
  }

  mutable std::shared_mutex mutex_;
  std::map<std::string, Entry, std::less<>> by_name_;
  std::vector<std::unique_ptr<RegisteredKernel>> copies_;  // all that were ever registered
  std::atomic<uint64_t> generation_{0};
  std::atomic<bool> has_builtins_{false};
};

KernelRegistry& registry_with_builtins() {
  KernelRegistry& registry = KernelRegistry::instance();
  if (!registry.has_builtins()) registry.add_builtins(load_builtin_kernels());
  return registry;
}

// Returns the registry, with the built-in kernels if the name may be that of one.
KernelRegistry& registry_for(std::string_view name) {
  return is_builtin_name(name) ? registry_with_builtins() : KernelRegistry::instance();
}

// A number of the width that handlers are given if the caller says none.
bool has_default_width(const mydev_attribute& attribute) {
  const bool number = attribute.kind == MYDEV_ATTRIBUTE_INT || attribute.kind == MYDEV_ATTRIBUTE_FLOAT;
  return number && (attribute.dtype == 0 || attribute.dtype == MYDEV_S64 || attribute.dtype == MYDEV_F64);
}

std::optional<std::string> explain_failure(const mydev_kernel& kernel, const mydev_frame& frame, mydev_code code) {
  const KernelOrigin* origin = KernelRegistry::instance().origin(kernel.name);
  // A driver's own record for a built-in kernel may fail without the built-in one having been loaded.
  const bool builtin = origin == &builtin_origin() || (origin == nullptr && is_builtin_name(kernel.name));
  if (builtin || is_compiled_kernel(kernel)) return std::nullopt;
  std::string text = std::string("kernel '") + kernel.name + "'" +
                     (origin == nullptr ? ", unregistered by now" : " of " + origin_text(*origin));
  const bool typed = kernel.kind == MYDEV_KIND_TYPED_FFI && kernel.signature == nullptr;
  if (typed && code == MYDEV_INVALID_ARGUMENT &&
      std::any_of(frame.attributes, frame.attributes + frame.num_attributes, has_default_width)) {
    text += "\nattributes: a Python float is given as f64 and an int as s64; np.float32(x) gives f32, np.int32(x) s32";
  }
  return text;
}

[[maybe_unused]] const bool installed = [] {
  set_failure_explainer(&explain_failure);
  return true;
}();

const mydev_kernel* register_copies(std::span<const mydev_kernel* const> kernels, const KernelOrigin& origin,
                                    bool replace) {
  std::vector<std::unique_ptr<RegisteredKernel>> copies;
  copies.reserve(kernels.size());
  for (const mydev_kernel* kernel : kernels) copies.push_back(std::make_unique<RegisteredKernel>(*kernel, origin));
  // The built-in kernels must be there before a name of theirs is taken.
  for (const auto& copy : copies) registry_for(copy->name);
  return KernelRegistry::instance().add(std::move(copies), origin, replace);
}

}  // namespace

const mydev_kernel* register_kernel(const mydev_kernel& kernel, const KernelOrigin& origin) {
  const mydev_kernel* one = &kernel;
  return register_copies({&one, 1}, origin, false);
}

void register_kernel(const mydev_kernel& kernel) {
  register_kernel(kernel, {"", "this process"});
}

void register_kernels(std::span<const mydev_kernel* const> kernels, const KernelOrigin& origin, bool replace) {
  register_copies(kernels, origin, replace);
}

void unregister_kernel(std::string_view name) {
  registry_for(name).remove(name);
}

const mydev_kernel* find_kernel(std::string_view name) {
  const mydev_kernel* kernel = registry_for(name).find(name);
  if (kernel != nullptr || is_builtin_name(name)) return kernel;
  return load_discovered_libraries(std::string(name).c_str()) ? KernelRegistry::instance().find(name) : nullptr;
}

namespace {

const std::map<std::string_view, const mydev_kernel*>& portable_kernels() {
  static const auto& all = *new std::map<std::string_view, const mydev_kernel*>([] {
    std::map<std::string_view, const mydev_kernel*> by_name;
    for (const mydev_kernel* kernel : load_portable_kernels()) by_name.emplace(kernel->name, kernel);
    return by_name;
  }());
  return all;
}

}  // namespace

const mydev_kernel* find_portable_kernel(const Device& device, std::string_view name) {
  if (device.host_computes() || !is_builtin_name(name) || kernel_language(device) == nullptr) return nullptr;
  const auto found = portable_kernels().find(name);
  return found == portable_kernels().end() ? nullptr : found->second;
}

namespace {

const mydev_kernel* find_drivers_own(const Device& device, const char* name) {
  const auto find_own = device.driver->find_kernel;
  return find_own != nullptr ? find_own(device.index, name) : nullptr;
}

const Launchable* resolve(const Device& device, const char* name, bool stages_builtins) {
  // The library of the built-in kernels is loaded for those who can use it.
  const bool may_load = device.host_computes() || stages_builtins || !is_builtin_name(name);
  NamedRecords records{.own = find_drivers_own(device, name),
                       .portable = find_portable_kernel(device, name),
                       .registered = may_load ? find_kernel(name) : KernelRegistry::instance().find(name)};
  if (records.registered != nullptr) records.registered_owner = origin_text(kernel_origin(name));
  return find_launchable(device, name, records, stages_builtins);
}

}  // namespace

const Launchable* resolve_kernel(const Device& device, const char* name) {
  return resolve(device, name, /*stages_builtins=*/false);
}

const Launchable* resolve_step(const Device& device, const char* name) {
  return resolve(device, name, /*stages_builtins=*/true);
}

const Launchable* resolve_drivers_kernel(const Device& device, const char* name) {
  return find_launchable(device, name, {.own = find_drivers_own(device, name)});
}

std::vector<const mydev_kernel*> all_kernels() {
  return registry_with_builtins().all();
}

std::vector<const mydev_kernel*> drivers_kernels(const Device& device) {
  if (device.driver->list_kernels == nullptr) return {};
  const mydev_kernel* const* listed = nullptr;
  check_driver(device, device.driver->list_kernels(device.index, &listed), "asking for the driver's kernels");
  std::vector<const mydev_kernel*> kernels;
  for (; listed != nullptr && *listed != nullptr; ++listed) {
    const char* name = (*listed)->name;
    MYDEV_CHECK(name != nullptr && find_drivers_own(device, name) == *listed, MYDEV_INVALID_ARGUMENT, "driver '",
                device.driver->name, "' lists a kernel '", name != nullptr ? name : "(null)",
                "', and its find_kernel gives another record, or none, for that name");
    kernels.push_back(*listed);
  }
  std::ranges::sort(kernels, {}, [](const mydev_kernel* kernel) { return std::string_view(kernel->name); });
  return kernels;
}

std::vector<const mydev_kernel*> registered_kernels() {
  return KernelRegistry::instance().registered();
}

std::vector<std::string> kernel_names_of(const std::string& file) {
  return KernelRegistry::instance().names_of(file);
}

std::string origin_text(const KernelOrigin& origin) {
  return origin.file.empty() ? origin.library : origin.library + " (" + origin.file + ")";
}

KernelOrigin kernel_origin(std::string_view name) {
  return registry_for(name).get(name).second;
}

Description describe_kernel(std::string_view name) {
  const auto [kernel, origin] = registry_for(name).get(name);
  Description::Dictionary described = describe_record(*kernel);
  described.push_back({"library", {origin.library}});
  described.push_back({"file", origin.file.empty() ? Description{} : Description{origin.file}});
  return {std::move(described)};
}

Description describe_drivers_kernel(const Device& device, const mydev_kernel& kernel) {
  const KernelCandidate& candidate = resolve_drivers_kernel(device, kernel.name)->candidates.front();
  mydev_kernel full = copy_struct(&kernel, MYDEV_END_OF(mydev_kernel, driver_data), candidate.owner.c_str());
  full.platform = device.driver->name;
  full.kind = MYDEV_KIND_FRAME;
  full.gradient = nullptr;  // which are for users' kernels, as is batching
  full.batching = MYDEV_BATCHING_NONE;
  std::optional<CompiledSignature> compiled;
  if (full.signature != nullptr) full.signature = &compiled.emplace(full);
  Description::Dictionary described = describe_record(full);
  described.push_back({"library", {candidate.owner}});
  described.push_back({"file", {}});
  described.push_back({"limits", describe_limits(candidate)});
  return {std::move(described)};
}

uint64_t registry_generation() noexcept {
  return KernelRegistry::instance().generation();
}

}  // namespace mydev
