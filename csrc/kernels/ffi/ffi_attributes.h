// Attributes as handlers see them: sorted by name, scalars in their declared width, dictionaries nested.
//
// They are built once per kernel and attributes, together with the state that the kernel's instantiate handler makes of
// them, and kept in a bounded cache: what was used last stays. Instances are shared, and go with their last user.
// Thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "kernels/ffi/ffi_abi.h"
#include "kernels/ffi/ffi_host.h"
#include "mydev/custom_call.h"
#include "runtime/base/api.h"
#include "runtime/frame/frame.h"

namespace mydev::ffi {

inline constexpr Attributes kNoAttributes = {sizeof(Attributes), nullptr, 0, nullptr, nullptr, nullptr};

// Does not move. Borrows names, strings and arrays.
class MYDEV_API AttributeTable {
 public:
  // Raises INVALID_ARGUMENT, naming the attribute: unknown kind, a value that its width cannot hold, two of one name,
  // nested too deeply.
  explicit AttributeTable(std::span<const mydev_attribute> attributes, int depth = 0);
  AttributeTable(const AttributeTable&) = delete;
  AttributeTable& operator=(const AttributeTable&) = delete;

  const Attributes& table() const noexcept { return table_; }

 private:
  struct Entry {
    ByteSpan name, string;
    Scalar scalar;
    Array array;
    alignas(16) std::byte value[16];  // of a scalar
    std::unique_ptr<AttributeTable> dictionary;
  };
  const void* fill(Entry& entry, const mydev_attribute& attribute, int32_t& type, int depth);

  std::vector<Entry> entries_;
  std::vector<int32_t> types_;
  std::vector<const ByteSpan*> names_;
  std::vector<const void*> values_;
  Attributes table_{};
};

// The same names, kinds and values, in the same order. `valid` are attributes of an instance, `given` may be anything.
bool same_attributes(std::span<const mydev_attribute> valid, std::span<const mydev_attribute> given) noexcept;

struct Instance {
  explicit Instance(std::span<const mydev_attribute> attributes);

  const OwnedFrame copy;  // owns the attributes
  const AttributeTable attributes;
  std::mutex mutex;  // guards the two below until `ready`
  std::atomic<bool> ready{false};
  State state;
};

class InstanceCache {
 public:
  static constexpr size_t kCapacity = 64;
  // Makes it if need be, and calls make_ready(instance) once for it; if that throws, the next user tries again.
  template <typename MakeReady>
  std::shared_ptr<Instance> get(std::span<const mydev_attribute> attributes, const MakeReady& make_ready) {
    std::shared_ptr<Instance> instance = find_or_make(attributes);
    if (!instance->ready.load(std::memory_order_acquire)) {
      const std::lock_guard lock(instance->mutex);
      if (!instance->ready.load(std::memory_order_relaxed)) {
        make_ready(*instance);
        instance->ready.store(true, std::memory_order_release);
      }
    }
    return instance;
  }
  size_t size();

 private:
  std::shared_ptr<Instance> find_or_make(std::span<const mydev_attribute> attributes);

  std::mutex mutex_;
  std::vector<std::shared_ptr<Instance>> instances_;  // last used first
};

}  // namespace mydev::ffi
