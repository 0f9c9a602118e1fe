#include "host_kernels/isa/pointwise/pointwise_chain.h"

#include <algorithm>

#include "host_kernels/isa/simd/dense_values.h"
#include "host_kernels/isa/simd/simd.h"
#include "host_kernels/isa/simd/vector_math.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

// Vectors at once, so that to choose an operation costs less than to compute it. Registers hold kAtOnce vectors beside
// what an exponential needs, and kLightAtOnce if all operations are light; kFew are taken of what these leave.
constexpr int kAtOnce = 8, kLightAtOnce = kVectorBytes == 64 ? 16 : 8, kFew = 4;

enum Operation : int32_t {
  kNone,
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMaximum,
  kMinimum,
  kNeg,
  kAbs,
  kRelu,
  kSqrt,
  kRsqrt,
  kLastLight = kRsqrt,
  kExp,
  kTanh,
  kSigmoid,
  kExpOfDifference,  // no kernel's
};

struct Row {
  const char* kernel;
  Operation operation;
};
constexpr Row kRows[] = {
    {"mydev.add", kAdd},         {"mydev.sub", kSub},         {"mydev.mul", kMul},     {"mydev.div", kDiv},
    {"mydev.maximum", kMaximum}, {"mydev.minimum", kMinimum}, {"mydev.neg", kNeg},     {"mydev.abs", kAbs},
    {"mydev.relu", kRelu},       {"mydev.sqrt", kSqrt},       {"mydev.rsqrt", kRsqrt}, {"mydev.exp", kExp},
    {"mydev.tanh", kTanh},       {"mydev.sigmoid", kSigmoid},
};

template <int count>
struct Pack {
  F32 v[count];
};

// Loads a vector, or only its first `part` lanes, if that is not 0.
[[gnu::always_inline]] inline F32 load_lanes(const float* from, int64_t part) {
  return part == 0 ? load(from) : load_partial(from, part);
}
[[gnu::always_inline]] inline bool is_aligned(const float* values) {
  return reinterpret_cast<uintptr_t>(values) % kVectorBytes == 0;
}
// `past_caches` is for aligned addresses only.
template <int count>
[[gnu::always_inline]] inline void store_pack(float* to, const Pack<count>& pack, bool past_caches, int64_t part) {
  if (part != 0) return store_partial(to, pack.v[0], part);
#pragma GCC unroll 16
  for (int k = 0; k < count; ++k) {
    float* const at = to + k * kLanes<float>;
    if (past_caches) {
      store_past_caches(at, pack.v[k]);
    } else {
      store(at, pack.v[k]);
    }
  }
}

template <ChainCall::Form form, int count, typename Function>
[[gnu::always_inline]] inline void combine(Pack<count>& a, const float* operand, int64_t part, Function of) {
#pragma GCC unroll 16
  for (int k = 0; k < count; ++k) {
    if constexpr (form == ChainCall::kAlone) {
      a.v[k] = of(a.v[k]);
    } else if constexpr (form == ChainCall::kItself) {
      a.v[k] = of(a.v[k], a.v[k]);
    } else if constexpr (form == ChainCall::kOne) {
      a.v[k] = of(a.v[k], splat(*operand));
    } else if constexpr (form == ChainCall::kSecond) {
      a.v[k] = of(a.v[k], load_lanes(operand + k * kLanes<float>, part));
    } else {
      a.v[k] = of(load_lanes(operand + k * kLanes<float>, part), a.v[k]);
    }
  }
}

// Quotients by one number: products with the reciprocal, corrected by their remainders. They are those of a division to
// the bit (Markstein, IBM Journal of Research and Development 34, 1990) if nothing on the way leaves the range of
// normal numbers. Exponents are far from both ends of it if their two highest bits differ.
template <int count>
[[gnu::always_inline]] inline void divide(Pack<count>& a, F32 divisor) {
#if defined(MYDEV_ISA_AVX512) || defined(MYDEV_ISA_AVX2)
  const auto middling = [](F32 x) { return bits(x) ^ (bits(x) << 1); };
  constexpr int32_t kHighestOfExponent = 1 << 30;
  I32 all = middling(divisor);
#pragma GCC unroll 16
  for (int k = 0; k < count; ++k) all &= middling(a.v[k]);
  if (in_all_lanes(all, kHighestOfExponent)) {
    const F32 inverse = 1.0f / divisor;
#pragma GCC unroll 16
    for (int k = 0; k < count; ++k) {
      const F32 first = a.v[k] * inverse;
      a.v[k] = fma(fma(-first, divisor, a.v[k]), inverse, first);
    }
    return;
  }
#endif
#pragma GCC unroll 16
  for (int k = 0; k < count; ++k) a.v[k] = a.v[k] / divisor;
}

constexpr int32_t case_of(int32_t operation, ChainCall::Form form) {
  return operation * 8 + form;
}

// Combines a pack with the operand's lanes as the form says, by a function that computes as its kernel does
// (binary.cpp, unary.cpp).
template <ChainCall::Form kForm, typename Function>
struct Combination {
  static constexpr ChainCall::Form form = kForm;
  template <int count>
  [[gnu::always_inline]] void operator()(Pack<count>& a, const float* operand, int64_t part) const {
    combine<kForm>(a, operand, part, Function{});
  }
};
struct Quotient {
  static constexpr ChainCall::Form form = ChainCall::kOne;
  template <int count>
  [[gnu::always_inline]] void operator()(Pack<count>& a, const float* operand, int64_t /*part*/) const {
    divide(a, splat(*operand));
  }
};

#define MYDEV_FORM(operation, form, function)       \
  case case_of(operation, form):                    \
    visit(Combination<form, decltype(function)>{}); \
    return true
#define MYDEV_BY_LANES(operation, function)            \
  MYDEV_FORM(operation, ChainCall::kItself, function); \
  MYDEV_FORM(operation, ChainCall::kSecond, function); \
  MYDEV_FORM(operation, ChainCall::kFirst, function)
#define MYDEV_BINARY(operation, function) \
  MYDEV_BY_LANES(operation, function);    \
  MYDEV_FORM(operation, ChainCall::kOne, function)

// Calls `visit` with the call's operation; false: it is none of these.
template <typename Visit>
[[gnu::always_inline]] inline bool visit_quick(const ChainCall& call, const Visit& visit) {
  switch (case_of(call.operation, call.form)) {
    MYDEV_BINARY(kAdd, [](F32 x, F32 y) { return x + y; });
    MYDEV_BINARY(kSub, [](F32 x, F32 y) { return x - y; });
    MYDEV_BINARY(kMul, [](F32 x, F32 y) { return x * y; });
    MYDEV_BY_LANES(kDiv, [](F32 x, F32 y) { return x / y; });
    MYDEV_BINARY(kMaximum, [](F32 x, F32 y) { return ((x >= y) | (x != x)) ? x : y; });
    MYDEV_BINARY(kMinimum, [](F32 x, F32 y) { return ((x <= y) | (x != x)) ? x : y; });
    MYDEV_FORM(kNeg, ChainCall::kAlone, [](F32 x) { return -x; });
    MYDEV_FORM(kAbs, ChainCall::kAlone, [](F32 x) { return abs(x); });
    MYDEV_FORM(kRelu, ChainCall::kAlone, [](F32 x) { return x < 0 ? F32{} : x; });
    MYDEV_FORM(kSqrt, ChainCall::kAlone, [](F32 x) { return sqrt(x); });
    MYDEV_FORM(kRsqrt, ChainCall::kAlone, [](F32 x) { return 1.0f / sqrt(x); });
    default:
      return false;
  }
}
// The same for operations whose packs take so long that a jump for each is seen; in a light chain only for light ones.
template <bool kIsLight, typename Visit>
[[gnu::always_inline]] inline bool visit_slow(const ChainCall& call, const Visit& visit) {
  switch (case_of(call.operation, call.form)) {
    case case_of(kDiv, ChainCall::kOne):
      visit(Quotient{});
      return true;
    default:
      break;
  }
  if constexpr (!kIsLight) {
    switch (case_of(call.operation, call.form)) {
      MYDEV_FORM(kExp, ChainCall::kAlone, [](F32 x) { return exp(x); });
      MYDEV_FORM(kExpOfDifference, ChainCall::kOne, [](F32 x, F32 y) { return exp(x - y); });
      MYDEV_FORM(kTanh, ChainCall::kAlone, [](F32 x) { return tanh(x); });
      MYDEV_FORM(kSigmoid, ChainCall::kAlone, [](F32 x) { return sigmoid(x); });
      default:
        break;
    }
  }
  return false;
}
#undef MYDEV_BINARY
#undef MYDEV_BY_LANES
#undef MYDEV_FORM

// Apply calls to the pack at i of a line: several calls of any kind, with a jump for each, or one call of a known kind.
template <bool kIsLight>
class SeveralCalls {
 public:
  explicit SeveralCalls(std::span<const ChainCall> calls) : calls_(calls) {}
  [[gnu::always_inline]] auto in_line(int64_t line) const {
    return [this, line]<int count>(Pack<count>& a, int64_t i, int64_t part) __attribute__((always_inline)) {
      for (const ChainCall& call : calls_) {
        const float* operand = call.operand + line * call.operand_step + (call.form == ChainCall::kOne ? 0 : i);
        const auto compute = [&](const auto& function) { function(a, operand, part); };
        if (!visit_quick(call, compute)) visit_slow<kIsLight>(call, compute);
        if (call.out == nullptr) continue;
        float* const out = call.out + line * call.out_step + i;
        store_pack(out, a, call.streamed && is_aligned(out), part);
      }
    };
  }

 private:
  std::span<const ChainCall> calls_;
};
template <typename Function>
class OneCall {
 public:
  explicit OneCall(const ChainCall& call) : call_(call) {}
  [[gnu::always_inline]] auto in_line(int64_t line) const {
    const float* const operand = call_.operand + line * call_.operand_step;
    const float number = Function::form == ChainCall::kOne ? *operand : 0;
    float* const out = call_.out == nullptr ? nullptr : call_.out + line * call_.out_step;
    const bool past_caches = call_.streamed && is_aligned(out);
    return [=]<int count>(Pack<count>& a, int64_t i, int64_t part) __attribute__((always_inline)) {
      Function{}(a, Function::form == ChainCall::kOne ? &number : operand + i, part);
      if (out != nullptr) store_pack(out + i, a, past_caches, part);
    };
  }

 private:
  ChainCall call_;
};

// Sums as reduction.cpp sums rows that four vectors fit in, so that they are the same to the bit.
class Sum {
 public:
  explicit Sum(int64_t n) : whole_(n / kFour * kFour) {}
  template <int count>
  [[gnu::always_inline]] void add(const Pack<count>& pack, int64_t i, int64_t part) {
    if constexpr (count % 4 == 0) {
#pragma GCC unroll 16
      for (int k = 0; k < count; ++k) lanes_[k % 4] += pack.v[k];
    } else if (part != 0) {
      lanes_[1] += first_of(pack.v[0], part);
    } else {
      lanes_[i < whole_ ? i / kLanes<float> % 4 : 0] += pack.v[0];
    }
  }
  double result() const {
    const F32 lanes = (lanes_[0] + lanes_[1]) + (lanes_[2] + lanes_[3]);
    return across_lanes<double>(widen_low(lanes) + widen_high(lanes), kPlus);
  }

 private:
  static constexpr int64_t kFour = 4 * kLanes<float>;
  static F32 first_of(F32 v, int64_t part) {
    float values[kLanes<float>];
    store(values, v);
    return load_partial(values, part);
  }
  F32 lanes_[4] = {};
  int64_t whole_;
};
static_assert(4 * kLanes<float> <= kShortestSum && kBlockValues <= 64 * 4 * kLanes<float>, "lanes are emptied once");

template <int count, typename Compute>
[[gnu::always_inline]] inline void run_pack(const float* start, const Compute& compute, int64_t i, int64_t part,
                                            Sum* sum) {
  Pack<count> value;
#pragma GCC unroll 16
  for (int k = 0; k < count; ++k) value.v[k] = load_lanes(start + i + k * kLanes<float>, part);
  compute(value, i, part);
  if (sum != nullptr) sum->add(value, i, part);
}

template <int count, typename Compute>
[[gnu::always_inline]] inline void run_line(const float* start, int64_t n, const Compute& compute, Sum* sum) {
  constexpr int64_t kVector = kLanes<float>;
  int64_t i = 0;
  for (; i + count * kVector <= n; i += count * kVector) run_pack<count>(start, compute, i, 0, sum);
  for (; i + kFew * kVector <= n; i += kFew * kVector) run_pack<kFew>(start, compute, i, 0, sum);
  for (; i + kVector <= n; i += kVector) run_pack<1>(start, compute, i, 0, sum);
  if (i < n) run_pack<1>(start, compute, i, n - i, sum);
}

template <int count, bool kTotals, typename Calls>
void run_lines(const ChainLines& lines, const Calls& calls) {
  const int64_t n = lines.values;
  for (int64_t line = 0; line < lines.count; ++line) {
    const float* const start = lines.start + line * lines.start_step;
    if constexpr (kTotals) {
      Sum lanes(n);
      run_line<count>(start, n, calls.in_line(line), &lanes);
      const double sum = lanes.result();
      lines.totals[line * lines.total_step] =
          static_cast<float>(lines.total == RowReduction::kMean ? sum / static_cast<double>(n) : sum);
    } else {
      run_line<count>(start, n, calls.in_line(line), nullptr);
    }
  }
}

template <bool kTotals>
void run_calls(const ChainLines& lines, std::span<const ChainCall> calls) {
  const auto run_one = [&]<typename Function>(Function /*function*/) {
    run_lines<kAtOnce, kTotals>(lines, OneCall<Function>(calls[0]));
  };
  if (calls.size() == 1 && visit_slow<false>(calls[0], run_one)) return;
  if (std::ranges::all_of(calls, [](const ChainCall& call) { return call.operation <= kLastLight; })) {
    run_lines<kLightAtOnce, kTotals>(lines, SeveralCalls<true>(calls));
  } else {
    run_lines<kAtOnce, kTotals>(lines, SeveralCalls<false>(calls));
  }
}

}  // namespace

int32_t chain_operation(const char* kernel) {
  for (const Row& row : kRows) {
    if (__builtin_strcmp(row.kernel, kernel) == 0) return row.operation;
  }
  return kNone;
}

int32_t joined_operation(const ChainCall& call, int32_t operation) {
  const bool is_shift = call.operation == kSub && call.form == ChainCall::kOne;
  return is_shift && operation == kExp ? kExpOfDifference : kNone;
}

void run_chain(const ChainLines& lines, std::span<const ChainCall> calls) {
  (lines.totals != nullptr ? run_calls<true> : run_calls<false>)(lines, calls);
}

}  // namespace mydev::kernels::MYDEV_ISA
