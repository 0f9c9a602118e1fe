#include "host_kernels/isa/pointwise_chain.h"

#include "host_kernels/isa/dense_values.h"
#include "host_kernels/isa/simd.h"
#include "host_kernels/isa/vector_math.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

// Vectors at once, so that choosing what is computed costs less than computing it: as many as registers hold beside
// what an exponential needs, and of light operations alone; and of what these leave.
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
  kLastLight = kRelu,
  kExp,
  kTanh,
  kSigmoid,
};

struct Row {
  const char* kernel;
  Operation operation;
};
constexpr Row kRows[] = {
    {"mydev.add", kAdd},         {"mydev.sub", kSub},         {"mydev.mul", kMul},   {"mydev.div", kDiv},
    {"mydev.maximum", kMaximum}, {"mydev.minimum", kMinimum}, {"mydev.neg", kNeg},   {"mydev.abs", kAbs},
    {"mydev.relu", kRelu},       {"mydev.exp", kExp},         {"mydev.tanh", kTanh}, {"mydev.sigmoid", kSigmoid},
};

template <int count>
struct Pack {
  F32 v[count];
};

// Vectors, or, of one, the first `part` lanes, if that is not 0.
[[gnu::always_inline]] inline F32 load_lanes(const float* from, int64_t part) {
  return part == 0 ? load(from) : load_partial(from, part);
}
template <int count>
[[gnu::always_inline]] inline void store_pack(float* to, const Pack<count>& pack, bool streamed, int64_t part) {
  if (part != 0) return store_partial(to, pack.v[0], part);
  const bool past_caches = streamed && reinterpret_cast<uintptr_t>(to) % kVectorBytes == 0;
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

constexpr int32_t case_of(int32_t operation, ChainCall::Form form) {
  return operation * 8 + form;
}

// One jump for a light operation and how its operands come. Each as its kernel computes it (binary.cpp, unary.cpp).
template <int count>
[[gnu::always_inline]] inline void compute(const ChainCall& call, Pack<count>& a, int64_t i, int64_t part) {
  const float* const operand = call.form == ChainCall::kOne ? call.operand : call.operand + i;
#define MYDEV_FORM(operation, form, function) \
  case case_of(operation, form):              \
    return combine<form>(a, operand, part, function)
#define MYDEV_BINARY(operation, function)              \
  MYDEV_FORM(operation, ChainCall::kItself, function); \
  MYDEV_FORM(operation, ChainCall::kOne, function);    \
  MYDEV_FORM(operation, ChainCall::kSecond, function); \
  MYDEV_FORM(operation, ChainCall::kFirst, function)
  switch (case_of(call.operation, call.form)) {
    MYDEV_BINARY(kAdd, [](F32 x, F32 y) { return x + y; });
    MYDEV_BINARY(kSub, [](F32 x, F32 y) { return x - y; });
    MYDEV_BINARY(kMul, [](F32 x, F32 y) { return x * y; });
    MYDEV_BINARY(kDiv, [](F32 x, F32 y) { return x / y; });
    MYDEV_BINARY(kMaximum, [](F32 x, F32 y) { return ((x >= y) | (x != x)) ? x : y; });
    MYDEV_BINARY(kMinimum, [](F32 x, F32 y) { return ((x <= y) | (x != x)) ? x : y; });
    MYDEV_FORM(kNeg, ChainCall::kAlone, [](F32 x) { return -x; });
    MYDEV_FORM(kAbs, ChainCall::kAlone, [](F32 x) { return abs(x); });
    MYDEV_FORM(kRelu, ChainCall::kAlone, [](F32 x) { return x < 0 ? F32{} : x; });
    default:
      break;
  }
  if constexpr (count <= kAtOnce) {
    switch (case_of(call.operation, call.form)) {
      MYDEV_FORM(kExp, ChainCall::kAlone, [](F32 x) { return exp(x); });
      MYDEV_FORM(kTanh, ChainCall::kAlone, [](F32 x) { return tanh(x); });
      MYDEV_FORM(kSigmoid, ChainCall::kAlone, [](F32 x) { return sigmoid(x); });
      default:
        break;
    }
  }
#undef MYDEV_BINARY
#undef MYDEV_FORM
}

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

template <int count>
[[gnu::always_inline]] inline void run_pack(const float* start, std::span<const ChainCall> calls, int64_t i,
                                            int64_t part, Sum* sum) {
  Pack<count> value;
#pragma GCC unroll 16
  for (int k = 0; k < count; ++k) value.v[k] = load_lanes(start + i + k * kLanes<float>, part);
  for (const ChainCall& call : calls) {
    compute(call, value, i, part);
    if (call.out != nullptr) store_pack(call.out + i, value, call.streamed, part);
  }
  if (sum != nullptr) sum->add(value, i, part);
}

template <int count>
void run_vectors(const float* start, std::span<const ChainCall> calls, int64_t n, Sum* sum) {
  constexpr int64_t kVector = kLanes<float>;
  int64_t i = 0;
  for (; i + count * kVector <= n; i += count * kVector) run_pack<count>(start, calls, i, 0, sum);
  for (; i + kFew * kVector <= n; i += kFew * kVector) run_pack<kFew>(start, calls, i, 0, sum);
  for (; i + kVector <= n; i += kVector) run_pack<1>(start, calls, i, 0, sum);
  if (i < n) run_pack<1>(start, calls, i, n - i, sum);
}

}  // namespace

int32_t chain_operation(const char* kernel) {
  for (const Row& row : kRows) {
    if (__builtin_strcmp(row.kernel, kernel) == 0) return row.operation;
  }
  return kNone;
}

void run_chain(const float* start, std::span<const ChainCall> calls, int64_t n, double* sum) {
  bool is_light = true;
  for (const ChainCall& call : calls) is_light &= call.operation <= kLastLight;
  const auto run = is_light ? run_vectors<kLightAtOnce> : run_vectors<kAtOnce>;
  if (sum == nullptr) return run(start, calls, n, nullptr);
  Sum lanes(n);
  run(start, calls, n, &lanes);
  *sum = lanes.result();
}

}  // namespace mydev::kernels::MYDEV_ISA
