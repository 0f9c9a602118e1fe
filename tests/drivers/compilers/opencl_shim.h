// OpenCL C as C++: what the kernels' language uses of it, for a device whose groups have one thread. A group has no
// memory of its own then, and a barrier is nothing. Text of the driver's; the geometry is where shim_place says.
#pragma once

inline constexpr const char* kOpenclShim = R"shim(
#include <math.h>
#include <stdint.h>
#include <string.h>
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef _Float16 half;
#define __kernel extern "C" __attribute__((visibility("default")))
#define __global
#define __local
#define CLK_LOCAL_MEM_FENCE 1
#define CLK_GLOBAL_MEM_FENCE 2
#define barrier(flags)
static ulong shim_group[3], shim_grid[3];
__kernel void shim_place(const uint* group, const uint* grid) {
  for (int d = 0; d < 3; ++d) shim_group[d] = group[d], shim_grid[d] = grid[d];
}
static inline ulong get_group_id(int d) { return shim_group[d]; }
static inline ulong get_num_groups(int d) { return shim_grid[d]; }
static inline ulong get_local_id(int) { return 0; }
static inline ulong get_local_size(int) { return 1; }
static inline ulong get_global_id(int d) { return shim_group[d]; }
template <typename To, typename From>
static inline To shim_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
static inline uint as_uint(float x) { return shim_bits<uint>(x); }
static inline float as_float(uint x) { return shim_bits<float>(x); }
template <typename T>
static inline ulong as_ulong(T x) { return shim_bits<ulong>(x); }
static inline double as_double(ulong x) { return shim_bits<double>(x); }
static inline float vload_half(int, const half* p) { return (float)*p; }
static inline void vstore_half_rte(float x, int, half* p) { *p = (half)x; }
static inline float rsqrt(float x) { return 1 / sqrtf(x); }
static inline double rsqrt(double x) { return 1 / sqrt(x); }
static inline int atomic_add(int* place, int value) { return __atomic_fetch_add(place, value, __ATOMIC_RELAXED); }
static inline uint atomic_cmpxchg(volatile uint* place, uint old, uint wanted) {
  __atomic_compare_exchange_n(place, &old, wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return old;
}
)shim";
