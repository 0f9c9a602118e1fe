// CUDA C as C++: what the kernels' language uses of it, for modules that run on the processor. Text of nvrtc_stub's.
#pragma once

inline constexpr const char* kCudaShim = R"shim(
#include <math.h>
#include <string.h>
#include <utility>
struct StubIndex { unsigned x, y, z; };
extern "C" {
__attribute__((visibility("default"))) struct {
  StubIndex thread, block, block_size, grid_size;
  void (*barrier)();
} stub_place;
}
#define threadIdx stub_place.thread
#define blockIdx stub_place.block
#define blockDim stub_place.block_size
#define gridDim stub_place.grid_size
#define __syncthreads() stub_place.barrier()
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __trap() __builtin_trap()
template <typename To, typename From>
static inline To stub_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
static inline float __int_as_float(int x) { return stub_bits<float>(x); }
static inline float __uint_as_float(unsigned x) { return stub_bits<float>(x); }
static inline unsigned __float_as_uint(float x) { return stub_bits<unsigned>(x); }
static inline double __longlong_as_double(long long x) { return stub_bits<double>(x); }
static inline long long __double_as_longlong(double x) { return stub_bits<long long>(x); }
static inline float rsqrt(float x) { return 1 / sqrtf(x); }
static inline double rsqrt(double x) { return 1 / sqrt(x); }
// Inline assembly converts halves: `x` to `result`.
#define asm(...) stub_convert(result, x)
static inline void stub_convert(float& result, unsigned short x) { result = (float)stub_bits<_Float16>(x); }
static inline void stub_convert(unsigned short& result, float x) { result = stub_bits<unsigned short>((_Float16)x); }
template <typename T>
static inline T atomicAdd(T* place, T value) {
  const T old = *place;
  *place = old + value;
  return old;
}
template <typename... Parameters>
static inline int stub_count(void (*)(Parameters...)) { return sizeof...(Parameters); }
template <typename... Parameters, size_t... kIndices>
static inline void stub_call_each(void (*function)(Parameters...), void** parameters, std::index_sequence<kIndices...>) {
  function(*(Parameters*)parameters[kIndices]...);
}
template <typename... Parameters>
static inline void stub_call(void (*function)(Parameters...), void** parameters) {
  stub_call_each(function, parameters, std::index_sequence_for<Parameters...>());
}
)shim";
