// Philox 4x32-10: counter-based random numbers. Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3",
// SC 2011. The same (seed, offset) gives the same numbers whatever the number of threads, streams or devices.
//
// A kernel that draws n numbers takes the state at (seed, offset) and advances offset by the count of 4-word blocks it
// used, rounded as the kernel documents. A PhiloxState has no lock; its owner guards it.
#pragma once

#include <array>
#include <cstdint>

namespace mydev {

struct PhiloxState {
  uint64_t seed = 0;
  uint64_t offset = 0;  // in blocks of four 32-bit words
};

// Block number `counter` (64 bits) of `subsequence` (64 bits) under key `seed`.
inline std::array<uint32_t, 4> philox4x32_10(uint64_t seed, uint64_t counter, uint64_t subsequence = 0) noexcept {
  constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                               static_cast<uint32_t>(subsequence), static_cast<uint32_t>(subsequence >> 32)};
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{kMultiplier0} * c[0], p1 = uint64_t{kMultiplier1} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return c;
}

}  // namespace mydev
