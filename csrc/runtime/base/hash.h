// FNV-1a with 64 bits (Fowler, Noll, Vo): the same value in every process. It does not resist an attacker.
#pragma once

#include <cstdint>
#include <string_view>

namespace mydev {

class Fnv1a {
 public:
  // Hashes with different seeds are different functions.
  explicit Fnv1a(uint64_t seed = 0) noexcept : value_(0xcbf29ce484222325 ^ seed) {}

  void add(uint8_t byte) noexcept { value_ = (value_ ^ byte) * 0x100000001b3; }
  void add(std::string_view bytes) noexcept {
    for (const char byte : bytes) add(static_cast<uint8_t>(byte));
  }
  uint64_t value() const noexcept { return value_; }

 private:
  uint64_t value_;
};

inline uint64_t fnv1a(std::string_view bytes, uint64_t seed = 0) noexcept {
  Fnv1a hash(seed);
  hash.add(bytes);
  return hash.value();
}

}  // namespace mydev
