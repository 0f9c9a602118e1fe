// The registers of the machine code of a SmallProgram, and what they hold while code is written (small_code.cpp).
//
// Each result is stored at once, and stays in a register as well, until that is needed or something else is written
// there. No register holds anything where control flow joins, and behind calls.
#pragma once

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "host_kernels/fused/assembler.h"
#include "host_kernels/fused/small_program.h"

namespace mydev::kernels {

class SmallProgram::Registers {
 protected:
  static constexpr uint8_t kCount = 14;                     // that hold values
  static constexpr uint8_t kScratch0 = 14, kScratch1 = 15;  // for instructions between
  // General registers of the whole code; kRax and kRcx are for instructions between.
  static constexpr Register kConstants = kRbp, kMemory = kRbx, kPointerTable = kR12, kProgram = kR13, kRun = kR14,
                            kBindingTable = kR15;
  // Instructions that are used everywhere.
  static constexpr VectorOp kXor{1, 1, 0xEF}, kOr{1, 1, 0xEB}, kEqual{1, 1, 0x76}, kGreater{1, 1, 0x66},
      kWiden{1, 2, 0x25};

  // A register that holds bytes of a binding. `truth`: as bits that are all equal, of as many bytes.
  struct Held {
    uint8_t reg;
    bool truth;
    size_t binding;
    int64_t offset, bytes;
    int width;
  };

  explicit Registers(const SmallProgram& program) : program_(program), is_shared_(program.bindings_.size()) {
    for (size_t i = 0; i < is_shared_.size(); ++i) {
      const Binding& binding = program.bindings_[i];
      if (binding.kind == Binding::kBuffer || binding.kind == Binding::kMoving) is_shared_[i] = true;
      if (binding.kind == Binding::kMoving) is_shared_[binding.base] = true;
    }
  }

  int32_t signed32(int64_t value) {
    fits_ = fits_ && value == static_cast<int32_t>(value);
    return static_cast<int32_t>(value);
  }

  Address address_of(size_t index, int64_t offset) {
    const Pointer& pointer = program_.pointers_[index];
    const Binding& binding = program_.bindings_[pointer.binding];
    if (binding.kind == Binding::kScratch) return {kMemory, signed32(binding.offset + pointer.offset + offset)};
    if (binding.kind == Binding::kConstant) return {kConstants, signed32(binding.offset + pointer.offset + offset)};
    return {base_of(pointer.binding), signed32(pointer.offset + offset)};
  }

  void forget() {
    held_.clear();
    loaded_.fill(kNoPointer);
  }

  uint8_t new_register() {
    uint8_t oldest = kCount;
    for (uint8_t reg = 0; reg < kCount; ++reg) {
      if ((pinned_ >> reg & 1) == 0 && (oldest == kCount || used_[reg] < used_[oldest])) oldest = reg;
    }
    std::erase_if(held_, [&](const Held& held) { return held.reg == oldest; });
    return pin(oldest);
  }

  // The step that is being written uses the register.
  uint8_t pin(uint8_t reg) {
    pinned_ |= 1U << reg;
    used_[reg] = ++clock_;
    return reg;
  }

  const Held* find(size_t pointer, int64_t offset, int64_t bytes, bool truth) const {
    const Pointer& at = program_.pointers_[pointer];
    for (const Held& held : held_) {
      if (held.binding == at.binding && held.offset == at.offset + offset && held.bytes == bytes &&
          held.truth == truth) {
        return &held;
      }
    }
    return nullptr;
  }

  // Forgets what has been written over.
  void overwritten(size_t pointer, int64_t offset, int64_t bytes) {
    const Pointer& at = program_.pointers_[pointer];
    const int64_t begin = at.offset + offset, end = begin + bytes;
    std::erase_if(held_, [&](const Held& held) {
      if (held.binding != at.binding) return is_shared_[at.binding] && is_shared_[held.binding];
      return held.offset < end && held.offset + held.bytes > begin;
    });
  }

  // Notes that the register holds what has just been read or written there.
  void hold(uint8_t reg, size_t pointer, int64_t offset, int64_t bytes, bool truth = false, int width = 0) {
    const Pointer& at = program_.pointers_[pointer];
    held_.push_back({reg, truth, at.binding, at.offset + offset, bytes, width});
  }

  static VectorOp move_op(int64_t bytes, bool stores) {
    const uint8_t prefix = bytes == 4 ? 2 : bytes == 8 ? 3 : 0;
    return {prefix, 1, static_cast<uint8_t>(stores ? 0x11 : 0x10), bytes == 32};
  }

  uint8_t load(size_t pointer, int64_t offset, int64_t bytes) {
    if (const Held* held = find(pointer, offset, bytes, false)) return pin(held->reg);
    const uint8_t reg = new_register();
    to_.vector(move_op(bytes, false), reg, 0, address_of(pointer, offset));
    hold(reg, pointer, offset, bytes);
    return reg;
  }

  void store(size_t pointer, int64_t offset, int64_t bytes, uint8_t reg) {
    to_.vector(move_op(bytes, true), reg, 0, address_of(pointer, offset));
    overwritten(pointer, offset, bytes);
    hold(reg, pointer, offset, bytes);
  }

  // A truth as bits of `width` bytes.
  uint8_t load_truth(size_t pointer, int64_t offset, int width) {
    if (const Held* held = find(pointer, offset, 1, true)) {
      pin(held->reg);
      if (held->width >= width) return held->reg;
      to_.vector(kWiden, kScratch0, 0, held->reg);
      return kScratch0;
    }
    const uint8_t reg = new_register();
    to_.load_byte(kRax, address_of(pointer, offset));
    to_.vector({1, 1, 0x6E}, reg, 0, kRax);
    to_.vector(kXor, kScratch0, kScratch0, kScratch0);
    to_.vector(kGreater, reg, reg, kScratch0);
    if (width == 8) to_.vector(kWiden, reg, 0, reg);
    hold(reg, pointer, offset, 1, true, width);
    return reg;
  }

  void store_truth(size_t pointer, int64_t offset, uint8_t reg, int width) {
    to_.vector({1, 1, 0x7E}, reg, 0, kRcx);
    to_.bytes({0x83, 0xE1, 0x01});  // and ecx, 1
    to_.memory(false, 0x88, kRcx, address_of(pointer, offset));
    overwritten(pointer, offset, 1);
    hold(reg, pointer, offset, 1, true, width);
  }

  // Returns a vector that has only this value.
  uint8_t broadcast(uint8_t one, int64_t width) {
    const uint8_t many = new_register();
    to_.vector({1, 2, static_cast<uint8_t>(width == 8 ? 0x19 : 0x18), true}, many, 0, one);
    return many;
  }

  static constexpr Register kBaseRegisters[] = {kRdx, kRsi, kRdi, kR8, kR9, kR10, kR11};

  const SmallProgram& program_;
  Assembler to_;
  std::vector<Held> held_;
  std::array<size_t, std::size(kBaseRegisters)> loaded_{};  // the binding whose address each has
  uint32_t pinned_ = 0;                                     // registers of the step that is being written
  bool fits_ = true;                                        // the program has only numbers that instructions hold

 private:
  // A register that has the address of the binding.
  Register base_of(size_t binding) {
    const auto found = std::ranges::find(loaded_, binding);
    if (found != loaded_.end()) return kBaseRegisters[static_cast<size_t>(found - loaded_.begin())];
    next_base_ = (next_base_ + 1) % loaded_.size();
    loaded_[next_base_] = binding;
    const Register reg = kBaseRegisters[next_base_];
    to_.load(reg, {kBindingTable, signed32(static_cast<int64_t>(binding * sizeof(void*)))});
    return reg;
  }

  std::vector<bool> is_shared_;  // of the bindings: the memory may be that of another one
  size_t next_base_ = 0;
  std::array<uint64_t, kCount> used_{};  // when
  uint64_t clock_ = 0;
};

}  // namespace mydev::kernels
