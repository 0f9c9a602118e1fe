// Threefry 2x32 with 20 rounds, the same for every instruction set. Source: Salmon, Moraes, Dror and Shaw, "Parallel
// random numbers: as easy as 1, 2, 3" (2011).
#pragma once

#include "host_kernels/isa/isa.h"

namespace mydev::kernels::MYDEV_ISA {
namespace {

template <int... kRotations>
void threefry_rounds(uint32_t& x, uint32_t& y) {
  ((x += y, y = (y << kRotations | y >> (32 - kRotations)) ^ x), ...);
}

// Replaces the counter (x, y) by the words that it gives under the key. It has no branches, so loops over it vectorise.
inline void threefry2x32(uint32_t key0, uint32_t key1, uint32_t& x, uint32_t& y) {
  const uint32_t key2 = key0 ^ key1 ^ 0x1BD11BDA;
  x += key0;
  y += key1;
  threefry_rounds<13, 15, 26, 6>(x, y);
  x += key1;
  y += key2 + 1;
  threefry_rounds<17, 29, 16, 24>(x, y);
  x += key2;
  y += key0 + 2;
  threefry_rounds<13, 15, 26, 6>(x, y);
  x += key0;
  y += key1 + 3;
  threefry_rounds<17, 29, 16, 24>(x, y);
  x += key1;
  y += key2 + 4;
  threefry_rounds<13, 15, 26, 6>(x, y);
  x += key2;
  y += key0 + 5;
}

}  // namespace
}  // namespace mydev::kernels::MYDEV_ISA
