// Kernel group binary: out = f(a, b), all of T: arithmetic, extrema, bits.
//
// Integers wrap round. Division of integers by zero fails the launch with "ZeroDivisionError", and leaves the dividend,
// so that what is divided in place is not lost; a remainder has the
// divisor's sign (mydev.remainder) or the dividend's (mydev.fmod). Shifts by a negative count or by more than the type
// has bits give what shifting all bits out gives.
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
  T alpha;
  explicit Add(const Params& params) : alpha(params.get<T>(0, T(1))) {}
  T operator()(T a, T b) const { return add_scaled(a, alpha, b); }
};
template <typename T>
struct Sub {
  T alpha;
  explicit Sub(const Params& params) : alpha(params.get<T>(0, T(1))) {}
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) return add_scaled(a, -alpha, b);
    return wrap_sub(a, wrap_mul(alpha, b));
  }
};
template <typename T>
struct Mul {
  T operator()(T a, T b) const { return wrap_mul(a, b); }
};
template <typename T>
struct Div {
  T operator()(T a, T b) const { return a / b; }
};

// Quotient and remainder of integers; b == 0 is reported, b == -1 must not trap on the smallest number.
template <typename T>
struct IntegerDivision {
  const Params* params;
  explicit IntegerDivision(const Params& p) : params(&p) {}
  bool defined(T b) const {
    if (b == 0) params->fail();
    return b != 0;
  }
  T quotient(T a, T b) const { return b == -1 ? wrap_sub(T{0}, a) : static_cast<T>(a / b); }
  T remainder(T a, T b) const { return b == -1 ? T{0} : static_cast<T>(a % b); }
};
template <typename T>
struct DivTrunc {
  T operator()(T a, T b) const { return std::trunc(a / b); }
};
template <std::integral T>
struct DivTrunc<T> : IntegerDivision<T> {
  using IntegerDivision<T>::IntegerDivision;
  T operator()(T a, T b) const { return this->defined(b) ? this->quotient(a, b) : a; }
};
template <typename T>
struct Fmod {
  template <typename V>
  V operator()(V a, V b) const {
    return fmod(a, b);
  }
};
template <std::integral T>
struct Fmod<T> : IntegerDivision<T> {
  using IntegerDivision<T>::IntegerDivision;
  T operator()(T a, T b) const { return this->defined(b) ? this->remainder(a, b) : a; }
};
template <typename T>
struct Remainder {
  template <typename V>
  V operator()(V a, V b) const {
    const V r = fmod(a, b);
    return (r != T(0)) & ((r < T(0)) != (b < T(0))) ? r + b : r;
  }
};
template <std::integral T>
struct Remainder<T> : IntegerDivision<T> {
  using IntegerDivision<T>::IntegerDivision;
  T operator()(T a, T b) const {
    if (!this->defined(b)) return a;
    const T r = this->remainder(a, b);
    return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
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
template <std::integral T>
struct DivFloor<T> : IntegerDivision<T> {
  using IntegerDivision<T>::IntegerDivision;
  T operator()(T a, T b) const {
    if (!this->defined(b)) return a;
    const T r = this->remainder(a, b);
    const T quotient = this->quotient(a, b);
    return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(quotient - 1) : quotient;
  }
};

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
  T operator()(T a, T b) const { return a & b; }
};
template <typename T>
struct BitwiseOr {
  T operator()(T a, T b) const { return a | b; }
};
template <typename T>
struct BitwiseXor {
  T operator()(T a, T b) const { return a ^ b; }
};
template <typename T>
struct BitwiseNot {
  T operator()(T a) const { return ~a; }
};
// On bytes of PRED, of which each but 0 is true.
struct PredAnd {
  uint8_t operator()(uint8_t a, uint8_t b) const { return (a != 0) & (b != 0); }
};
struct PredOr {
  uint8_t operator()(uint8_t a, uint8_t b) const { return (a | b) != 0; }
};
struct PredXor {
  uint8_t operator()(uint8_t a, uint8_t b) const { return (a != 0) != (b != 0); }
};
struct PredNot {
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

constexpr char kZeroDivision[] = "ZeroDivisionError";

constexpr PointwiseKernel kKernels[] = {
    {.name = "mydev.add",
     .inputs = 2,
     .types = numbers<Add, 2>() | bfloats<Add, 2>() | complexes<Add, 2>(),
     .by_one = floats_by_one<Add>()},
    {.name = "mydev.sub",
     .inputs = 2,
     .types = numbers<Sub, 2>() | bfloats<Sub, 2>() | complexes<Sub, 2>(),
     .pred = false,
     .by_one = floats_by_one<Sub>()},
    {.name = "mydev.mul",
     .inputs = 2,
     .types = numbers<Mul, 2>() | bfloats<Mul, 2>() | complexes<Mul, 2>(),
     .by_one = floats_by_one<Mul>()},
    {.name = "mydev.div",
     .inputs = 2,
     .types = floats<Div, 2>() | bfloats<Div, 2>() | complexes<Div, 2>(),
     .by_one = floats_by_one<Div>()},
    {.name = "mydev.div_trunc",
     .inputs = 2,
     .types = numbers<DivTrunc, 2>(),
     .grain = kGrainHeavy,
     .pred = false,
     .failure = kZeroDivision},
    {.name = "mydev.div_floor",
     .inputs = 2,
     .types = packed_floats<DivFloor, 2>() | integers<DivFloor, 2>(),
     .grain = kGrainHeavy,
     .pred = false,
     .failure = kZeroDivision},
    {.name = "mydev.remainder",
     .inputs = 2,
     .types = packed_floats<Remainder, 2>() | integers<Remainder, 2>(),
     .grain = kGrainHeavy,
     .pred = false,
     .failure = kZeroDivision},
    {.name = "mydev.fmod",
     .inputs = 2,
     .types = packed_floats<Fmod, 2>() | integers<Fmod, 2>(),
     .grain = kGrainHeavy,
     .pred = false,
     .failure = kZeroDivision},
    {.name = "mydev.pow",
     .inputs = 2,
     .types = packed_floats<Pow, 2>() | integers<Pow, 2>(),
     .grain = kGrainHeavy,
     .pred = false},
    {.name = "mydev.atan2", .inputs = 2, .types = packed_floats<Atan2, 2>(), .grain = kGrainHeavy},
    {.name = "mydev.maximum", .inputs = 2, .types = numbers<Maximum, 2>()},
    {.name = "mydev.minimum", .inputs = 2, .types = numbers<Minimum, 2>()},
    {.name = "mydev.bitwise_and",
     .inputs = 2,
     .types = integers<BitwiseAnd, 2>(),
     .for_pred = apply_lanes<PredAnd, uint8_t, uint8_t, 2>},
    {.name = "mydev.bitwise_or",
     .inputs = 2,
     .types = integers<BitwiseOr, 2>(),
     .for_pred = apply_lanes<PredOr, uint8_t, uint8_t, 2>},
    {.name = "mydev.bitwise_xor",
     .inputs = 2,
     .types = integers<BitwiseXor, 2>(),
     .for_pred = apply_lanes<PredXor, uint8_t, uint8_t, 2>},
    {.name = "mydev.bitwise_not",
     .inputs = 1,
     .types = integers<BitwiseNot, 1>(),
     .for_pred = apply_lanes<PredNot, uint8_t, uint8_t, 1>},
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
