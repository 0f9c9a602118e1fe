// The kernels' language in CUDA C, as NVRTC takes it without further headers. A failed check traps.
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef float f32;
typedef double f64;
typedef u16 f16;

#define FN static __device__ __forceinline__
#define GLOBAL
#define LOCAL
#define NATIVE(f) ::f
#define IN(T) const T*
#define OUT(T) T*
#define KERNEL(name, ...) extern "C" __global__ void name(__VA_ARGS__ FAULT_PARAMETER)
#define FLOATS(F) F(f32) F(f64)
#define INFINITY_f32 __int_as_float(0x7f800000)
#define INFINITY_f64 __longlong_as_double(0x7ff0000000000000)
#define NAN_f32 __int_as_float(0x7fffffff)
#define NAN_f64 __longlong_as_double(0x7fffffffffffffff)

#define THREAD ((int)threadIdx.x)
#define GROUP_THREADS ((int)blockDim.x)
#define GROUP_INDEX ((i64)blockIdx.x + (i64)gridDim.x * (i64)blockIdx.y)
#define BARRIER __syncthreads()
#ifndef FAIL
#define FAIL __trap()
#endif
#define SCRATCH __shared__ f64 mydev_scratch[3 * LANES]
#define KEPT(T, name, length) __shared__ T name[length]

FN u32 bits_of_f32(f32 x) { return __float_as_uint(x); }
FN f32 f32_of_bits(u32 bits) { return __uint_as_float(bits); }
FN u64 bits_of_f64(f64 x) { return (u64)__double_as_longlong(x); }
FN f64 f64_of_bits(u64 bits) { return __longlong_as_double((long long)bits); }
FN f32 f16_to_f32(f16 x) {
  f32 result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x));
  return result;
}
FN f16 f32_to_f16(f32 x) {
  f16 result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result) : "f"(x));
  return result;
}
FN u16 bits_of_f16(f16 x) { return x; }
FN f32 f16_of_bits(u16 bits) { return f16_to_f32(bits); }

#define BASIC(T, name) FN T name##_##T(T x) { return ::name(x); }
BASIC(f32, exp) BASIC(f64, exp) BASIC(f32, log) BASIC(f64, log) BASIC(f64, tanh) BASIC(f64, erf)
BASIC(f32, rsqrt) BASIC(f64, rsqrt)
#if !SCALAR_MATH
BASIC(f32, tanh) BASIC(f32, erf)
FN f32 one_plus_erf_f32(f32 x) { return 1.0f + erf_f32(x); }
#endif
FN f64 one_plus_erf_f64(f64 x) { return 1.0 + erf_f64(x); }
FN f32 sigmoid_f32(f32 x) { return 1.0f / (1.0f + exp_f32(-x)); }
FN f64 sigmoid_f64(f64 x) { return 1.0 / (1.0 + exp_f64(-x)); }
FN bool signbit_f32(f32 x) { return bits_of_f32(x) >> 31; }
FN bool signbit_f64(f64 x) { return bits_of_f64(x) >> 63; }

FN void atomic_add_f32(f32* place, f32 value) { atomicAdd(place, value); }
FN void atomic_add_f64(f64* place, f64 value) { atomicAdd(place, value); }
FN void atomic_add_i32(i32* place, i32 value) { atomicAdd(place, value); }
FN void atomic_add_i64(i64* place, i64 value) { atomicAdd((unsigned long long*)place, (unsigned long long)value); }
