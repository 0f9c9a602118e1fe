// The wire format of protocol buffers, as far as this plugin reads and writes it: numbers, bytes, nested messages.
//
// Reading is bounds-checked; a field that is not asked for is skipped. Malformed messages raise INVALID_ARGUMENT.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace mydev::pjrt {

class WireReader {
 public:
  enum class Type : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  explicit WireReader(std::string_view data) noexcept : rest_(data) {}

  // Goes to the next field; false at the end. One of the functions below returns its value, by its type.
  bool next() {
    if (rest_.empty()) return false;
    const uint64_t tag = varint();
    field_ = tag >> 3;
    type_ = static_cast<Type>(tag & 7);
    check(field_ != 0, "a field has the number 0");
    switch (type_) {
      case Type::kVarint:
        number_ = varint();
        return true;
      case Type::kFixed64:
        number_ = fixed(8);
        return true;
      case Type::kFixed32:
        number_ = fixed(4);
        return true;
      case Type::kBytes:
        bytes_ = take(varint());
        return true;
    }
    check(false, "a field has a type that is not known");
    return false;
  }

  uint64_t field() const noexcept { return field_; }
  int64_t number() const {
    check(type_ != Type::kBytes, "a number was expected, and bytes were found");
    return static_cast<int64_t>(number_);
  }
  bool boolean() const { return number() != 0; }
  double real() const {
    check(type_ == Type::kFixed64, "a number of double precision was expected");
    return std::bit_cast<double>(number_);
  }
  std::string_view bytes() const {
    check(type_ == Type::kBytes, "bytes were expected, and a number was found");
    return bytes_;
  }
  WireReader message() const { return WireReader(bytes()); }
  // Appends the numbers of a repeated field, which may be packed.
  void append_numbers(std::vector<int64_t>& out) const {
    if (type_ != Type::kBytes) {
      out.push_back(number());
      return;
    }
    WireReader packed(bytes_);
    while (!packed.rest_.empty()) out.push_back(static_cast<int64_t>(packed.varint()));
  }

 private:
  static void check(bool condition, const char* problem) {
    MYDEV_CHECK(condition, MYDEV_INVALID_ARGUMENT, "malformed message: ", problem);
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(take(1)[0]);
      value |= uint64_t{byte & 0x7fU} << shift;
      if ((byte & 0x80U) == 0) return value;
    }
    check(false, "a number has more than 10 bytes");
    return 0;
  }
  uint64_t fixed(size_t size) {
    const std::string_view bytes = take(size);
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i) value |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
    return value;
  }
  std::string_view take(uint64_t size) {
    check(size <= rest_.size(), "it ends within a field");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::string_view rest_, bytes_;
  uint64_t field_ = 0, number_ = 0;
  Type type_ = Type::kVarint;
};

class WireWriter {
 public:
  void number(uint32_t field, uint64_t value) {
    varint(uint64_t{field} << 3);
    varint(value);
  }
  void bytes(uint32_t field, std::string_view value) {
    varint(uint64_t{field} << 3 | 2);
    varint(value.size());
    data_ += value;
  }
  void packed(uint32_t field, const std::vector<int64_t>& numbers) {
    WireWriter inner;
    for (const int64_t number : numbers) inner.varint(static_cast<uint64_t>(number));
    bytes(field, inner.data_);
  }
  std::string take() && { return std::move(data_); }

 private:
  void varint(uint64_t value) {
    while (value >= 0x80) {
      data_ += static_cast<char>(value | 0x80);
      value >>= 7;
    }
    data_ += static_cast<char>(value);
  }

  std::string data_;
};

}  // namespace mydev::pjrt
