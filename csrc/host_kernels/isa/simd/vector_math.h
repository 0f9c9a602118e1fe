// Elementary functions on vectors of float, to 1-2 ulp, over the whole range: infinities, NaN, denormals, large
// arguments. The hot ones (exp, log, tanh, sigmoid, erf, sin, cos) work in float; the others go through double, where
// short polynomials leave a correctly rounded float in all but rare cases. All polynomials are minimax or Taylor fits
// made for this file. Vectors of double are computed by glibc's vector library, to 4 ulp, so that one operator body
// serves both; where there is none, by the C library, lane by lane.
#pragma once

#include <limits>

#include "host_kernels/isa/simd/simd.h"

namespace mydev::kernels::MYDEV_ISA {

// --- vectors of double ----------------------------------------------------------------------------------------------

#if !defined(MYDEV_HAS_MVEC)
#define MYDEV_OF_DOUBLES(name, lanes)                                    \
  inline F64 name(F64 x) {                                               \
    for (int64_t i = 0; i < kLanes<double>; ++i) x[i] = std::name(x[i]); \
    return x;                                                            \
  }
#define MYDEV_OF_DOUBLE_PAIRS(name, lanes)                                     \
  inline F64 name(F64 x, F64 y) {                                              \
    for (int64_t i = 0; i < kLanes<double>; ++i) x[i] = std::name(x[i], y[i]); \
    return x;                                                                  \
  }
#else
#define MYDEV_OF_DOUBLES(name, lanes)        \
  extern "C" F64 _ZGV##lanes##v_##name(F64); \
  inline F64 name(F64 x) {                   \
    return _ZGV##lanes##v_##name(x);         \
  }
#define MYDEV_OF_DOUBLE_PAIRS(name, lanes)         \
  extern "C" F64 _ZGV##lanes##vv_##name(F64, F64); \
  inline F64 name(F64 x, F64 y) {                  \
    return _ZGV##lanes##vv_##name(x, y);           \
  }
#endif
// Their names have the instruction set and the number of lanes, as the x86-64 vector ABI says.
#if defined(MYDEV_ISA_AVX512)
#define MYDEV_LANES eN8
#elif defined(MYDEV_ISA_AVX2)
#define MYDEV_LANES dN4
#else
#define MYDEV_LANES bN2
#endif
#define MYDEV_WITH_LANES(macro, name, lanes) macro(name, lanes)
#define MYDEV_DOUBLES(name) MYDEV_WITH_LANES(MYDEV_OF_DOUBLES, name, MYDEV_LANES)
#define MYDEV_DOUBLE_PAIRS(name) MYDEV_WITH_LANES(MYDEV_OF_DOUBLE_PAIRS, name, MYDEV_LANES)

MYDEV_DOUBLES(exp)
MYDEV_DOUBLES(exp2)
MYDEV_DOUBLES(expm1)
MYDEV_DOUBLES(log)
MYDEV_DOUBLES(log2)
MYDEV_DOUBLES(log10)
MYDEV_DOUBLES(log1p)
MYDEV_DOUBLES(sinh)
MYDEV_DOUBLES(cosh)
MYDEV_DOUBLES(tanh)
MYDEV_DOUBLES(asinh)
MYDEV_DOUBLES(acosh)
MYDEV_DOUBLES(atanh)
MYDEV_DOUBLES(erf)
MYDEV_DOUBLES(erfc)
MYDEV_DOUBLES(cbrt)
MYDEV_DOUBLES(sin)
MYDEV_DOUBLES(cos)
MYDEV_DOUBLES(tan)
MYDEV_DOUBLES(asin)
MYDEV_DOUBLES(acos)
MYDEV_DOUBLES(atan)
MYDEV_DOUBLE_PAIRS(atan2)
MYDEV_DOUBLE_PAIRS(pow)
inline F64 sigmoid(F64 x) {
  return 1.0 / (1.0 + exp(-x));
}

// --- cores in double: relative error about 1e-14, for arguments and results of float's range -----------------------

inline F64 exp_core(F64 x) {  // |x| <= 700
  constexpr double kLog2e = 1.4426950408889634, kLn2High = 0.693147180369123816, kLn2Low = 1.90821492927058770e-10;
  const F64 shifted = round_shifted(x * kLog2e);
  const F64 n = shifted - round_shifted(F64{});
  const F64 r = fma(n, splat(-kLn2Low), fma(n, splat(-kLn2High), x));
  const F64 p = polynomial(r, 0.500000000000000226, 0.16666666666646778, 0.0416666666665911135, 0.00833333335497355068,
                           0.00138888889309916191, 0.000198412062721542677, 2.48015028990756286e-5,
                           2.76264672611913747e-6, 2.76277636502068779e-7);
  const F64 e = fma(r * r, p, r) + 1.0;
  return from_bits(bits(e) + (bits(shifted) << 52));
}
inline F64 exp_float_range(F64 x) {
  return exp_core(at_most(at_least(x, splat(-200.0)), splat(200.0)));
}

inline F64 log_core(F64 x) {  // any float, as double
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr int64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
  const I64 shifted = bits(x) - kSqrtHalf;
  const I64 exponent = shifted >> 52;
  const F64 m = from_bits(bits(x) - (exponent << 52));  // in [sqrt(1/2), sqrt(2))
  const F64 f = m - 1.0;
  const F64 s = f / (f + 2.0);
  const F64 z = s * s;
  const F64 p = polynomial(z, 2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13, 2.0 / 15, 2.0 / 17);
  const F64 n = __builtin_convertvector(exponent, F64);
  F64 result = fma(n, splat(0.69314718055994531), fma(s * z, p, s * 2.0));
  result = x == 0.0 ? splat(-kInfinity) : result;
  result = x < 0.0 ? splat(std::numeric_limits<double>::quiet_NaN()) : result;
  return x < kInfinity ? result : x;  // inf and NaN
}

inline F64 atan_core(F64 x) {
  constexpr double kHalfPi = 1.5707963267948966, kQuarterPi = 0.78539816339744831, kTanEighthPi = 0.41421356237309503;
  const F64 a = abs(x);
  const I64 large = a > 1.0;
  const F64 reduced = large ? 1.0 / a : a;
  const I64 upper = reduced > kTanEighthPi;
  const F64 t = upper ? (reduced - 1.0) / (reduced + 1.0) : reduced;
  const F64 z = t * t;
  const F64 p = polynomial(z, -0.333333333333310727, 0.199999999978317398, -0.142857139431776444, 0.111110902335221553,
                           -0.0909026905478093148, 0.0768120474697041253, -0.0655198349403429515, 0.0517261439480736024,
                           -0.0272867951238221564);
  F64 result = fma(t * z, p, t);
  result = upper ? result + kQuarterPi : result;
  result = large ? kHalfPi - result : result;
  return copysign(result, x);
}

// --- exponential and logarithm -------------------------------------------------------------------------------------

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

inline F32 exp(F32 x) {
  constexpr float kLog2e = 1.44269504f, kLn2High = 0.693145752f, kLn2Low = 1.42860677e-6f;
  const F32 bounded = at_most(at_least(x, splat(-104.0f)), splat(89.0f));
  const F32 shifted = round_shifted(bounded * kLog2e);
  const F32 n = shifted - round_shifted(F32{});
  const F32 r = fma(n, splat(-kLn2Low), fma(n, splat(-kLn2High), bounded));
  const F32 p = polynomial(r, 0.5000000029f, 0.1666657336f, 0.04166636335f, 0.008363776151f, 0.001394216894f);
  return times_power_of_2(fma(r * r, p, r) + 1.0f, shifted);
}

inline F32 log(F32 x) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr int32_t kSqrtHalf = 0x3f3504f3;
  const I32 denormal = x < std::numeric_limits<float>::min();
  const F32 scaled = denormal ? x * 8388608.0f : x;
  const I32 exponent = (bits(scaled) - kSqrtHalf) >> 23;
  const F32 m = from_bits(bits(scaled) - (exponent << 23));
  const F32 n = __builtin_convertvector(exponent - (denormal & 23), F32);
  const F32 f = m - 1.0f;
  const F32 z = f * f;
  const F32 p = polynomial(f, 0.3333333124f, -0.2499998102f, 0.2000069285f, -0.166691679f, 0.1425098812f, -0.123962282f,
                           0.1163605849f, -0.1166381564f, 0.07333003112f);
  const F32 low = fma(n, splat(1.42860677e-6f), fma(f * z, p, z * -0.5f));
  F32 result = fma(n, splat(0.693145752f), f + low);
  result = x == 0.0f ? splat(-kInfinity) : result;
  result = x < 0.0f ? splat(std::numeric_limits<float>::quiet_NaN()) : result;
  return x < kInfinity ? result : x;
}

inline F32 exp2(F32 x) {
  return in_double(x, [](F64 v) { return exp_float_range(v * 0.69314718055994531); });
}
inline F32 log2(F32 x) {
  return in_double(x, [](F64 v) { return log_core(v) * 1.4426950408889634; });
}
inline F32 log10(F32 x) {
  return in_double(x, [](F64 v) { return log_core(v) * 0.43429448190325183; });
}
inline F64 expm1_core(F64 x) {
  const F64 series = fma(x * x, fma(x, splat(1.0 / 6), splat(0.5)), x);
  return copysign(abs(x) < 1e-4 ? series : exp_float_range(x) - 1.0, x);  // of -0 too
}
inline F64 log1p_core(F64 x) {
  const F64 series = fma(x * x, fma(x, splat(1.0 / 3), splat(-0.5)), x);
  return abs(x) < 1e-4 ? series : log_core(x + 1.0);
}
inline F32 expm1(F32 x) {
  return in_double(x, expm1_core);
}
inline F32 log1p(F32 x) {
  return in_double(x, log1p_core);
}

// --- hyperbolic ----------------------------------------------------------------------------------------------------

inline F32 tanh(F32 x) {
  const F32 a = abs(x);
  const F32 z = a * a;
  const F32 p =
      polynomial(z, -0.3333333318f, 0.1333330498f, -0.05395955024f, 0.02177099553f, -0.008350007554f, 0.002298941025f);
  const F32 small = fma(a * z, p, a);
  const F32 large = 1.0f - 2.0f / (exp(a + a) + 1.0f);
  return copysign(a < 0.625f ? small : large, x);
}

inline F32 sigmoid(F32 x) {
  return 1.0f / (1.0f + exp(-x));
}

inline F32 sinh(F32 x) {
  return in_double(x, [](F64 v) {
    const F64 e = exp_float_range(v);
    const F64 z = v * v;
    const F64 series = fma(v * z, fma(z, splat(1.0 / 120), splat(1.0 / 6)), v);
    return abs(v) < 1e-2 ? series : 0.5 * (e - 1.0 / e);
  });
}
inline F32 cosh(F32 x) {
  return in_double(x, [](F64 v) {
    const F64 e = exp_float_range(v);
    return 0.5 * (e + 1.0 / e);
  });
}
inline F32 asinh(F32 x) {
  return in_double(x, [](F64 v) {
    const F64 a = abs(v);
    const F64 series = fma(a * a * a, splat(-1.0 / 6), a);
    const F64 full = log_core(a + sqrt(fma(a, a, splat(1.0))));
    return copysign(a < 1e-3 ? series : full, v);
  });
}
inline F32 acosh(F32 x) {
  return in_double(x, [](F64 v) {
    const F64 domain = v < 1.0 ? splat(std::numeric_limits<double>::quiet_NaN()) : v;
    return log_core(domain + sqrt((domain - 1.0) * (domain + 1.0)));
  });
}
inline F32 atanh(F32 x) {
  return in_double(x, [](F64 v) {
    const F64 series = fma(v * v * v, splat(1.0 / 3), v);
    return abs(v) < 1e-3 ? series : 0.5 * log_core((1.0 + v) / (1.0 - v));
  });
}

// --- error function ------------------------------------------------------------------------------------------------

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

inline F32 erfc(F32 x) {
  return in_double(x, [](F64 v) { return erfc(v); });
}
inline F32 cbrt(F32 x) {
  return in_double(x, [](F64 v) { return cbrt(v); });
}

// --- trigonometric -------------------------------------------------------------------------------------------------

// Argument reduction: x = quadrant * pi/2 + r, |r| <= pi/4, exact enough for |x| <= kReducible.
inline constexpr float kReducible = 1e6f;

inline void reduce_half_pi(F32 x, I32& quadrant, F32& r) {
  // pi/2 in three parts; a product of the first two with the quadrant is exact.
  constexpr double kTwoOverPi = 0.63661977236758134, kHalfPi1 = 0x1.921fb544p+0, kHalfPi2 = 0x1.0b4611a6p-34,
                   kHalfPi3 = 0x1.3198a2e037073p-69;
  const auto reduce = [](F64 v, I64& k) {
    const F64 shifted = round_shifted(v * kTwoOverPi);
    const F64 n = shifted - round_shifted(F64{});
    k = bits(shifted);
    return fma(n, splat(-kHalfPi3), fma(n, splat(-kHalfPi2), fma(n, splat(-kHalfPi1), v)));
  };
  I64 k[2];
  const F64 low = reduce(widen_low(x), k[0]);
  const F64 high = reduce(widen_high(x), k[1]);
  r = narrow(low, high);
  using HalfI32 = detail::VectorType<int32_t, kVectorBytes / 2>::type;
  const HalfI32 halves[2] = {__builtin_convertvector(k[0], HalfI32), __builtin_convertvector(k[1], HalfI32)};
  std::memcpy(&quadrant, halves, sizeof(quadrant));
}
inline F32 sin_poly(F32 r) {
  const F32 z = r * r;
  const F32 p = polynomial(z, -0.1666666666f, 0.008333331868f, -0.0001984008272f, 2.724939015e-6f);
  return copysign(fma(r * z, p, r), r);  // of -0 too
}
inline F32 cos_poly(F32 r) {
  const F32 z = r * r;
  return fma(z * z, polynomial(z, 0.04166666666f, -0.001388888767f, 2.480059694e-5f, -2.730050299e-7f),
             fma(z, splat(-0.5f), splat(1.0f)));
}
// sin(x + shift * pi/2)
inline F32 sin_shifted(F32 x, int32_t shift) {
  I32 quadrant;
  F32 r;
  reduce_half_pi(x, quadrant, r);
  quadrant += shift;
  const F32 magnitude = (quadrant & 1) != 0 ? cos_poly(r) : sin_poly(r);
  return from_bits(bits(magnitude) ^ ((quadrant & 2) << 30));
}
// Lanes beyond the reach of the reduction, infinities and NaN: the C library.
template <typename Function>
inline F32 patch_unreducible(F32 x, F32 result, Function f) {
  const I32 bad = !(abs(x) <= kReducible);
  int32_t any = 0;
  for (int i = 0; i < kLanes<float>; ++i) any |= bad[i];
  if (__builtin_expect(any, 0)) {
    for (int i = 0; i < kLanes<float>; ++i) {
      if (bad[i]) result[i] = f(x[i]);
    }
  }
  return result;
}
inline F32 sin(F32 x) {
  return patch_unreducible(x, sin_shifted(x, 0), [](float v) { return std::sin(v); });
}
inline F32 cos(F32 x) {
  return patch_unreducible(x, sin_shifted(x, 1), [](float v) { return std::cos(v); });
}
inline F32 tan(F32 x) {
  I32 quadrant;
  F32 r;
  reduce_half_pi(x, quadrant, r);
  const I32 swapped = (quadrant & 1) != 0;
  const F32 s = sin_poly(r), c = cos_poly(r);
  const F32 result = (swapped ? -c : s) / (swapped ? s : c);
  return patch_unreducible(x, result, [](float v) { return std::tan(v); });
}
inline F32 atan(F32 x) {
  return in_double(x, atan_core);
}
inline F32 asin(F32 x) {
  return in_double(x, [](F64 v) { return atan_core(v / sqrt((1.0 - v) * (1.0 + v))); });
}
inline F32 acos(F32 x) {
  return in_double(x, [](F64 v) { return 2.0 * atan_core(sqrt((1.0 - v) / (1.0 + v))); });
}
inline F32 atan2(F32 y, F32 x) {
  return in_double(y, x, [](F64 b, F64 a) {
    constexpr double kPi = 3.141592653589793;
    // inf/inf and 0/0 have a limit; their quotient has not.
    const F64 ab = abs(b), aa = abs(a);
    const I64 both_infinite = (ab == splat(std::numeric_limits<double>::infinity())) & (aa == ab);
    F64 quotient = both_infinite ? splat(1.0) : ab / aa;
    quotient = (ab == 0.0) & (aa == 0.0) ? F64{} : quotient;
    const F64 angle = atan_core(quotient);
    return copysign(bits(a) < 0 ? kPi - angle : angle, b);
  });
}

// --- power ---------------------------------------------------------------------------------------------------------

inline F32 pow(F32 x, F32 y) {
  return in_double(x, y, [](F64 base, F64 exponent) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const F64 a = abs(base);
    const F64 power = exponent * log_core(a);
    F64 result = exp_float_range(power);  // 0 * inf gives NaN, mended below
    // From 2^24 on every float is an even integer.
    const F64 bounded = at_most(abs(exponent), splat(16777216.0));
    const F64 rounded = round_shifted(bounded) - round_shifted(F64{});
    const I64 integral = bounded == rounded;
    const I64 odd = integral & ((bits(round_shifted(bounded)) & 1) != 0) & (abs(exponent) < 16777216.0);
    const I64 negative = bits(base) < 0;
    result = from_bits(bits(result) ^ (odd & negative & INT64_MIN));
    result = (base < 0.0) & ~integral & (a != kInfinity) ? splat(std::numeric_limits<double>::quiet_NaN()) : result;
    return (exponent == 0.0) | (base == 1.0) | ((base == -1.0) & (abs(exponent) == kInfinity)) ? splat(1.0) : result;
  });
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
