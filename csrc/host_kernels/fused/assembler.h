// Machine code for x86-64 with AVX2: an encoder of the few instructions that small_code.cpp needs, and memory that runs
// them. Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, has the encodings.
//
// Addresses are a register and 32 bits. Vector instructions have three operands; results may be operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

namespace mydev::kernels {

enum Register : uint8_t {
  kRax,
  kRcx,
  kRdx,
  kRbx,
  kRsp,
  kRbp,
  kRsi,
  kRdi,
  kR8,
  kR9,
  kR10,
  kR11,
  kR12,
  kR13,
  kR14,
  kR15
};

struct Address {
  Register base;
  int32_t offset;
};

// A vector instruction: its prefix (0: none, 1: 66, 2: F3, 3: F2), its map (1: 0F, 2: 0F38, 3: 0F3A) and its opcode.
// `full` vectors have 32 bytes, others 16 or fewer. `wide` is the bit W, for 64 bits where the opcode leaves that open.
struct VectorOp {
  uint8_t prefix, map, opcode;
  bool full = false, wide = false;
};

class Assembler {
 public:
  size_t size() const { return code_.size(); }
  std::span<const uint8_t> code() const { return code_; }
  void bytes(std::initializer_list<uint8_t> bytes) { code_.insert(code_.end(), bytes); }

  void vector(VectorOp op, uint8_t to, uint8_t first, uint8_t second) {
    vex(op, to, first, second);
    bytes({static_cast<uint8_t>(0xC0 | (to & 7) << 3 | (second & 7))});
  }
  void vector(VectorOp op, uint8_t to, uint8_t first, Address second) {
    vex(op, to, first, second.base);
    operand(to, second);
  }
  void byte(uint8_t value) { code_.push_back(value); }

  // An instruction of one byte on a general register and memory; `wide`: of 64 bits.
  void memory(bool wide, uint8_t opcode, uint8_t reg, Address address) {
    const auto rex = static_cast<uint8_t>((wide ? 0x48 : 0x40) | (reg >> 3) << 2 | address.base >> 3);
    if (rex != 0x40) byte(rex);
    byte(opcode);
    operand(reg, address);
  }
  void load_byte(Register to, Address from) {
    if (from.base >= 8) byte(0x41);
    bytes({0x0F, 0xB6});
    operand(to, from);
  }
  void load(Register to, Address from) { memory(true, 0x8B, to, from); }
  void store(Address to, Register from) { memory(true, 0x89, from, to); }
  void add(Address to, int32_t value) {
    memory(true, 0x81, 0, to);
    number(value);
  }
  void move(Register to, Register from) {
    bytes({static_cast<uint8_t>(0x48 | (from >> 3) << 2 | to >> 3), 0x89,
           static_cast<uint8_t>(0xC0 | (from & 7) << 3 | (to & 7))});
  }
  void set(Register to, uint64_t value) {
    bytes({static_cast<uint8_t>(0x48 | to >> 3), static_cast<uint8_t>(0xB8 | (to & 7))});
    number(value);
  }
  void call(Register target) { bytes({0xFF, static_cast<uint8_t>(0xD0 | target)}); }

  // An instruction on kRax, of 64 bits, and a number.
  void with_rax(uint8_t opcode, int32_t value) {
    bytes({0x48, opcode});
    number(value);
  }
  void multiply_rax(int32_t value) {
    bytes({0x48, 0x69, 0xC0});
    number(value);
  }

  // Jumps return where they are, for land(). hole(): behind the opcode of another jump.
  size_t jump() {
    byte(0xE9);
    return hole();
  }
  size_t jump_if_zero() {
    bytes({0x0F, 0x84});
    return hole();
  }
  size_t jump_if_not_zero() {
    bytes({0x0F, 0x85});
    return hole();
  }
  size_t hole() {
    number(int32_t{0});
    return size() - 4;
  }
  void land(size_t jump) { land(jump, size()); }
  void land(size_t jump, size_t target) {
    const auto distance = static_cast<uint32_t>(target - jump - 4);
    for (size_t i = 0; i < 4; ++i) code_[jump + i] = static_cast<uint8_t>(distance >> 8 * i);
  }

 private:
  template <typename Number>
  void number(Number value) {
    for (size_t i = 0; i < sizeof value; ++i) byte(static_cast<uint8_t>(static_cast<uint64_t>(value) >> 8 * i));
  }
  void vex(VectorOp op, uint8_t to, uint8_t first, uint8_t second) {
    bytes({0xC4, static_cast<uint8_t>((to < 8) << 7 | 0x40 | (second < 8) << 5 | op.map),
           static_cast<uint8_t>(op.wide << 7 | (~first & 15) << 3 | op.full << 2 | op.prefix), op.opcode});
  }
  void operand(uint8_t reg, Address address) {
    byte(static_cast<uint8_t>(0x80 | (reg & 7) << 3 | (address.base & 7)));
    if ((address.base & 7) == kRsp) byte(0x24);
    number(address.offset);
  }

  std::vector<uint8_t> code_;
};

// Memory that holds machine code. Without it, where the system refuses such memory, data() is nullptr.
class ExecutableMemory {
 public:
  ExecutableMemory() = default;
  explicit ExecutableMemory(std::span<const uint8_t> code);
  ExecutableMemory(ExecutableMemory&& other) noexcept : data_(other.data_), size_(other.size_) {
    other.data_ = nullptr;
  }
  ExecutableMemory& operator=(ExecutableMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ExecutableMemory(const ExecutableMemory&) = delete;
  ExecutableMemory& operator=(const ExecutableMemory&) = delete;
  ~ExecutableMemory();

  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace mydev::kernels
