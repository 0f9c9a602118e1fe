/* The card's language: CUDA C. A group has one thread and so no memory of its own, and a barrier is nothing. A trap
 * ends no kernel: it is noted, and the launch fails.
 */
#pragma once

#include "card_place.h"

constexpr const char* kLanguage = "cuda-c";
constexpr const char* kOptions = "-O1 -std=c++20 -w -fwrapv -ffp-contract=off -shared -fPIC";
constexpr bool kLoops = false; /* a call runs one group */
constexpr bool kOffsets = false;
constexpr uint64_t kMostLocalMemory = 0;

constexpr mydev_compiler_properties kProperties = {
    .struct_size = sizeof(mydev_compiler_properties),
    .max_group = {1, 1, 1},
    .max_group_threads = 1,
    .max_grid = {0x7FFFFFFF, 65535, 1},
    .preferred_group_threads = 0,
    .subgroup_size = 1,
    .parameters = MYDEV_PARAMETERS_POINTERS,
    .features = MYDEV_COMPILER_F64 | MYDEV_COMPILER_ATOMIC_F32 | MYDEV_COMPILER_ATOMIC_S64,
    .fault_word = 0,
};

constexpr const char* kPrelude = R"prelude(
#include <math.h>
#include <string.h>
struct CardIndex { unsigned x, y, z; };
#define threadIdx (CardIndex{0, 0, 0})
#define blockIdx (CardIndex{card_here.at[0], card_here.at[1], card_here.at[2]})
#define blockDim (CardIndex{1, 1, 1})
#define gridDim (CardIndex{card_here.grid[0], card_here.grid[1], card_here.grid[2]})
#define __syncthreads()
#define __global__ __attribute__((visibility("default")))
#define __device__
#define __forceinline__ inline
#define __shared__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __trap() (void)(card_here.failed = 1)
template <typename To, typename From>
static inline To card_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
static inline float __int_as_float(int x) { return card_bits<float>(x); }
static inline float __uint_as_float(unsigned x) { return card_bits<float>(x); }
static inline unsigned __float_as_uint(float x) { return card_bits<unsigned>(x); }
static inline double __longlong_as_double(long long x) { return card_bits<double>(x); }
static inline long long __double_as_longlong(double x) { return card_bits<long long>(x); }
static inline float rsqrt(float x) { return 1 / sqrtf(x); }
static inline double rsqrt(double x) { return 1 / sqrt(x); }
// Inline assembly converts halves: `x` to `result`.
#define asm(...) card_convert(result, x)
static inline void card_convert(float& result, unsigned short x) { result = (float)card_bits<_Float16>(x); }
static inline void card_convert(unsigned short& result, float x) { result = card_bits<unsigned short>((_Float16)x); }
template <typename T>
static inline T atomicAdd(T* at, T value) {
  const T old = *at;
  *at = old + value;
  return old;
}
)prelude";
