// Elementary functions on vectors of float and double, over the whole range: infinities, NaN, denormals, large
// arguments. The hot ones of floats (exp, log, tanh, sigmoid, erf) are computed by minimax fits made for this file,
// to 2.5 ulp. The others are glibc's vector functions, to 4 ulp; without that library they are the C library's, lane by
// lane.
#pragma once

#include <limits>

#include "host_kernels/isa/simd/simd.h"

namespace mydev::kernels::MYDEV_ISA {

// --- functions of glibc ---------------------------------------------------------------------------------------------

#if defined(MYDEV_HAS_MVEC)
// Their names have the instruction set and the number of lanes, as the x86-64 vector ABI says.
#if defined(MYDEV_ISA_AVX512)
#define MYDEV_LIBRARY_F32(operands, name) _ZGVeN16##operands##_##name##f
#define MYDEV_LIBRARY_F64(operands, name) _ZGVeN8##operands##_##name
#elif defined(MYDEV_ISA_AVX2)
#define MYDEV_LIBRARY_F32(operands, name) _ZGVdN8##operands##_##name##f
#define MYDEV_LIBRARY_F64(operands, name) _ZGVdN4##operands##_##name
#else
#define MYDEV_LIBRARY_F32(operands, name) _ZGVbN4##operands##_##name##f
#define MYDEV_LIBRARY_F64(operands, name) _ZGVbN2##operands##_##name
#endif
#define MYDEV_LIBRARY_UNARY(V, name)          \
  extern "C" V MYDEV_LIBRARY_##V(v, name)(V); \
  inline V name(V x) {                        \
    return MYDEV_LIBRARY_##V(v, name)(x);     \
  }
#define MYDEV_LIBRARY_BINARY(V, name)             \
  extern "C" V MYDEV_LIBRARY_##V(vv, name)(V, V); \
  inline V name(V x, V y) {                       \
    return MYDEV_LIBRARY_##V(vv, name)(x, y);     \
  }
#else
#define MYDEV_LIBRARY_UNARY(V, name)                                                           \
  inline V name(V x) {                                                                         \
    for (int64_t i = 0; i < kLanes<std::decay_t<decltype(x[0])>>; ++i) x[i] = std::name(x[i]); \
    return x;                                                                                  \
  }
#define MYDEV_LIBRARY_BINARY(V, name)                                                                \
  inline V name(V x, V y) {                                                                          \
    for (int64_t i = 0; i < kLanes<std::decay_t<decltype(x[0])>>; ++i) x[i] = std::name(x[i], y[i]); \
    return x;                                                                                        \
  }
#endif
#define MYDEV_LIBRARY_UNARIES(name) MYDEV_LIBRARY_UNARY(F32, name) MYDEV_LIBRARY_UNARY(F64, name)

MYDEV_LIBRARY_UNARIES(exp2)
MYDEV_LIBRARY_UNARIES(expm1)
MYDEV_LIBRARY_UNARIES(log2)
MYDEV_LIBRARY_UNARIES(log1p)
MYDEV_LIBRARY_UNARIES(sinh)
MYDEV_LIBRARY_UNARIES(cosh)
MYDEV_LIBRARY_UNARIES(asinh)
MYDEV_LIBRARY_UNARIES(acosh)
MYDEV_LIBRARY_UNARIES(atanh)
MYDEV_LIBRARY_UNARIES(erfc)
MYDEV_LIBRARY_UNARIES(sin)
MYDEV_LIBRARY_UNARIES(cos)
MYDEV_LIBRARY_UNARIES(tan)
MYDEV_LIBRARY_UNARIES(asin)
MYDEV_LIBRARY_UNARIES(acos)
MYDEV_LIBRARY_UNARIES(atan)
MYDEV_LIBRARY_UNARY(F64, exp)
MYDEV_LIBRARY_UNARY(F64, log)
MYDEV_LIBRARY_UNARY(F64, log10)
MYDEV_LIBRARY_UNARY(F64, tanh)
MYDEV_LIBRARY_UNARY(F64, erf)
MYDEV_LIBRARY_UNARY(F64, cbrt)
MYDEV_LIBRARY_BINARY(F32, atan2)
MYDEV_LIBRARY_BINARY(F64, atan2)
MYDEV_LIBRARY_BINARY(F32, pow)
MYDEV_LIBRARY_BINARY(F64, pow)

inline F64 sigmoid(F64 x) {
  return 1.0 / (1.0 + exp(-x));
}
// glibc's of floats are not exact for powers of ten and cubes.
inline F32 log10(F32 x) {
  return in_double(x, [](F64 v) { return log10(v); });
}
inline F32 cbrt(F32 x) {
  return in_double(x, [](F64 v) { return cbrt(v); });
}

// --- functions of floats --------------------------------------------------------------------------------------------

// v * 2^n, also where the result is a denormal or overflows. `shifted` is round_shifted(n).
inline F32 times_power_of_2(F32 v, F32 shifted) {
#if defined(MYDEV_ISA_AVX512)
  return _mm512_maskz_scalef_ps(__mmask16(-1), v, shifted - round_shifted(F32{}));
#else
  const I32 n = bits(shifted) - 0x4b400000;
  const I32 half = n >> 1;
  return v * from_bits((half + 127) << 23) * from_bits((n - half + 127) << 23);
#endif
}

// exp(x) = 2^n (1 + expm1_rest), |x| <= 104. `shifted` becomes round_shifted(n).
inline F32 expm1_rest(F32 x, F32& shifted) {
  constexpr float kLog2e = 1.44269504f, kLn2High = 0.693145752f, kLn2Low = 1.42860677e-6f;
  shifted = round_shifted(x * kLog2e);
  const F32 n = shifted - round_shifted(F32{});
  const F32 r = fma(n, splat(-kLn2Low), fma(n, splat(-kLn2High), x));
  const F32 p = polynomial(r, 0.5000000029f, 0.1666657336f, 0.04166636335f, 0.008363776151f, 0.001394216894f);
  return fma(r * r, p, r);
}
inline F32 exp(F32 x) {
  F32 shifted;
  const F32 rest = expm1_rest(at_most(at_least(x, splat(-104.0f)), splat(89.0f)), shifted);
  return times_power_of_2(rest + 1.0f, shifted);
}

inline F32 log(F32 x) {
#if defined(MYDEV_ISA_AVX512)
  // NaN of negative numbers; the exponent of zero is -inf, that of infinity inf.
  const F32 mantissa = _mm512_maskz_getmant_ps(__mmask16(-1), x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_nan);
  const F32 exponent = _mm512_maskz_getexp_ps(__mmask16(-1), x);
  const I32 upper = mantissa > 1.41421356f;
  const F32 m = upper ? mantissa * 0.5f : mantissa;
  const F32 n = upper ? exponent + 1.0f : exponent;
#else
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr int32_t kSqrtHalf = 0x3f3504f3;
  const I32 denormal = x < std::numeric_limits<float>::min();
  const F32 scaled = denormal ? x * 8388608.0f : x;
  const I32 exponent = (bits(scaled) - kSqrtHalf) >> 23;
  const F32 m = from_bits(bits(scaled) - (exponent << 23));
  const F32 n = __builtin_convertvector(exponent - (denormal & 23), F32);
#endif
  const F32 f = m - 1.0f;
  const F32 z = f * f;
  const F32 p = polynomial(f, 0.3333333124f, -0.2499998102f, 0.2000069285f, -0.166691679f, 0.1425098812f, -0.123962282f,
                           0.1163605849f, -0.1166381564f, 0.07333003112f);
  const F32 low = fma(n, splat(1.42860677e-6f), fma(f * z, p, z * -0.5f));
  const F32 result = fma(n, splat(0.693145752f), f + low);
#if defined(MYDEV_ISA_AVX512)
  return result;
#else
  const F32 negative = x < 0.0f ? splat(std::numeric_limits<float>::quiet_NaN()) : splat(-kInfinity);
  return (x > 0.0f) & (x < kInfinity) ? result : (x <= 0.0f ? negative : x);  // inf and NaN
#endif
}

// expm1(2|x|) / (expm1(2|x|) + 2), which rounds to 1 from 9.01 on.
inline F32 tanh(F32 x) {
  F32 shifted;
  const F32 rest = expm1_rest(at_most(abs(x), splat(9.5f)) * 2.0f, shifted);
  const F32 scale = from_bits((bits(shifted) << 23) + 0x3f800000);
  const F32 e = fma(scale, rest, scale - 1.0f);
  return copysign(e / (e + 2.0f), x);
}

inline F32 sigmoid(F32 x) {
  return 1.0f / (1.0f + exp(-x));
}

inline F32 erf(F32 x) {
  const F32 a = abs(x);
  const F32 z = a * a;
  const F32 p = polynomial(z, 0.128379166f, -0.3761262714f, 0.1128360018f, -0.02685444471f, 0.005189535572f,
                           -0.0008020843364f, 7.889126494e-5f);
  const F32 small = fma(a, p, a);
  // -log(erfc(a)); beyond 3.95 erf rounds to 1.
  const F32 bounded = at_most(a, splat(3.95f));
  const F32 q = polynomial(bounded, 0.0003537323417f, 1.127039983f, 0.6382257669f, 0.1030372898f, -0.02180528005f,
                           0.002939597643f, -0.0001855730187f);
  const F32 large = 1.0f - exp(-q);
  return copysign(a < 1.0f ? small : large, x);
}

// --- remainder -----------------------------------------------------------------------------------------------------

// C's fmod, exactly. The quotient is rounded, so that its integral part may be one too large; the rest is exact.
template <typename V>
inline V remainder_of(V a, V b, V quotient, V rest) {
  const V missing = copysign(b, a);
  return copysign((quotient != 0.0) & (rest != 0.0) & ((rest < 0.0) != (a < 0.0)) ? rest + missing : rest, a);
}
// Lanes with a quotient that is too large for that, infinities and NaN: the C library.
template <typename T>
inline Vec<T> patch_remainders(Vec<T> a, Vec<T> b, Vec<T> result, T bound) {
  const auto bad = !((abs(a / b) < splat(bound)) & (abs(b) <= splat(std::numeric_limits<T>::max())));
  bool any = false;
  for (int64_t i = 0; i < kLanes<T>; ++i) any |= bad[i] != 0;
  if (__builtin_expect(any, 0)) {
    for (int64_t i = 0; i < kLanes<T>; ++i) {
      if (bad[i] != 0) result[i] = std::fmod(a[i], b[i]);
    }
  }
  return result;
}
inline F32 fmod(F32 a, F32 b) {
  constexpr float kExact = 0x1p28f;  // a product of the quotient and a float is a double
  const F32 result = in_double(a, b, [](F64 x, F64 y) {
    const F64 quotient = trunc(x / y);
    return remainder_of(x, y, quotient, x - quotient * y);
  });
  return patch_remainders(a, b, result, kExact);
}
inline F64 fmod(F64 a, F64 b) {
#ifdef __FMA__
  const F64 quotient = trunc(a / b);
  return patch_remainders(a, b, remainder_of(a, b, quotient, fma(-quotient, b, a)), 0x1p51);
#else
  for (int64_t i = 0; i < kLanes<double>; ++i) a[i] = std::fmod(a[i], b[i]);
  return a;
#endif
}

}  // namespace mydev::kernels::MYDEV_ISA
