/* The card's language: OpenCL C, as a small device has it. A group has one thread and so no memory of its own, and a
 * barrier is nothing. Buffers are a base and an offset, there is neither f64 nor a 64-bit atomic, and a fault word says
 * that a check failed.
 */
#pragma once

#include "card_place.h"

constexpr const char* kLanguage = "opencl-c";
constexpr const char* kOptions = "-O1 -std=c++20 -w -fpermissive -fwrapv -shared -fPIC";
constexpr bool kLoops = false;  /* a call runs one group */
constexpr bool kOffsets = true; /* buffers are a base and an offset */
constexpr uint64_t kMostLocalMemory = 0;

constexpr mydev_compiler_properties kProperties = {
    .struct_size = sizeof(mydev_compiler_properties),
    .max_group = {1, 1, 1},
    .max_group_threads = 1,
    .max_grid = {512, 65536, 1},
    .preferred_group_threads = 0,
    .subgroup_size = 1,
    .parameters = MYDEV_PARAMETERS_BASE_AND_OFFSET,
    .features = MYDEV_COMPILER_ATOMIC_F32 | MYDEV_COMPILER_SCALAR_MATH,
    .fault_word = 1,
};

constexpr const char* kPrelude = R"prelude(
#include <math.h>
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
static inline ulong get_group_id(int d) { return card_here.at[d]; }
static inline ulong get_num_groups(int d) { return card_here.grid[d]; }
static inline ulong get_local_id(int) { return 0; }
static inline ulong get_local_size(int) { return 1; }
static inline ulong get_global_id(int d) { return card_here.at[d]; }
template <typename To, typename From>
static inline To card_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
static inline uint as_uint(float x) { return card_bits<uint>(x); }
static inline float as_float(uint x) { return card_bits<float>(x); }
template <typename T>
static inline ulong as_ulong(T x) { return card_bits<ulong>(x); }
static inline double as_double(ulong x) { return card_bits<double>(x); }
static inline float vload_half(int, const half* p) { return (float)*p; }
static inline void vstore_half_rte(float x, int, half* p) { *p = (half)x; }
static inline float rsqrt(float x) { return 1 / sqrtf(x); }
static inline double rsqrt(double x) { return 1 / sqrt(x); }
static inline int atomic_add(int* at, int value) { return __atomic_fetch_add(at, value, __ATOMIC_RELAXED); }
static inline uint atomic_cmpxchg(volatile uint* at, uint old, uint wanted) {
  __atomic_compare_exchange_n(at, &old, wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return old;
}
)prelude";
