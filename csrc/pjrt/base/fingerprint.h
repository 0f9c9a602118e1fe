// A 64-bit FNV-1a hash of the data that something is made of: the same in every process. It gives no protection against
// attacks.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "runtime/base/hash.h"

namespace mydev::pjrt {

class Fingerprint {
 public:
  void add(uint64_t number) noexcept {
    for (int i = 0; i < 8; ++i) hash_.add(static_cast<uint8_t>(number >> (8 * i)));
  }
  // Adds the text with its length, so that neighbouring texts are told apart.
  void add(std::string_view text) noexcept {
    add(uint64_t{text.size()});
    hash_.add(text);
  }
  uint64_t value() const noexcept { return hash_.value(); }
  std::string text() const {
    std::string digits(17, '\0');  // with the NUL that snprintf writes
    std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(value()));
    digits.pop_back();
    return digits;
  }

 private:
  Fnv1a hash_;
};

}  // namespace mydev::pjrt
