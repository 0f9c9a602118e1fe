// The words of Philox 4x32-10, the same for every instruction set.
#pragma once

#include <cmath>

#include "host_kernels/isa/isa.h"

namespace mydev::kernels::MYDEV_ISA {
namespace {

inline constexpr int64_t kPhiloxBatch = 16;  // blocks are drawn so many at a time

// The words of blocks [first, first + blocks), block after block; `blocks` is a multiple of kPhiloxBatch.
// high(counter) gives the high half of a block's counter.
template <typename High>
void philox_words(uint64_t seed, uint64_t first, int64_t blocks, uint32_t* __restrict words, const High& high) {
  constexpr int kBatch = kPhiloxBatch;
  for (int64_t batch = 0; batch < blocks; batch += kBatch) {
    uint32_t c0[kBatch], c1[kBatch], c2[kBatch], c3[kBatch];
    for (int l = 0; l < kBatch; ++l) {
      const uint64_t counter = first + static_cast<uint64_t>(batch + l);
      c0[l] = static_cast<uint32_t>(counter);
      c1[l] = static_cast<uint32_t>(counter >> 32);
      c2[l] = static_cast<uint32_t>(high(counter));
      c3[l] = static_cast<uint32_t>(high(counter) >> 32);
    }
    uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      for (int l = 0; l < kBatch; ++l) {
        const uint64_t p0 = uint64_t{0xD2511F53} * c0[l], p1 = uint64_t{0xCD9E8D57} * c2[l];
        c0[l] = static_cast<uint32_t>(p1 >> 32) ^ c1[l] ^ k0;
        c1[l] = static_cast<uint32_t>(p1);
        c2[l] = static_cast<uint32_t>(p0 >> 32) ^ c3[l] ^ k1;
        c3[l] = static_cast<uint32_t>(p0);
      }
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    uint32_t* target = words + batch * 4;
    for (int l = 0; l < kBatch; ++l) {
      target[4 * l] = c0[l];
      target[4 * l + 1] = c1[l];
      target[4 * l + 2] = c2[l];
      target[4 * l + 3] = c3[l];
    }
  }
}

inline void philox_words(uint64_t seed, uint64_t first, int64_t blocks, uint32_t* __restrict words) {
  philox_words(seed, first, blocks, words, [](uint64_t /*counter*/) { return uint64_t{0}; });
}

// A word is below the threshold with probability p; p = 1 needs 2^32, hence the 64 bits.
inline uint64_t philox_threshold(double p) {
  return static_cast<uint64_t>(std::llround(std::ldexp(p, 32)));
}

}  // namespace
}  // namespace mydev::kernels::MYDEV_ISA
