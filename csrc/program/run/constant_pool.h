// The constants of a program and of the programs that it calls, as one piece of memory. It has each program's constants
// once, however often the program is called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "program/ir/program.h"

namespace mydev::program {

class ConstantPool {
 public:
  // `device`: which of the devices that run the program at the same time.
  ConstantPool(uint64_t alignment, uint32_t device) : alignment_(alignment), device_(device) {}

  void add(const Program& program);
  uint64_t offset_of(const Program& program, SlotIndex slot) const { return offsets_.at({&program, slot}); }
  std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  uint64_t alignment_;
  uint32_t device_;
  std::vector<std::byte> bytes_;
  std::map<std::pair<const Program*, SlotIndex>, uint64_t> offsets_;
};

}  // namespace mydev::program
