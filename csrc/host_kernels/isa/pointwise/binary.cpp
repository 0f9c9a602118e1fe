// Kernel group binary: out = f(a, b), all of T: arithmetic, extrema, bits.
//
// Integers wrap round. Division of integers by zero fails the launch with "ZeroDivisionError", and leaves the dividend,
// so that what is divided in place is not lost; a remainder has the
// divisor's sign (mydev.remainder) or the dividend's (mydev.fmod). Shifts by a negative count or by more than the type
// has bits give what shifting all bits out gives.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "host_kernels/isa/pointwise/pointwise.h"
#include "host_kernels/isa/simd/vector_math.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

// Arithmetic modulo 2^bits for integers, the type's own for the others.
template <typename T>
struct Wrapping {
  using type = T;
};
template <std::integral T>
struct Wrapping<T> {
  using type = std::make_unsigned_t<T>;
};
template <typename T>
T wrap_add(T a, T b) {
  using W = typename Wrapping<T>::type;
  return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
}
template <typename T>
T wrap_sub(T a, T b) {
  using W = typename Wrapping<T>::type;
  return static_cast<T>(static_cast<W>(a) - static_cast<W>(b));
}
template <typename T>
T wrap_mul(T a, T b) {
  using W = typename Wrapping<T>::type;
  return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
}

// a + factor * b, of floats with one rounding where the processor has that: whatever the compiler is told.
template <typename T>
T add_scaled(T a, T factor, T b) {
#ifdef __FMA__
  if constexpr (std::is_floating_point_v<T>) return std::fma(factor, b, a);
#endif
  return wrap_add(a, wrap_mul(factor, b));
}

template <typename T>
struct Add {
  using FewInstructions = void;
  T alpha;
  explicit Add(const Params& params) : alpha(params.get<T>(0, T(1))) {}
  T operator()(T a, T b) const { return add_scaled(a, alpha, b); }
};
template <typename T>
struct Sub {
  using FewInstructions = void;
  T alpha;
  explicit Sub(const Params& params) : alpha(params.get<T>(0, T(1))) {}
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) return add_scaled(a, -alpha, b);
    return wrap_sub(a, wrap_mul(alpha, b));
  }
};
template <typename T>
struct Mul {
  using FewInstructions = void;
  T operator()(T a, T b) const { return wrap_mul(a, b); }
};
template <typename T>
struct Div {
  using FewInstructions = void;
  T operator()(T a, T b) const { return a / b; }
};

template <typename T>
struct DivTrunc {
  T operator()(T a, T b) const { return std::trunc(a / b); }
};
template <typename T>
struct Fmod {
  template <typename V>
  V operator()(V a, V b) const {
    return fmod(a, b);
  }
};
template <typename T>
struct Remainder {
  template <typename V>
  V operator()(V a, V b) const {
    const V r = fmod(a, b);
    return (r != T(0)) & ((r < T(0)) != (b < T(0))) ? r + b : r;
  }
};
// Floor division as Python defines it: a == floor_div * b + remainder, but for rounding.
template <typename T>
struct DivFloor {
  template <typename V>
  V operator()(V a, V b) const {
    const V r = fmod(a, b);
    V quotient = (a - r) / b;
    quotient = (r != T(0)) & ((r < T(0)) != (b < T(0))) ? quotient - T(1) : quotient;
    const V down = floor(quotient);
    const V nearest = quotient - down > T(0.5) ? down + T(1) : down;
    return b == T(0) ? a / b : (quotient == T(0) ? copysign(V{}, a / b) : nearest);
  }
};

// --- division of integers --------------------------------------------------------------------------------------------

// Each operator makes its result from the quotient, which is cut, its remainder and the divisor.
struct CutQuotient {
  template <typename T>
  T operator()(T quotient, T, T) const {
    return quotient;
  }
};
struct FloorQuotient {
  template <typename T>
  T operator()(T quotient, T rest, T divisor) const {
    return wrap_sub(quotient, static_cast<T>((rest != 0) & ((rest < 0) != (divisor < 0))));
  }
};
struct CutRemainder {
  template <typename T>
  T operator()(T, T rest, T) const {
    return rest;
  }
};
struct FloorRemainder {
  template <typename T>
  T operator()(T, T rest, T divisor) const {
    return wrap_add(rest, (rest != 0) & ((rest < 0) != (divisor < 0)) ? divisor : T{0});
  }
};

// A floating quotient, cut, is the integers' if they have fewer bits than its mantissa: it is no nearer to the next
// integer than 1 / b, and floating numbers of its size lie closer. Vectors are divided in a fraction of integers' time.
template <typename Floating, typename T>
void divide(const T* dividends, const T* divisors, T* quotients, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    quotients[i] = static_cast<T>(static_cast<Floating>(dividends[i]) / static_cast<Floating>(divisors[i]));
  }
}
template <typename Finish, typename T>
void apply_division(const Params& params, void* out, const void* const* in, int64_t n) {
  constexpr int64_t kBlock = 64;
  constexpr int kSign = 8 * sizeof(T) - 1;
  T* const to = static_cast<T*>(out);
  const T* const a = static_cast<const T*>(in[0]);
  const T* const b = static_cast<const T*>(in[1]);
  bool fails = false;
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t count = std::min(kBlock, n - first);
    T dividends[kBlock], divisors[kBlock], quotients[kBlock];
    T zeros = 0, magnitudes = 0;
    for (int64_t i = 0; i < count; ++i) {
      const T dividend = a[first + i], divisor = b[first + i];
      zeros |= divisor == 0 ? T{1} : T{0};
      magnitudes |= (dividend ^ (dividend >> kSign)) | (divisor ^ (divisor >> kSign));  // of negative ones less 1
      // By -1 the smallest number overflows, and by 0 everything does: both divide by 1, and are mended below.
      dividends[i] = divisor == -1 ? wrap_sub(T{0}, dividend) : dividend;
      divisors[i] = (divisor == -1) | (divisor == 0) ? T{1} : divisor;
    }
    const auto bits = static_cast<int64_t>(magnitudes);
    if (bits >> 22 == 0) {
      divide<float>(dividends, divisors, quotients, count);
    } else if (bits >> 51 == 0) {
      divide<double>(dividends, divisors, quotients, count);
    } else {
      for (int64_t i = 0; i < count; ++i) quotients[i] = dividends[i] / divisors[i];
    }
    for (int64_t i = 0; i < count; ++i) {
      const T dividend = a[first + i], divisor = b[first + i];
      const T rest = wrap_sub(dividend, wrap_mul(quotients[i], divisor));
      const T result = Finish()(quotients[i], rest, divisor);
      to[first + i] = divisor == 0 ? dividend : result;
    }
    fails |= zeros != 0;
  }
  if (fails) params.fail();
}
template <typename Finish>
constexpr Types divisions() {
  return {.s32 = apply_division<Finish, int32_t>, .s64 = apply_division<Finish, int64_t>};
}

// --- powers, extrema, bits -------------------------------------------------------------------------------------------

template <typename T>
struct Pow {
  template <typename V>
  V operator()(V a, V b) const {
    return pow(a, b);
  }
};
template <std::integral T>
struct Pow<T> {
  T operator()(T base, T exponent) const {
    if (exponent < 0) {
      if (base == 1) return 1;
      return base == -1 ? (exponent % 2 != 0 ? T{-1} : T{1}) : T{0};
    }
    T result = 1;
    for (; exponent != 0; exponent >>= 1) {
      if (exponent & 1) result = wrap_mul(result, base);
      base = wrap_mul(base, base);
    }
    return result;
  }
};
template <typename>
struct Atan2 {
  template <typename V>
  V operator()(V a, V b) const {
    return atan2(a, b);
  }
};

// NaN wins; of equal numbers, which zeros of either sign are, the first.
template <typename T>
struct Maximum {
  T operator()(T a, T b) const { return a >= b || a != a ? a : b; }
};
template <typename T>
struct Minimum {
  T operator()(T a, T b) const { return a <= b || a != a ? a : b; }
};

template <typename T>
struct BitwiseAnd {
  using FewInstructions = void;
  T operator()(T a, T b) const { return a & b; }
};
template <typename T>
struct BitwiseOr {
  using FewInstructions = void;
  T operator()(T a, T b) const { return a | b; }
};
template <typename T>
struct BitwiseXor {
  using FewInstructions = void;
  T operator()(T a, T b) const { return a ^ b; }
};
template <typename T>
struct BitwiseNot {
  T operator()(T a) const { return ~a; }
};
struct TruthNot {
  uint8_t operator()(uint8_t a) const { return a == 0; }
};
template <typename T>
struct LeftShift {
  T operator()(T a, T b) const {
    using U = std::make_unsigned_t<T>;
    constexpr T kBits = sizeof(T) * 8;
    return b < 0 || b >= kBits ? T{0} : static_cast<T>(static_cast<U>(a) << b);
  }
};
template <typename T>
struct RightShift {
  T operator()(T a, T b) const {
    constexpr T kBits = sizeof(T) * 8;
    return static_cast<T>(a >> (b < 0 || b >= kBits ? kBits - 1 : b));
  }
};

template <typename Op, int inputs>
constexpr Types truths() {
  return {.pred = apply_lanes<Op, uint8_t, uint8_t, inputs>};
}

constexpr char kZeroDivision[] = "ZeroDivisionError";

constexpr PointwiseKernel kKernels[] = {
    {.name = "mydev.add",
     .inputs = 2,
     .types = numbers<Add, 2>() | small_integers<Add, 2>() | bfloats<Add, 2>() | complexes<Add, 2>(),
     .wraps = true,
     .by_one = floats_by_one<Add>()},
    {.name = "mydev.sub",
     .inputs = 2,
     .types = numbers<Sub, 2>() | small_integers<Sub, 2>() | bfloats<Sub, 2>() | complexes<Sub, 2>(),
     .pred = false,
     .wraps = true,
     .by_one = floats_by_one<Sub>()},
    {.name = "mydev.mul",
     .inputs = 2,
     .types = numbers<Mul, 2>() | small_integers<Mul, 2>() | bfloats<Mul, 2>() | complexes<Mul, 2>(),
     .wraps = true,
     .by_one = floats_by_one<Mul>()},
    {.name = "mydev.div",
     .inputs = 2,
     .types = floats<Div, 2>() | bfloats<Div, 2>() | complexes<Div, 2>(),
     .by_one = floats_by_one<Div>()},
    {.name = "mydev.div_trunc",
     .inputs = 2,
     .types = floats<DivTrunc, 2>() | divisions<CutQuotient>(),
     .grain = kGrainHeavy,
     .pred = false,
     .failure = kZeroDivision},
    {.name = "mydev.div_floor",
     .inputs = 2,
     .types = packed_floats<DivFloor, 2>() | divisions<FloorQuotient>(),
     .grain = kGrainHeavy,
     .pred = false,
     .failure = kZeroDivision},
    {.name = "mydev.remainder",
     .inputs = 2,
     .types = packed_floats<Remainder, 2>() | divisions<FloorRemainder>(),
     .grain = kGrainHeavy,
     .pred = false,
     .failure = kZeroDivision},
    {.name = "mydev.fmod",
     .inputs = 2,
     .types = packed_floats<Fmod, 2>() | divisions<CutRemainder>(),
     .grain = kGrainHeavy,
     .pred = false,
     .failure = kZeroDivision},
    {.name = "mydev.pow",
     .inputs = 2,
     .types = packed_floats<Pow, 2>() | integers<Pow, 2>(),
     .grain = kGrainHeavy,
     .pred = false},
    {.name = "mydev.atan2", .inputs = 2, .types = packed_floats<Atan2, 2>(), .grain = kGrainHeavy},
    {.name = "mydev.maximum", .inputs = 2, .types = numbers<Maximum, 2>() | small_integers<Maximum, 2>()},
    {.name = "mydev.minimum", .inputs = 2, .types = numbers<Minimum, 2>() | small_integers<Minimum, 2>()},
    {.name = "mydev.bitwise_and",
     .inputs = 2,
     .types = integers<BitwiseAnd, 2>() | small_integers<BitwiseAnd, 2>() | truths<OfTruth<BitwiseAnd<uint8_t>>, 2>(),
     .wraps = true},
    {.name = "mydev.bitwise_or",
     .inputs = 2,
     .types = integers<BitwiseOr, 2>() | small_integers<BitwiseOr, 2>() | truths<OfTruth<BitwiseOr<uint8_t>>, 2>(),
     .wraps = true},
    {.name = "mydev.bitwise_xor",
     .inputs = 2,
     .types = integers<BitwiseXor, 2>() | small_integers<BitwiseXor, 2>() | truths<OfTruth<BitwiseXor<uint8_t>>, 2>(),
     .wraps = true},
    {.name = "mydev.bitwise_not",
     .inputs = 1,
     .types = integers<BitwiseNot, 1>() | small_integers<BitwiseNot, 1>() | truths<TruthNot, 1>(),
     .wraps = true},
    {.name = "mydev.lshift", .inputs = 2, .types = integers<LeftShift, 2>(), .pred = false},
    {.name = "mydev.rshift", .inputs = 2, .types = integers<RightShift, 2>(), .pred = false},
};

}  // namespace

std::span<const PointwiseKernel> binary_kernels() {
  return kKernels;
}

std::span<const mydev_kernel> binary() {
  return kPointwiseRecords<kKernels>;
}

}  // namespace mydev::kernels::MYDEV_ISA
