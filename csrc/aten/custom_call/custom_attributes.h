// Attributes of a custom call: their values, and the memory behind them.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "mydev/custom_call.h"

namespace mydev {

// Raises INVALID_ARGUMENT unless an attribute of this width can hold the value.
void check_width(const mydev_kernel& kernel, const mydev_attribute& attribute, int64_t value);

// Holds attributes in the order in which they were added. Scalars need no memory of their own. Strings of IValues are
// borrowed.
class CustomAttributes {
 public:
  std::span<const mydev_attribute> values() const noexcept { return {values_.data(), values_.size()}; }

  // Adds the value that an operator is given for an attribute of its kernel's signature; None stands for the default.
  // Raises INVALID_ARGUMENT for an integer that the attribute's width cannot hold.
  void add(const mydev_kernel& kernel, const mydev_attribute_spec& spec, const c10::IValue& value);

  void add(const mydev_attribute& attribute) { values_.push_back(attribute); }
  // Memory that lives as long as this, 8-byte aligned.
  void* allocate(size_t bytes) {
    memory_.push_back(std::make_unique<uint64_t[]>(bytes / sizeof(uint64_t) + 1));
    return memory_.back().get();
  }
  // A copy of the text, with a NUL behind it.
  const char* keep(std::string_view text);

  mydev_attribute* begin() noexcept { return values_.begin(); }
  mydev_attribute* end() noexcept { return values_.end(); }
  const mydev_attribute* begin() const noexcept { return values_.begin(); }
  const mydev_attribute* end() const noexcept { return values_.end(); }
  size_t size() const noexcept { return values_.size(); }
  // Replaces the attributes by others, which refer to the same memory.
  void assign(c10::ArrayRef<mydev_attribute> values) { values_.assign(values.begin(), values.end()); }

 private:
  c10::SmallVector<mydev_attribute, 4> values_;
  std::vector<std::unique_ptr<uint64_t[]>> memory_;
};

}  // namespace mydev
