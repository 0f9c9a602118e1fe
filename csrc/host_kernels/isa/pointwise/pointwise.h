// Pointwise kernels: out[i] = f(in0[i], in1[i], ...), over strided operands of any layout.
//
// Frame: one output, then the inputs, all of one rank and shape (stride 0 where broadcast). The inputs have the dtype
// T, but for PRED inputs that its contract names; the output has T, or PRED for predicates. f16 and bf16 compute in
// f32; u8, s8, s16 and PRED compute in s32 and are cut when stored, but for kernels that have functions of theirs.
// Inputs may be numbers (MYDEV_BUFFER_SCALAR). The output may be an input, exactly; any other overlap is the caller's
// error. A kernel that lacks T returns UNIMPLEMENTED.
//
// An operator is written once, for dense runs of compute values (Apply). Operands that are strided, broadcast or of
// another type pass through small buffers in the L1 cache; dense operands of the compute type are used where they lie.
#pragma once

#include <array>
#include <concepts>
#include <utility>

#include "host_kernels/isa/simd/complex.h"
#include "host_kernels/isa/simd/element_chunk.h"
#include "host_kernels/isa/simd/simd.h"
#include "runtime/base/parallel.h"

namespace mydev::kernels::MYDEV_ISA {

// The kernel's own attributes, in their documented order, and a report of failure.
class Params {
 public:
  Params(const mydev_attribute* attributes, uint32_t count) : attributes_(attributes), count_(count) {}

  template <typename T>
  T get(uint32_t index, T otherwise) const {
    if (index >= count_) return otherwise;
    const mydev_attribute& a = attributes_[index];
    if constexpr (requires { typename T::Real; }) {
      const double imaginary = a.kind == MYDEV_ATTRIBUTE_COMPLEX ? a.value.c[1] : 0.0;
      return {get<typename T::Real>(index, 0), static_cast<typename T::Real>(imaginary)};
    } else {
      return real<T>(a);
    }
  }
  // Makes the launch fail with the kernel's `failure` message. Any thread.
  void fail() const { __atomic_store_n(&failed_, true, __ATOMIC_RELAXED); }
  bool failed() const { return __atomic_load_n(&failed_, __ATOMIC_RELAXED); }

 private:
  template <typename T>
  static T real(const mydev_attribute& a) {
    switch (a.kind) {
      case MYDEV_ATTRIBUTE_FLOAT:
        // A number beyond a small integer type wraps round, as one that is an integer does.
        if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<int64_t>(a.value.f));
        return static_cast<T>(a.value.f);
      case MYDEV_ATTRIBUTE_COMPLEX:
        return static_cast<T>(a.value.c[0]);
      default:
        return static_cast<T>(a.value.i);
    }
  }

  const mydev_attribute* attributes_;
  uint32_t count_;
  mutable bool failed_ = false;
};

// Computes n elements; everything is dense; out may be one of the inputs.
using Apply = void (*)(const Params& params, void* out, const void* const* in, int64_t n);

// One function per compute type; nullptr: not offered. pred: from bytes, of which each but 0 is true. bf16: from and to
// elements in memory, computed in f32, for what costs less than the passes through buffers that f32 needs.
struct Types {
  Apply bf16 = nullptr, f32 = nullptr, f64 = nullptr, c64 = nullptr, c128 = nullptr;
  Apply pred = nullptr, u8 = nullptr, s8 = nullptr, s16 = nullptr, s32 = nullptr, s64 = nullptr;
};
constexpr Types operator|(Types a, const Types& b) {
  for (const auto type : {&Types::bf16, &Types::f32, &Types::f64, &Types::c64, &Types::c128, &Types::pred, &Types::u8,
                          &Types::s8, &Types::s16, &Types::s32, &Types::s64}) {
    if (b.*type != nullptr) a.*type = b.*type;
  }
  return a;
}

// The functions of one vector register that compute what an Apply of one input does; nullptr: there is none.
struct PackFunctions {
  Vec<float> (*f32)(Vec<float>) = nullptr;
  Vec<double> (*f64)(Vec<double>) = nullptr;
};

inline constexpr int kMaxInputs = 3;

struct PointwiseKernel {
  const char* name;
  int inputs;
  Types types;
  int64_t grain = kGrainCheap;
  bool predicate = false;         // the output is PRED
  bool pred = true;               // T may be PRED, if there is an s32
  int pred_input = -1;            // index of the input that is PRED whatever T is
  const char* failure = nullptr;  // message when an Apply calls Params::fail
  bool wraps = false;             // an integer's higher bits never change the lower bits of the result
  Types by_one = {};              // of two inputs: the second is one value; where an attribute `alpha` is 1
  PackFunctions packs = {};
};

mydev_code run_pointwise(const PointwiseKernel& kernel, const mydev_frame& frame);

// The tables of the files that have pointwise kernels.
std::span<const PointwiseKernel> activation_kernels();
std::span<const PointwiseKernel> binary_kernels();
std::span<const PointwiseKernel> comparison_kernels();
std::span<const PointwiseKernel> ternary_kernels();
std::span<const PointwiseKernel> unary_kernels();

// The records of a table of kernels.
template <const auto& table, size_t i>
mydev_code pointwise_entry(const mydev_frame* frame) {
  return run_pointwise(table[i], *frame);
}
template <const auto& table, size_t... i>
constexpr std::array<mydev_kernel, sizeof...(i)> pointwise_records(std::index_sequence<i...>) {
  return {{kernel_record(table[i].name, pointwise_entry<table, i>)...}};
}
template <const auto& table>
inline constexpr auto kPointwiseRecords = pointwise_records<table>(std::make_index_sequence<std::size(table)>());

// --- from an operator to Apply -------------------------------------------------------------------------------------
//
// An operator is a struct whose call operator takes the inputs' values; it is made from Params when it has such a
// constructor. Lanes are single values, in loops that the compiler vectorises; packs are Vec<T>.

template <typename Op>
Op make_operator(const Params& params) {
  if constexpr (std::constructible_from<Op, const Params&>) {
    return Op(params);
  } else {
    return Op();
  }
}

// Operators of one or two instructions, which say so by a member FewInstructions, wait for memory. Processors that
// split a vector of 512 bits in two move less of it by such vectors: beyond the second cache, Zen 4 takes 6 to 10 %
// longer.
#if defined(MYDEV_ISA_AVX512)
#define MYDEV_BOUND_BY_MEMORY [[gnu::noinline, gnu::target("prefer-vector-width=256")]]
#else
#define MYDEV_BOUND_BY_MEMORY
#endif
template <typename Op, typename T>
concept BoundByMemory = requires { typename Op::FewInstructions; } && sizeof(T) >= 4;

template <typename Op, typename T>
MYDEV_BOUND_BY_MEMORY void move_lanes(const Op& op, T* to, const T* a, const T* b, int64_t n) {
#pragma GCC ivdep
#pragma GCC unroll 2
  for (int64_t i = 0; i < n; ++i) to[i] = op(a[i], b[i]);
}
template <typename Op, typename T>
MYDEV_BOUND_BY_MEMORY void move_lanes(const Op& op, T* to, const T* a, const T* b, const T* c, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = op(a[i], b[i], c[i]);
}
template <typename Op, typename T>
MYDEV_BOUND_BY_MEMORY void move_lanes_by_one(const Op& op, T* to, const T* a, T b, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = op(a[i], b);
}

// The output may be an input, so different elements never depend on each other: ivdep. One value alone, as in steps
// over a few elements, does not go the way through the vectors' loop.
template <typename Op, typename Out, typename T, int inputs>
void apply_lanes(const Params& params, void* out, const void* const* in, int64_t n) {
  const Op op = make_operator<Op>(params);
  Out* const to = static_cast<Out*>(out);
  const T* const a = static_cast<const T*>(in[0]);
  if constexpr (inputs == 2) {
    if (n == 1) {
      *to = static_cast<Out>(op(*a, *static_cast<const T*>(in[1])));
      return;
    }
  }
  if constexpr (inputs == 1) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<Out>(op(a[i]));
  } else if constexpr (inputs == 2) {
    const T* const b = static_cast<const T*>(in[1]);
    if constexpr (BoundByMemory<Op, T>) return move_lanes(op, to, a, b, n);
#pragma GCC ivdep
#pragma GCC unroll 2
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<Out>(op(a[i], b[i]));
  } else {
    const T* const b = static_cast<const T*>(in[1]);
    const T* const c = static_cast<const T*>(in[2]);
    if constexpr (BoundByMemory<Op, T>) return move_lanes(op, to, a, b, c, n);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<Out>(op(a[i], b[i], c[i]));
  }
}

template <typename Op, typename T, int inputs>
void apply_packs(const Params& params, void* out, const void* const* in, int64_t n) {
  const Op op = make_operator<Op>(params);
  T* const to = static_cast<T*>(out);
  const auto at = [&](int k, int64_t i) { return static_cast<const T*>(in[k < inputs ? k : 0]) + i; };
  const auto run = [&](auto load_pack, int64_t i) {
    if constexpr (inputs == 1) {
      return op(load_pack(at(0, i)));
    } else if constexpr (inputs == 2) {
      return op(load_pack(at(0, i)), load_pack(at(1, i)));
    } else {
      return op(load_pack(at(0, i)), load_pack(at(1, i)), load_pack(at(2, i)));
    }
  };
  int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) {
    store(to + i, run([](const T* p) { return load(p); }, i));
  }
  if (i == n) return;
  const int64_t rest = n - i;
  // One value alone: what has just been stored is not there yet for a load of more.
  const Vec<T> last = run([rest](const T* p) { return rest == 1 ? Vec<T>{*p} : load_partial(p, rest); }, i);
  if (rest == 1) {
    to[i] = last[0];
  } else {
    store_partial(to + i, last, rest);
  }
}

// Op<T> over the types of a kind; packed_floats: as packs.
template <template <typename> typename Op, int inputs>
constexpr Types floats() {
  return {.f32 = apply_lanes<Op<float>, float, float, inputs>, .f64 = apply_lanes<Op<double>, double, double, inputs>};
}
template <template <typename> typename Op, int inputs>
constexpr Types bfloats() {
  return {.bf16 = apply_lanes<Op<float>, BFloat16Bits, BFloat16Bits, inputs>};
}
// The second of two inputs is one value.
template <typename Op, typename T>
void apply_by_one(const Params& params, void* out, const void* const* in, int64_t n) {
  const Op op = make_operator<Op>(params);
  T* const to = static_cast<T*>(out);
  const T* const a = static_cast<const T*>(in[0]);
  const T b = *static_cast<const T*>(in[1]);
  if constexpr (BoundByMemory<Op, T>) return move_lanes_by_one(op, to, a, b, n);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = op(a[i], b);
}
template <template <typename> typename Op>
constexpr Types floats_by_one() {
  return {.f32 = apply_by_one<Op<float>, float>, .f64 = apply_by_one<Op<double>, double>};
}
template <template <typename> typename Op, int inputs>
constexpr Types integers() {
  return {.s32 = apply_lanes<Op<int32_t>, int32_t, int32_t, inputs>,
          .s64 = apply_lanes<Op<int64_t>, int64_t, int64_t, inputs>};
}
template <template <typename> typename Op, int inputs>
constexpr Types small_integers() {
  return {.u8 = apply_lanes<Op<uint8_t>, uint8_t, uint8_t, inputs>,
          .s8 = apply_lanes<Op<int8_t>, int8_t, int8_t, inputs>,
          .s16 = apply_lanes<Op<int16_t>, int16_t, int16_t, inputs>};
}
template <template <typename> typename Op, int inputs>
constexpr Types numbers() {
  return floats<Op, inputs>() | integers<Op, inputs>();
}
template <template <typename> typename Op, int inputs>
constexpr Types complexes() {
  return {.c64 = apply_lanes<Op<Complex<float>>, Complex<float>, Complex<float>, inputs>,
          .c128 = apply_lanes<Op<Complex<double>>, Complex<double>, Complex<double>, inputs>};
}
template <template <typename> typename Op, int inputs>
constexpr Types packed_floats() {
  return {.f32 = apply_packs<Op<float>, float, inputs>, .f64 = apply_packs<Op<double>, double, inputs>};
}
template <typename Op, typename T>
Vec<T> of_pack(Vec<T> x) {
  return Op()(x);
}
template <template <typename> typename Op>
constexpr PackFunctions pack_functions() {
  return {.f32 = of_pack<Op<float>, float>, .f64 = of_pack<Op<double>, double>};
}
// Op over truth values that are bytes, of which each but 0 is true.
template <typename Op>
struct OfTruth {
  bool operator()(uint8_t a) const { return Op()(static_cast<uint8_t>(a != 0)); }
  bool operator()(uint8_t a, uint8_t b) const {
    return Op()(static_cast<uint8_t>(a != 0), static_cast<uint8_t>(b != 0));
  }
};
// Predicates of numbers: the output is PRED.
template <template <typename> typename Op, int inputs>
constexpr Types predicates() {
  return {.f32 = apply_lanes<Op<float>, uint8_t, float, inputs>,
          .f64 = apply_lanes<Op<double>, uint8_t, double, inputs>,
          .pred = apply_lanes<OfTruth<Op<uint8_t>>, uint8_t, uint8_t, inputs>,
          .u8 = apply_lanes<Op<uint8_t>, uint8_t, uint8_t, inputs>,
          .s8 = apply_lanes<Op<int8_t>, uint8_t, int8_t, inputs>,
          .s16 = apply_lanes<Op<int16_t>, uint8_t, int16_t, inputs>,
          .s32 = apply_lanes<Op<int32_t>, uint8_t, int32_t, inputs>,
          .s64 = apply_lanes<Op<int64_t>, uint8_t, int64_t, inputs>};
}

}  // namespace mydev::kernels::MYDEV_ISA
