// Names for content: 128 bits as 32 hexadecimal digits. For caches of one's own files, not against an adversary.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace mydev::host_driver {

// FNV-1a. The boundaries between the strings count.
inline std::string content_hash(std::initializer_list<std::string_view> parts) {
  using Hash = unsigned __int128;
  constexpr Hash kPrime = (Hash{1} << 88) + 0x13b;
  Hash hash = (Hash{0x6c62272e07bb0142} << 64) + 0x62b821756295c58d;
  const auto add = [&](unsigned char byte) { hash = (hash ^ byte) * kPrime; };
  for (const std::string_view part : parts) {
    for (const char c : part) add(static_cast<unsigned char>(c));
    for (size_t length = part.size(), i = 0; i < sizeof(length); ++i, length >>= 8) add(length & 0xff);
  }
  std::string digits;
  for (int shift = 124; shift >= 0; shift -= 4) digits += "0123456789abcdef"[static_cast<unsigned>(hash >> shift) & 15];
  return digits;
}

}  // namespace mydev::host_driver
