// The kernels' language on the host driver, whose own prelude gives MYDEV_KERNEL: a group is a loop.
typedef std::int8_t i8;
typedef std::int16_t i16;
typedef std::int32_t i32;
typedef std::int64_t i64;
typedef std::uint8_t u8;
typedef std::uint16_t u16;
typedef std::uint32_t u32;
typedef std::uint64_t u64;
typedef float f32;
typedef double f64;
// Sums of narrower indices wrap round, and so what lies side by side in memory would not be known to.
typedef i64 index_i32;
typedef i64 index_i64;

#define FN static inline __attribute__((always_inline))
#if defined(__clang__)
#define MYDEV_UNROLLED _Pragma("clang loop unroll(full)")
#else
#define MYDEV_UNROLLED _Pragma("GCC unroll 8")
#endif
#define GLOBAL
#define NATIVE(f) std::f
#define IN(T) const T*
#define OUT(T) T*
#define KERNEL(name, ...) MYDEV_KERNEL(name, __VA_ARGS__)
#if BASE_AND_OFFSET || FAULT_WORD
#error "generated C++ takes pointers and no fault word"
#endif
#define FLOATS(F) F(f32) F(f64)
#define INFINITY_f32 __builtin_inff()
#define INFINITY_f64 __builtin_inf()
#define NAN_f32 __builtin_nanf("")
#define NAN_f64 __builtin_nan("")

#define SCRATCH
#define KEPT(T, name, length) alignas(64) T name[length]
#define ONCE
#define GROUP_BARRIER
#define GROUP(function, ...) function(__VA_ARGS__)

#define CHECKS_OPEN int mydev_bad = 0
#define CHECK(condition) mydev_bad |= !(condition)
#define CHECK_INDEX(index, size)                              \
  {                                                           \
    const bool mydev_good = ((index) >= 0) & ((index) < (size)); \
    mydev_bad |= !mydev_good;                                 \
    (index) = mydev_good ? (index) : 0;                       \
  }
#define CHECKS_CLOSE \
  if (mydev_bad) mydev_call.fail("an index is out of bounds, or an assertion of the graph failed")

FN i64 mydev_least(i64 a, i64 b) { return a < b ? a : b; }
#define ROWS_OPEN(T, row, rows, length, piece)                                                         \
  {                                                                                                    \
    const i64 mydev_length = (length), mydev_pieces = (mydev_length + piece - 1) / piece;              \
    const i64 mydev_groups = mydev_least(mydev_call.end, i64(rows) * mydev_pieces);                    \
    for (i64 mydev_group = mydev_call.begin; mydev_group < mydev_groups; ++mydev_group) {              \
      [[maybe_unused]] const T row = T(mydev_group / mydev_pieces);                                    \
      const i64 mydev_base = mydev_group % mydev_pieces * piece;                                       \
      const i64 mydev_end = mydev_base + piece < mydev_length ? mydev_base + piece : mydev_length;
#define ROWS_CLOSE \
  }                \
  }
#define PLACES_OPEN(T, place) MYDEV_INDEPENDENT for (T place = T(mydev_base); place < T(mydev_end); ++place) {
#define PLACES_CLOSE }

#define LANES_OPEN(T, place)                                                                              \
  {                                                                                                       \
    const auto mydev_body = [&]([[maybe_unused]] const int lane, [[maybe_unused]] const T place) __attribute__((always_inline)) {
#define LANES_CLOSE(most)                                        \
  }                                                              \
  ;                                                              \
  mydev_lanes<most>(mydev_base, mydev_end - mydev_base, mydev_body); \
  }

#define GROUPS_OPEN(T, x, count)                                                            \
  for (i64 mydev_group = mydev_call.begin; mydev_group < mydev_least(mydev_call.end, count); ++mydev_group) { \
    [[maybe_unused]] const T x = T(mydev_group);
#define GROUPS_CLOSE }
#define LOOP_OPEN(T, place, length) \
  {                                 \
    const auto mydev_body = [&]([[maybe_unused]] const int lane, [[maybe_unused]] const T place) __attribute__((always_inline)) {
#define LOOP_CLOSE(length)                                                              \
  }                                                                                     \
  ;                                                                                     \
  const i64 mydev_count = (length);                                                     \
  for (i64 mydev_at = 0; mydev_at < mydev_count; mydev_at += LANES)                     \
    mydev_lanes<LANES>(mydev_at, mydev_count - mydev_at, mydev_body);                   \
  }

#define ACCUMULATOR(T, name, first, lanes) \
  alignas(64) T name[lanes];               \
  for (int mydev_i = 0; mydev_i < lanes; ++mydev_i) name[mydev_i] = first

// kLanes elements from `begin` on, or as many as are left.
template <int kLanes, typename Body>
FN void mydev_lanes(i64 begin, i64 left, const Body& body) {
  if (left >= kLanes) {
    MYDEV_INDEPENDENT
    for (int lane = 0; lane < kLanes; ++lane) body(lane, begin + lane);
  } else {
    MYDEV_INDEPENDENT
    for (int lane = 0; lane < int(left); ++lane) body(lane, begin + lane);
  }
}

#define HALVES(half) MYDEV_UNROLLED for (int half = LANES / 2; half > 0; half /= 2)
#define DEFINE_GROUP(operation, T)                                                                       \
  FN void group_##operation##_##T(T* a) {                                                                \
    HALVES(half)                                                                                         \
      MYDEV_INDEPENDENT for (int i = 0; i < half; ++i) a[i] = operation##_##T(a[i], a[i + half]);        \
  }
#define DEFINE_ARG_GROUP(operation, T)                                                                   \
  FN void group_##operation##_##T(T* a, i64* at) {                                                       \
    HALVES(half)                                                                                         \
      for (int i = 0; i < half; ++i) operation##_##T(&a[i], &at[i], a[i + half], at[i + half]);          \
  }
#define DEFINE_WELFORD_GROUP(T)                                                                          \
  FN void group_welford_##T(T* mean, T* m2, T* weight) {                                                 \
    HALVES(half)                                                                                         \
      MYDEV_INDEPENDENT for (int i = 0; i < half; ++i) welford_combine_##T(                              \
          &mean[i], &m2[i], &weight[i], mean[i + half], m2[i + half], weight[i + half]);                 \
  }

FN u32 bits_of_f32(f32 x) {
  u32 bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}
FN f32 f32_of_bits(u32 bits) {
  f32 x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}
FN u64 bits_of_f64(f64 x) {
  u64 bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}
FN f64 f64_of_bits(u64 bits) {
  f64 x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

#ifdef __FLT16_MANT_DIG__
typedef _Float16 f16;
FN f32 f16_to_f32(f16 x) { return f32(x); }
FN f16 f32_to_f16(f32 x) { return f16(x); }
FN u16 bits_of_f16(f16 x) {
  u16 bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}
FN f32 f16_of_bits(u16 bits) {
  f16 x;
  std::memcpy(&x, &bits, sizeof(x));
  return f32(x);
}
#endif

// --- functions that the compiler makes vectors of, to 1-2 ulp ---

FN f32 exp_f32(f32 x) {
  // The quotient n is bounded from above; both powers of 2 are made of its bits. A comparison of integers is one
  // instruction, and NaN stays NaN in r. The result is bounded from below: for an argument below -104 it is 0, whatever
  // was computed. The number that is added to round n has twice the powers' bias of exponents in its last bits.
  const f32 shifted = NATIVE(fma)(x, 1.44269504f, 12583166.0f);
  i32 bits = i32(bits_of_f32(shifted));
  bits = bits < 0x4b40017f ? bits : 0x4b40017f;
  const f32 n = f32_of_bits(u32(bits)) - 12583166.0f;
  const f32 r = NATIVE(fma)(n, -1.42860677e-6f, NATIVE(fma)(n, -0.693145752f, x));
  f32 p = NATIVE(fma)(r, 0.001394216894f, 0.008363776151f);
  p = NATIVE(fma)(r, p, 0.04166636335f);
  p = NATIVE(fma)(r, p, 0.1666657336f);
  p = NATIVE(fma)(r, p, 0.5000000029f);
  const f32 low = NATIVE(fma)(r * r, p, r);
  const u32 half = (u32(bits) >> 1) << 23;
  const f32 power = f32_of_bits((u32(bits) << 23) - half);
  return x < -104.0f ? 0.0f : NATIVE(fma)(low, power, power) * f32_of_bits(half);
}

// --- loops by vectors: for functions with instructions that the compiler does not use in loops ---

#if defined(__AVX512F__) && !defined(__clang__)
typedef f32 mydev_vector __attribute__((vector_size(64)));
typedef f32 mydev_vector_in_memory __attribute__((vector_size(64), aligned(4), may_alias));
template <typename F32s>
struct mydev_memory {
  typedef f32 type;
};
template <>
struct mydev_memory<mydev_vector> {
  typedef mydev_vector_in_memory type;
};

FN mydev_vector mydev_fma(mydev_vector a, mydev_vector b, mydev_vector c) {
  return __builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4);
}
// exp_f32's polynomial. An instruction makes the powers of 2, so only the argument is bounded. Bounds let NaN through.
FN mydev_vector exp_f32(mydev_vector x) {
  const mydev_vector all = {}, low = all - 104.0f, high = all + 89.0f;
  x = __builtin_ia32_minps512_mask(high, __builtin_ia32_maxps512_mask(low, x, all, -1, 4), all, -1, 4);
  const mydev_vector n = __builtin_ia32_rndscaleps_mask(x * 1.44269504f, 8, all, -1, 4);
  const mydev_vector r = mydev_fma(n, all - 1.42860677e-6f, mydev_fma(n, all - 0.693145752f, x));
  mydev_vector p = mydev_fma(r, all + 0.001394216894f, all + 0.008363776151f);
  p = mydev_fma(r, p, all + 0.04166636335f);
  p = mydev_fma(r, p, all + 0.1666657336f);
  p = mydev_fma(r, p, all + 0.5000000029f);
  return __builtin_ia32_scalefps512_mask(mydev_fma(r * r, p, r) + 1.0f, n, all, -1, 4);
}
// The same as quotient_f32 of one value (functions.h). If the product `first` is infinite, its remainder is infinite or
// NaN. The bounds make a finite number of both, since they give their second operand for NaN; so the result stays
// infinite.
FN mydev_vector quotient_f32(mydev_vector a, f32 b) {
  if (!(b > 1.17549435e-38f && b < 8.50705917e37f)) return a / b;
  const mydev_vector all = {}, most = all + 3.40282347e38f;
  const f32 inverse = 1.0f / b;
  const mydev_vector first = a * inverse;
  const mydev_vector over = __builtin_ia32_minps512_mask(mydev_fma(first, all + b, -a), most, all, -1, 4);
  return mydev_fma(__builtin_ia32_maxps512_mask(over, -most, all, -1, 4), all - inverse, first);
}

#define VECTORS_OPEN(T, place, length)                                                                          \
  {                                                                                                             \
    const auto mydev_body = [&](auto mydev_one, [[maybe_unused]] const int lane, [[maybe_unused]] const T place) \
        __attribute__((always_inline)) {                                                                        \
      typedef decltype(mydev_one) f32s;
#define VECTORS_CLOSE(length)                                             \
  }                                                                       \
  ;                                                                       \
  const i64 mydev_count = (length);                                       \
  for (i64 mydev_at = 0; mydev_at < mydev_count; mydev_at += LANES)       \
    mydev_vectors(mydev_at, mydev_count - mydev_at, mydev_body);          \
  }
#define VECTOR_AT(element) (*(typename mydev_memory<f32s>::type*)&(element))
template <typename Body>
FN void mydev_vectors(i64 begin, i64 left, const Body& body) {
  if (left >= LANES) {
    MYDEV_UNROLLED for (int lane = 0; lane < LANES; lane += 16) body(mydev_vector(), lane, begin + lane);
  } else {
    for (int lane = 0; lane < int(left); ++lane) body(f32(), lane, begin + lane);
  }
}
#else
typedef f32 f32s;
#define VECTORS_OPEN LOOP_OPEN
#define VECTORS_CLOSE LOOP_CLOSE
#define VECTOR_AT(element) element
#endif

FN f32 log_f32(f32 x) {
  const bool denormal = x < 1.17549435e-38f;
  const f32 scaled = denormal ? x * 8388608.0f : x;
  const i32 exponent = (i32(bits_of_f32(scaled)) - 0x3f3504f3) >> 23;
  const f32 m = f32_of_bits(bits_of_f32(scaled) - (u32(exponent) << 23));
  const f32 n = f32(exponent - (denormal ? 23 : 0));
  const f32 f = m - 1.0f, z = f * f;
  f32 p = NATIVE(fma)(f, 0.07333003112f, -0.1166381564f);
  p = NATIVE(fma)(f, p, 0.1163605849f);
  p = NATIVE(fma)(f, p, -0.123962282f);
  p = NATIVE(fma)(f, p, 0.1425098812f);
  p = NATIVE(fma)(f, p, -0.166691679f);
  p = NATIVE(fma)(f, p, 0.2000069285f);
  p = NATIVE(fma)(f, p, -0.2499998102f);
  p = NATIVE(fma)(f, p, 0.3333333124f);
  const f32 low = NATIVE(fma)(n, 1.42860677e-6f, NATIVE(fma)(f * z, p, z * -0.5f));
  f32 result = NATIVE(fma)(n, 0.693145752f, f + low);
  result = x == 0.0f ? -INFINITY_f32 : result;
  result = x < 0.0f ? NAN_f32 : result;
  return x < INFINITY_f32 ? result : x;
}
FN f32 sigmoid_f32(f32 x) {
  // Gives 1 / (1 + exp(-x)) to the bit. The bound replaces smaller exponentials by the least: the sum loses the
  // difference anyway. Without them, 2^(n-1) is no denormal.
  const f32 bounded = x > 80.0f ? 80.0f : x;
  const f32 shifted = NATIVE(fma)(bounded, -1.44269504f, 12583038.0f);
  i32 bits = i32(bits_of_f32(shifted));
  bits = bits < 0x4b4000fe ? bits : 0x4b4000fe;
  const f32 n = f32_of_bits(u32(bits)) - 12583038.0f;
  const f32 r = NATIVE(fma)(n, -1.42860677e-6f, NATIVE(fma)(n, -0.693145752f, -bounded));
  f32 p = NATIVE(fma)(r, 0.001394216894f, 0.008363776151f);
  p = NATIVE(fma)(r, p, 0.04166636335f);
  p = NATIVE(fma)(r, p, 0.1666657336f);
  p = NATIVE(fma)(r, p, 0.5000000029f);
  const f32 low = NATIVE(fma)(r * r, p, r);
  const f32 power = f32_of_bits(u32(bits) << 23);
  return 1.0f / NATIVE(fma)(NATIVE(fma)(low, power, power), 2.0f, 1.0f);
}
FN f64 exp_f64(f64 x) { return std::exp(x); }
FN f64 log_f64(f64 x) { return std::log(x); }
FN f64 sigmoid_f64(f64 x) { return 1.0 / (1.0 + std::exp(-x)); }
FN f64 tanh_f64(f64 x) { return std::tanh(x); }
FN f64 erf_f64(f64 x) { return std::erf(x); }
FN f64 one_plus_erf_f64(f64 x) { return 1.0 + std::erf(x); }
FN f32 rsqrt_f32(f32 x) { return 1.0f / std::sqrt(x); }
FN f64 rsqrt_f64(f64 x) { return 1.0 / std::sqrt(x); }
FN bool signbit_f32(f32 x) { return bits_of_f32(x) >> 31; }
FN bool signbit_f64(f64 x) { return bits_of_f64(x) >> 63; }

#define ATOMIC_ADD(T, V, sum)                                                        \
  FN void atomic_add_##T(T* place, V value) {                                        \
    T old, wanted;                                                                   \
    __atomic_load(place, &old, __ATOMIC_RELAXED);                                    \
    do {                                                                             \
      wanted = sum;                                                                  \
    } while (!__atomic_compare_exchange(place, &old, &wanted, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)); \
  }
ATOMIC_ADD(f32, f32, old + value)
ATOMIC_ADD(f64, f64, old + value)
ATOMIC_ADD(i32, i32, i32(u32(old) + u32(value)))
ATOMIC_ADD(i64, i64, i64(u64(old) + u64(value)))
