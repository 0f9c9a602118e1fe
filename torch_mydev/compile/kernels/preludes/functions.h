// Functions of all languages, in what C++, OpenCL C and CUDA C have in common. For NaN, for negative numbers and at the
// ends of ranges, they give the same results as the device's own kernels.

typedef u16 bf16;
FN f32 bf16_to_f32(bf16 x) { return f32_of_bits((u32)x << 16); }
FN bf16 f32_to_bf16(f32 x) {
  const u32 bits = bits_of_f32(x);
  const u32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return (bf16)((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded);
}
FN u16 bits_of_bf16(bf16 x) { return x; }
FN f32 bf16_of_bits(u16 bits) { return bf16_to_f32(bits); }

#define INTEGERS(F) F(i8, u32) F(i16, u32) F(i32, u32) F(i64, u64) F(u8, u32) F(u16, u32) F(u32, u32) F(u64, u64)
#define SIGNED(F) F(i8, u8, 8) F(i16, u16, 16) F(i32, u32, 32) F(i64, u64, 64)
#define UNSIGNED(F) F(u8, 8) F(u16, 16) F(u32, 32) F(u64, 64)

// --- integers: sums and products wrap round, divisors are not 0 ---

#define INTEGER_FUNCTIONS(T, U)                                                                 \
  FN T sum_##T(T a, T b) { return (T)((U)a + (U)b); }                                           \
  FN T prod_##T(T a, T b) { return (T)((U)a * (U)b); }                                          \
  FN T xor_sum_##T(T a, T b) { return (T)(a ^ b); }                                             \
  FN T max_##T(T a, T b) { return a >= b ? a : b; }                                             \
  FN T min_##T(T a, T b) { return a <= b ? a : b; }                                             \
  FN T pow_##T(T base, T exponent) {                                                            \
    T result = 1;                                                                               \
    if (exponent < 0) return base == 1 ? (T)1 : base == (T)-1 ? (exponent % 2 != 0 ? (T)-1 : (T)1) : (T)0; \
    for (; exponent != 0; exponent = (T)(exponent >> 1)) {                                      \
      if (exponent & 1) result = prod_##T(result, base);                                        \
      base = prod_##T(base, base);                                                              \
    }                                                                                           \
    return result;                                                                              \
  }
INTEGERS(INTEGER_FUNCTIONS)

#define SIGNED_FUNCTIONS(T, U, bits)                                                            \
  FN T truncdiv_##T(T a, T b) { return b == -1 ? (T)(0 - (U)a) : (T)(a / b); }                  \
  FN T fmod_##T(T a, T b) { return b == -1 ? (T)0 : (T)(a % b); }                               \
  FN T remainder_##T(T a, T b) {                                                                \
    const T r = fmod_##T(a, b);                                                                 \
    return r != 0 && (r < 0) != (b < 0) ? (T)(r + b) : r;                                       \
  }                                                                                             \
  FN T floordiv_##T(T a, T b) {                                                                 \
    const T r = fmod_##T(a, b), quotient = truncdiv_##T(a, b);                                  \
    return r != 0 && (r < 0) != (b < 0) ? (T)(quotient - 1) : quotient;                         \
  }                                                                                             \
  FN T shift_left_##T(T a, T b) { return b < 0 || b >= bits ? (T)0 : (T)((U)a << b); }          \
  FN T shift_right_##T(T a, T b) { return (T)(a >> (b < 0 || b >= bits ? bits - 1 : b)); }
SIGNED(SIGNED_FUNCTIONS)

#define UNSIGNED_FUNCTIONS(T, bits)                                                             \
  FN T truncdiv_##T(T a, T b) { return (T)(a / b); }                                            \
  FN T fmod_##T(T a, T b) { return (T)(a % b); }                                                \
  FN T remainder_##T(T a, T b) { return (T)(a % b); }                                           \
  FN T floordiv_##T(T a, T b) { return (T)(a / b); }                                            \
  FN T shift_left_##T(T a, T b) { return b >= bits ? (T)0 : (T)(a << b); }                      \
  FN T shift_right_##T(T a, T b) { return b >= bits ? (T)0 : (T)(a >> b); }
UNSIGNED(UNSIGNED_FUNCTIONS)

FN i32 or_i32(i32 a, i32 b) { return a | b; }

// --- floating point ---

#define NATIVE1(T, name) FN T name##_##T(T x) { return NATIVE(name)(x); }
#define NATIVE2(T, name) FN T name##_##T(T a, T b) { return NATIVE(name)(a, b); }
#define FLOAT_FUNCTIONS(T)                                                                      \
  NATIVE1(T, exp2) NATIVE1(T, expm1) NATIVE1(T, log2) NATIVE1(T, log10) NATIVE1(T, log1p)       \
  NATIVE1(T, sqrt) NATIVE1(T, sin) NATIVE1(T, cos) NATIVE1(T, tan) NATIVE1(T, asin)             \
  NATIVE1(T, acos) NATIVE1(T, atan) NATIVE1(T, sinh) NATIVE1(T, cosh) NATIVE1(T, asinh)         \
  NATIVE1(T, acosh) NATIVE1(T, atanh) NATIVE1(T, erfc) NATIVE1(T, lgamma) NATIVE1(T, floor)     \
  NATIVE1(T, ceil) NATIVE1(T, trunc) NATIVE2(T, atan2) NATIVE2(T, hypot) NATIVE2(T, copysign)   \
  NATIVE2(T, nextafter) NATIVE2(T, fmod) NATIVE2(T, pow)                                        \
  FN T fma_##T(T a, T b, T c) { return NATIVE(fma)(a, b, c); }                                  \
  FN T ldexp_##T(T x, i32 n) { return NATIVE(ldexp)(x, n); }                                    \
  FN T abs_##T(T x) { return NATIVE(fabs)(x); }                                                 \
  FN T round_##T(T x) { return NATIVE(rint)(x); }                                               \
  FN T reciprocal_##T(T x) { return (T)1 / x; }                                                 \
  FN T sum_##T(T a, T b) { return a + b; }                                                      \
  FN T prod_##T(T a, T b) { return a * b; }                                                     \
  FN T max_##T(T a, T b) {                                                                      \
    const T larger = b > a ? b : a; /* a, if that is NaN */                                     \
    return b == b ? larger : b;                                                                 \
  }                                                                                             \
  FN T min_##T(T a, T b) {                                                                      \
    const T smaller = b < a ? b : a;                                                            \
    return b == b ? smaller : b;                                                                \
  }                                                                                             \
  FN T truncdiv_##T(T a, T b) { return trunc_##T(a / b); }                                      \
  FN T remainder_##T(T a, T b) {                                                                \
    const T r = fmod_##T(a, b);                                                                 \
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;                                            \
  }                                                                                             \
  FN T floordiv_##T(T a, T b) {                                                                 \
    if (b == 0) return a / b;                                                                   \
    const T r = fmod_##T(a, b);                                                                 \
    T quotient = (a - r) / b;                                                                   \
    if (r != 0 && (r < 0) != (b < 0)) quotient -= (T)1;                                         \
    if (quotient == 0) return copysign_##T((T)0, a / b);                                        \
    const T down = floor_##T(quotient);                                                         \
    return quotient - down > (T)0.5 ? down + (T)1 : down;                                       \
  }                                                                                             \
  FN void welford_reduce_##T(T* mean, T* m2, T* weight, T x) {                                  \
    const T count = *weight + (T)1, delta = x - *mean, center = *mean + delta / count;          \
    *m2 += delta * (x - center);                                                                \
    *mean = center;                                                                             \
    *weight = count;                                                                            \
  }                                                                                             \
  FN void welford_combine_##T(T* mean, T* m2, T* weight, T other, T other_m2, T other_weight) { \
    const T count = *weight + other_weight, delta = other - *mean;                              \
    const T share = count == 0 ? (T)0 : other_weight / count;                                   \
    *m2 += other_m2 + delta * delta * *weight * share;                                          \
    *mean += delta * share;                                                                     \
    *weight = count;                                                                            \
  }
FLOATS(FLOAT_FUNCTIONS)

// a / b in loops in which b stays the same: the reciprocal's product, and what it leaves over (Markstein, IBM Journal of
// Research and Development 34, 1990). Exact as a division is, but for results and dividends at the ends of the range,
// which may be off by the last bit.
FN f32 quotient_f32(f32 a, f32 b) {
  if (!(b > 1.17549435e-38f && b < 8.50705917e37f)) return a / b;
  const f32 inverse = 1.0f / b, first = a * inverse;
  const f32 quotient = NATIVE(fma)(NATIVE(fma)(first, b, -a), -inverse, first);  // of -0 too
  return quotient == quotient ? quotient : first;  // infinity
}

// The first of equal extrema; NaN is one.
#define ARG_FUNCTION(name, comparison, T)                                                       \
  FN void name##_##T(T* extremum, i64* at, T x, i64 place) {                                    \
    const T old = *extremum;                                                                    \
    const bool same = (x == old) | ((x != x) & (old != old));                                   \
    const bool better = (x comparison old) | ((x != x) & (old == old));                         \
    const bool taken = (better & !((old != old) & (x == x))) | (same & (place < *at));          \
    *extremum = taken ? x : old;                                                                \
    *at = taken ? place : *at;                                                                  \
  }
#define ARG_FUNCTIONS(T) ARG_FUNCTION(argmax, >, T) ARG_FUNCTION(argmin, <, T)
#define INTEGER_ARG_FUNCTIONS(T, U) ARG_FUNCTIONS(T)
INTEGERS(INTEGER_ARG_FUNCTIONS)
FLOATS(ARG_FUNCTIONS)

#define NUMBER_GROUPS(T)                                                                        \
  DEFINE_GROUP(sum, T) DEFINE_GROUP(prod, T) DEFINE_GROUP(max, T) DEFINE_GROUP(min, T)          \
  DEFINE_ARG_GROUP(argmax, T) DEFINE_ARG_GROUP(argmin, T)
#define INTEGER_GROUPS(T, U) NUMBER_GROUPS(T) DEFINE_GROUP(xor_sum, T)
#define FLOAT_GROUPS(T) NUMBER_GROUPS(T) DEFINE_WELFORD_GROUP(T)
INTEGERS(INTEGER_GROUPS)
FLOATS(FLOAT_GROUPS)
DEFINE_GROUP(or, i32)

// --- random numbers: Philox 4x32-10 of a seed and a place ---

typedef struct {
  u32 a, b, c, d;
} philox_block;
FN philox_block philox(i64 seed, i64 place) {
  philox_block x;
  u32 k0 = (u32)seed, k1 = (u32)((u64)seed >> 32);
  x.a = (u32)place;
  x.b = (u32)((u64)place >> 32);
  x.c = 0;
  x.d = 0;
  for (int round = 0; round < 10; ++round) {
    const u64 p = (u64)0xD2511F53u * x.a, q = (u64)0xCD9E8D57u * x.c;
    const u32 b = x.b, d = x.d;
    x.a = (u32)(q >> 32) ^ b ^ k0;
    x.b = (u32)q;
    x.c = (u32)(p >> 32) ^ d ^ k1;
    x.d = (u32)p;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return x;
}
FN f32 rand_f32(i64 seed, i64 place) { return (f32)(philox(seed, place).a >> 8) * 5.9604644775390625e-8f; }
FN f32 randn_f32(i64 seed, i64 place) {
  const philox_block x = philox(seed, place);
  const f32 u = (f32)((x.a >> 8) + 1u) * 5.9604644775390625e-8f;
  return sqrt_f32(-2.0f * log_f32(u)) * cos_f32(6.28318530717958648f * ((f32)(x.b >> 8) * 5.9604644775390625e-8f));
}
FN i64 randint_i64(i64 seed, i64 place, i64 low, i64 high) {
  const philox_block x = philox(seed, place);
  return low + (i64)((((u64)x.a << 32) | x.b) % (u64)(high - low));
}
