// Kernel group activation: neural-network activations of floating point, and their backwards (out, grad, x), where x is
// the forward's input unless the contract says its result. Attributes have the names and the order of PyTorch's
// arguments.
#include <limits>

#include "host_kernels/isa/pointwise/pointwise.h"
#include "host_kernels/isa/simd/vector_math.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

// Operators over V, which is a pack of T: constants are of T, `?:` selects by lane.

// The normal distribution's cumulative function. In float to an absolute 8e-8, which is what its sum with 1 leaves; its
// tail is two to the power of a polynomial.
inline F32 normal_cdf(F32 x) {
  constexpr float kEnd = 5.6f;  // beyond, the tail is nothing beside 1
  const F32 a = abs(x);
  const F32 power = polynomial(at_most(a, splat(kEnd)), -0.9999998964f, -1.151110943f, -0.4591531479f, -0.05269111288f,
                               0.007389273579f, -0.000421236704f, -5.390349034e-05f, 8.470135801e-06f);
  const F32 shifted = round_shifted(power);
  const F32 fraction = power - (shifted - round_shifted(F32{}));
  const F32 p = polynomial(fraction, 1.000000072f, 0.6931469671f, 0.2402211972f, 0.05550713276f, 0.009675541328f,
                           0.001327647116f);
  const F32 tail = a > kEnd ? F32{} : from_bits(bits(p) + (bits(shifted) << 23));
  return x < 0.0f ? tail : 1.0f - tail;
}
inline F64 normal_cdf(F64 x) {
  return 0.5 * (1.0 + erf(x * 0.70710678118654752));
}
template <typename T>
struct Gelu {
  template <typename V>
  V operator()(V x) const {
    return x * normal_cdf(x);
  }
};
inline constexpr double kTanhScale = 0.79788456080286536, kTanhCubic = 0.044715;  // sqrt(2 / pi)
template <typename T>
struct GeluTanh {
  template <typename V>
  V operator()(V x) const {
    return T(0.5) * x * (T(1) + tanh(T(kTanhScale) * (x + T(kTanhCubic) * x * x * x)));
  }
};
template <typename T>
struct GeluBackward {
  template <typename V>
  V operator()(V grad, V x) const {
    const V pdf = T(0.39894228040143268) * exp(T(-0.5) * x * x);
    return grad * (normal_cdf(x) + x * pdf);
  }
};
template <typename T>
struct GeluTanhBackward {
  template <typename V>
  V operator()(V grad, V x) const {
    const V square = x * x;
    const V t = tanh(T(kTanhScale) * (x + T(kTanhCubic) * x * square));
    const V slope = T(kTanhScale) * (T(1) + T(3 * kTanhCubic) * square);
    return grad * (T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * slope);
  }
};

template <typename T>
struct Silu {
  template <typename V>
  V operator()(V x) const {
    return x / (T(1) + exp(-x));
  }
};
template <typename T>
struct SiluBackward {
  template <typename V>
  V operator()(V grad, V x) const {
    const V s = sigmoid(x);
    return grad * s * (T(1) + x * (T(1) - s));
  }
};

// tanh(log(1 + e)) without the logarithm, for e = exp(x); beyond 20 it is 1.
template <typename T, typename V>
V tanh_softplus(V e) {
  const V n = e * (e + T(2));
  return n / (n + T(2));
}
template <typename T>
struct Mish {
  template <typename V>
  V operator()(V x) const {
    const V e = exp(x > T(20) ? V{} + T(20) : x);
    return x > T(20) ? x : x * tanh_softplus<T>(e);
  }
};
template <typename T>
struct MishBackward {
  template <typename V>
  V operator()(V grad, V x) const {
    const V e = exp(x > T(20) ? V{} + T(20) : x);
    const V t = tanh_softplus<T>(e);
    const V s = e / (T(1) + e);
    return grad * (t + x * s * (T(1) - t * t));
  }
};

template <typename T>
struct Elu {
  T alpha, scale, input_scale;
  explicit Elu(const Params& p) : alpha(p.get<T>(0, 1)), scale(p.get<T>(1, 1)), input_scale(p.get<T>(2, 1)) {}
  template <typename V>
  V operator()(V x) const {
    return x < T(0) ? expm1(x * input_scale) * (alpha * scale) : x * scale;
  }
};
template <typename T>
struct EluBackward {
  T alpha, scale, input_scale;
  bool is_result;
  explicit EluBackward(const Params& p)
      : alpha(p.get<T>(0, 1)),
        scale(p.get<T>(1, 1)),
        input_scale(p.get<T>(2, 1)),
        is_result(p.get<int64_t>(3, 0) != 0) {}
  template <typename V>
  V operator()(V grad, V x) const {
    const V negative = is_result ? grad * input_scale * (x + alpha * scale)
                                 : grad * (input_scale * alpha * scale) * exp(x * input_scale);
    return x <= T(0) ? negative : grad * scale;
  }
};

template <typename T>
struct Softplus {
  T beta, threshold;
  explicit Softplus(const Params& p) : beta(p.get<T>(0, 1)), threshold(p.get<T>(1, 20)) {}
  template <typename V>
  V operator()(V x) const {
    const V z = x * beta;
    return z > threshold ? x : log1p(exp(z)) / beta;
  }
};
template <typename T>
struct SoftplusBackward {
  T beta, threshold;
  explicit SoftplusBackward(const Params& p) : beta(p.get<T>(0, 1)), threshold(p.get<T>(1, 20)) {}
  template <typename V>
  V operator()(V grad, V x) const {
    const V z = x * beta;
    const V e = exp(z);
    return z > threshold ? grad : grad * e / (e + T(1));
  }
};

template <typename T>
struct LogSigmoid {
  template <typename V>
  V operator()(V x) const {
    const V magnitude = x < T(0) ? x : -x;
    return (x > T(0) ? V{} : x) - log1p(exp(magnitude));
  }
};
template <typename T>
struct LogSigmoidBackward {
  template <typename V>
  V operator()(V grad, V x) const {
    return grad * sigmoid(-x);
  }
};

template <typename T>
struct SigmoidBackward {
  using FewInstructions = void;
  T operator()(T grad, T y) const { return grad * (1 - y) * y; }
};
template <typename T>
struct TanhBackward {
  using FewInstructions = void;
  T operator()(T grad, T y) const { return grad * (1 - y * y); }
};

// --- cheap ones: lanes ---------------------------------------------------------------------------------------------

template <typename T>
struct LeakyRelu {
  T slope;
  explicit LeakyRelu(const Params& p) : slope(p.get<T>(0, T(0.01))) {}
  T operator()(T x) const { return x > 0 ? x : x * slope; }
};
template <typename T>
struct LeakyReluBackward {
  T slope;
  explicit LeakyReluBackward(const Params& p) : slope(p.get<T>(0, T(0.01))) {}
  T operator()(T grad, T x) const { return x > 0 ? grad : grad * slope; }
};
template <typename T>
struct ThresholdBackward {
  T threshold;
  explicit ThresholdBackward(const Params& p) : threshold(p.get<T>(0, 0)) {}
  T operator()(T grad, T x) const { return x <= threshold ? T{0} : grad; }
};
template <typename T>
struct Clamp {
  T low, high;
  explicit Clamp(const Params& p)
      : low(p.get<T>(0, std::numeric_limits<T>::lowest())), high(p.get<T>(1, std::numeric_limits<T>::max())) {}
  T operator()(T x) const {
    const T bounded = x < low ? low : x;  // NaN stays
    return bounded > high ? high : bounded;
  }
};
template <typename T>
struct HardtanhBackward {
  T low, high;
  explicit HardtanhBackward(const Params& p) : low(p.get<T>(0, -1)), high(p.get<T>(1, 1)) {}
  T operator()(T grad, T x) const { return (x <= low) | (x >= high) ? T{0} : grad; }
};
template <typename T>
T bounded_to_six(T x) {
  const T low = x < 0 ? T{0} : x;
  return low > 6 ? T{6} : low;
}
template <typename T>
struct Hardsigmoid {
  T operator()(T x) const { return bounded_to_six(x + 3) / 6; }
};
template <typename T>
struct HardsigmoidBackward {
  T operator()(T grad, T x) const { return (x > -3) & (x < 3) ? grad / 6 : T{0}; }
};
template <typename T>
struct Hardswish {
  T operator()(T x) const { return x * bounded_to_six(x + 3) / 6; }
};
template <typename T>
struct HardswishBackward {
  T operator()(T grad, T x) const {
    const T inside = grad * (x / 3 + T(0.5));
    return x <= -3 ? T{0} : (x >= 3 ? grad : inside);
  }
};

// Two variants of one kernel; attribute 0 chooses.
template <Apply standard, Apply alternative>
void apply_either(const Params& params, void* out, const void* const* in, int64_t n) {
  (params.get<int64_t>(0, 0) != 0 ? alternative : standard)(params, out, in, n);
}
template <template <typename> typename Standard, template <typename> typename Alternative, int inputs>
constexpr Types either() {
  constexpr Types a = packed_floats<Standard, inputs>(), b = packed_floats<Alternative, inputs>();
  return {.f32 = apply_either<a.f32, b.f32>, .f64 = apply_either<a.f64, b.f64>};
}

constexpr PointwiseKernel heavy(const char* name, int inputs, Types types) {
  return {.name = name, .inputs = inputs, .types = types, .grain = kGrainHeavy};
}
constexpr PointwiseKernel cheap(const char* name, int inputs, Types types) {
  return {.name = name, .inputs = inputs, .types = types, .pred = false};
}

constexpr PointwiseKernel kKernels[] = {
    heavy("mydev.gelu", 1, either<Gelu, GeluTanh, 1>()),
    heavy("mydev.gelu_backward", 2, either<GeluBackward, GeluTanhBackward, 2>()),
    heavy("mydev.silu", 1, packed_floats<Silu, 1>()),
    heavy("mydev.silu_backward", 2, packed_floats<SiluBackward, 2>()),
    heavy("mydev.mish", 1, packed_floats<Mish, 1>()),
    heavy("mydev.mish_backward", 2, packed_floats<MishBackward, 2>()),
    heavy("mydev.elu", 1, packed_floats<Elu, 1>()),
    heavy("mydev.elu_backward", 2, packed_floats<EluBackward, 2>()),
    heavy("mydev.softplus", 1, packed_floats<Softplus, 1>()),
    heavy("mydev.softplus_backward", 2, packed_floats<SoftplusBackward, 2>()),
    heavy("mydev.log_sigmoid", 1, packed_floats<LogSigmoid, 1>()),
    heavy("mydev.log_sigmoid_backward", 2, packed_floats<LogSigmoidBackward, 2>()),
    cheap("mydev.sigmoid_backward", 2, floats<SigmoidBackward, 2>()),
    cheap("mydev.tanh_backward", 2, floats<TanhBackward, 2>()),
    cheap("mydev.leaky_relu", 1, floats<LeakyRelu, 1>()),
    cheap("mydev.leaky_relu_backward", 2, floats<LeakyReluBackward, 2>()),
    cheap("mydev.threshold_backward", 2, numbers<ThresholdBackward, 2>()),
    cheap("mydev.clamp", 1, numbers<Clamp, 1>()),
    cheap("mydev.hardtanh_backward", 2, floats<HardtanhBackward, 2>()),
    cheap("mydev.hardsigmoid", 1, floats<Hardsigmoid, 1>()),
    cheap("mydev.hardsigmoid_backward", 2, floats<HardsigmoidBackward, 2>()),
    cheap("mydev.hardswish", 1, floats<Hardswish, 1>()),
    cheap("mydev.hardswish_backward", 2, floats<HardswishBackward, 2>()),
};

}  // namespace

std::span<const PointwiseKernel> activation_kernels() {
  return kKernels;
}

std::span<const mydev_kernel> activation() {
  return kPointwiseRecords<kKernels>;
}

}  // namespace mydev::kernels::MYDEV_ISA
