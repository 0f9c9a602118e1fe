// Kernel group ternary: out = f(a, b, c).
#include "host_kernels/isa/pointwise/pointwise.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

template <typename T>
void apply_where(const Params&, void* out, const void* const* in, int64_t n) {
  T* const to = static_cast<T*>(out);
  const uint8_t* const condition = static_cast<const uint8_t*>(in[0]);
  const T* const a = static_cast<const T*>(in[1]);
  const T* const b = static_cast<const T*>(in[2]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = condition[i] != 0 ? a[i] : b[i];
}
// Each byte but 0 is true, and becomes 1.
void apply_where_pred(const Params&, void* out, const void* const* in, int64_t n) {
  uint8_t* const to = static_cast<uint8_t*>(out);
  const uint8_t* const condition = static_cast<const uint8_t*>(in[0]);
  const uint8_t* const a = static_cast<const uint8_t*>(in[1]);
  const uint8_t* const b = static_cast<const uint8_t*>(in[2]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = (condition[i] != 0 ? a[i] : b[i]) != 0;
}
constexpr Types kWhere = {.f32 = apply_where<float>,
                          .f64 = apply_where<double>,
                          .c64 = apply_where<Complex<float>>,
                          .c128 = apply_where<Complex<double>>,
                          .pred = apply_where_pred,
                          .u8 = apply_where<uint8_t>,
                          .s8 = apply_where<int8_t>,
                          .s16 = apply_where<int16_t>,
                          .s32 = apply_where<int32_t>,
                          .s64 = apply_where<int64_t>};

template <typename T>
struct Addcmul {
  using FewInstructions = void;
  T value;
  explicit Addcmul(const Params& params) : value(params.get<T>(0, T(1))) {}
  T operator()(T a, T b, T c) const {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(value) * static_cast<U>(b) * static_cast<U>(c));
    } else {
      return a + value * b * c;
    }
  }
};
template <typename T>
struct Addcdiv {
  using FewInstructions = void;
  T value;
  explicit Addcdiv(const Params& params) : value(params.get<T>(0, T(1))) {}
  T operator()(T a, T b, T c) const { return a + value * b / c; }
};
// From the nearer end: exact at both.
template <typename T>
struct Lerp {
  T operator()(T start, T end, T weight) const {
    const T difference = end - start;
    return std::fabs(weight) < T(0.5) ? start + weight * difference : end - difference * (1 - weight);
  }
};

constexpr PointwiseKernel kKernels[] = {
    {.name = "mydev.where", .inputs = 3, .types = kWhere, .pred_input = 0, .wraps = true},
    {.name = "mydev.addcmul", .inputs = 3, .types = numbers<Addcmul, 3>(), .pred = false},
    {.name = "mydev.addcdiv", .inputs = 3, .types = floats<Addcdiv, 3>()},
    {.name = "mydev.lerp", .inputs = 3, .types = floats<Lerp, 3>()},
};

}  // namespace

std::span<const PointwiseKernel> ternary_kernels() {
  return kKernels;
}

std::span<const mydev_kernel> ternary() {
  return kPointwiseRecords<kKernels>;
}

}  // namespace mydev::kernels::MYDEV_ISA
