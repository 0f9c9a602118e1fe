// The kernels' language in OpenCL C 1.2 with variadic macros, which every compiler of it takes. A failed check puts the
// index right, and says so in the fault word, if the device has one: there is no other way to.
#if defined(cl_khr_fp64) && HAS_F64
#define DOUBLES 1
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#if defined(cl_khr_int64_base_atomics) && HAS_ATOMIC_S64
#define WIDE_ATOMICS 1
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#endif
typedef char i8;
typedef short i16;
typedef int i32;
typedef long i64;
typedef uchar u8;
typedef ushort u16;
typedef uint u32;
typedef ulong u64;
typedef float f32;
typedef ushort f16;
#ifdef DOUBLES
typedef double f64;
#define FLOATS(F) F(f32) F(f64)
#else
typedef long f64; /* of its size, for local memory; numbers given to kernels as f64 are not taken */
#define FLOATS(F) F(f32)
#endif

#define FN static inline
#define GLOBAL __global
#define LOCAL __local
#define NATIVE(f) f
#define IN(T) __global const T*
#define OUT(T) __global T*
#define KERNEL(name, ...) __kernel void name(__VA_ARGS__ FAULT_PARAMETER)
#define INFINITY_f32 INFINITY
#define INFINITY_f64 ((f64)INFINITY)
#define NAN_f32 NAN
#define NAN_f64 ((f64)NAN)

#define THREAD ((int)get_local_id(0))
#define GROUP_THREADS ((int)get_local_size(0))
#define GROUP_INDEX ((i64)get_group_id(0) + (i64)get_num_groups(0) * (i64)get_group_id(1))
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#ifndef FAIL
#define FAIL
#endif
#define SCRATCH __local f64 mydev_scratch[3 * LANES]
#define KEPT(T, name, length) __local T name[length]

FN u32 bits_of_f32(f32 x) { return as_uint(x); }
FN f32 f32_of_bits(u32 bits) { return as_float(bits); }
FN u64 bits_of_f64(f64 x) { return as_ulong(x); }
#ifdef DOUBLES
FN f64 f64_of_bits(u64 bits) { return as_double(bits); }
#endif
FN f32 f16_to_f32(f16 x) { return vload_half(0, (const half*)&x); }
FN f16 f32_to_f16(f32 x) {
  f16 result;
  vstore_half_rte(x, 0, (half*)&result);
  return result;
}
FN u16 bits_of_f16(f16 x) { return x; }
FN f32 f16_of_bits(u16 bits) { return f16_to_f32(bits); }

#define BASIC(T)                                        \
  FN T exp_##T(T x) { return exp(x); }                  \
  FN T log_##T(T x) { return log(x); }                  \
  FN T rsqrt_##T(T x) { return rsqrt(x); }              \
  FN T sigmoid_##T(T x) { return (T)1 / ((T)1 + exp(-x)); } \
  FN bool signbit_##T(T x) { return signbit(x) != 0; }
FLOATS(BASIC)
#define SPECIAL(T)                                      \
  FN T tanh_##T(T x) { return tanh(x); }                \
  FN T erf_##T(T x) { return erf(x); }                  \
  FN T one_plus_erf_##T(T x) { return (T)1 + erf(x); }
#if !SCALAR_MATH
SPECIAL(f32)
#endif
#ifdef DOUBLES
SPECIAL(f64)
#endif

FN void atomic_add_i32(__global i32* place, i32 value) { atomic_add(place, value); }
FN void atomic_add_f32(__global f32* place, f32 value) {
  u32 old, wanted;
  do {
    old = as_uint(*(volatile __global f32*)place);
    wanted = as_uint(as_float(old) + value);
  } while (atomic_cmpxchg((volatile __global u32*)place, old, wanted) != old);
}
#ifdef WIDE_ATOMICS
FN void atomic_add_i64(__global i64* place, i64 value) { atom_add(place, value); }
#ifdef DOUBLES
FN void atomic_add_f64(__global f64* place, f64 value) {
  u64 old, wanted;
  do {
    old = as_ulong(*(volatile __global f64*)place);
    wanted = as_ulong(as_double(old) + value);
  } while (atom_cmpxchg((volatile __global u64*)place, old, wanted) != old);
}
#endif
#endif
