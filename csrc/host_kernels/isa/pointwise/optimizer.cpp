// Kernel group optimizer: one step of SGD, Adam or AdamW over lists of packed tensors, in one launch. Computed in
// float, for f64 in double.
#include <cmath>

#include "host_kernels/isa/simd/tensor_list.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

// Whether the lists have one floating type, and the scalars after them one of theirs.
bool has_types(const mydev_frame* frame) {
  const mydev_buffer* inputs = frame->buffers + frame->num_outputs;
  const int32_t dtype = frame->buffers[0].dtype;
  if (!is_floating(dtype) || !have_dtype(frame, 1, frame->num_outputs, dtype)) return false;
  for (uint32_t i = 0; i < 3; ++i) {
    if (inputs[i].data != nullptr && inputs[i].dtype != MYDEV_F32 && inputs[i].dtype != MYDEV_F64) return false;
  }
  return have_dtype(frame, frame->num_outputs + 3, frame->num_outputs + frame->num_inputs, MYDEV_F32);
}

double scalar_of(const mydev_buffer& buffer, double otherwise) {
  if (buffer.data == nullptr) return otherwise;
  if (buffer.dtype == MYDEV_F64) return *static_cast<const double*>(buffer.data);
  return *static_cast<const float*>(buffer.data);
}

// One list's chunk as values of the compute type, written back on request.
template <typename C>
class Column {
 public:
  explicit Column(const mydev_buffer* list)
      : list_(list), reader_(list[0].dtype), writer_(list[0].dtype), present_(list[0].data != nullptr) {}
  bool supported() const { return reader_.supported() && writer_.supported(); }
  bool present() const { return present_; }

  C* read(int64_t tensor, int64_t at, int64_t count, C* buffer) const {
    return const_cast<C*>(reader_.read(address(tensor, at), 1, count, buffer));
  }
  void write(const C* values, int64_t tensor, int64_t at, int64_t count) const {
    writer_.write(values, address(tensor, at), 1, count);
  }

 private:
  char* address(int64_t tensor, int64_t at) const {
    return static_cast<char*>(list_[tensor].data) + at * reader_.element_bytes();
  }
  const mydev_buffer* list_;
  ChunkReader<C> reader_;
  ChunkWriter<C> writer_;
  bool present_;
};

// Gradients as a step uses them: unscaled (and stored so), then negated to maximize.
template <typename C>
class Gradients {
 public:
  Gradients(const mydev_buffer* list, const mydev_buffer& grad_scale, bool maximize)
      : column_(list),
        scaled_(grad_scale.data != nullptr),
        scale_(static_cast<C>(scalar_of(grad_scale, 1))),
        maximize_(maximize) {}
  bool supported() const { return column_.supported(); }

  // In `changed` if they had to change, else where they lie or in `loaded`.
  const C* prepare(int64_t tensor, int64_t at, int64_t count, C* loaded, C* changed) const {
    const C* grad = column_.read(tensor, at, count, loaded);
    if (scaled_) {
      for (int64_t i = 0; i < count; ++i) changed[i] = grad[i] / scale_;
      column_.write(changed, tensor, at, count);
      grad = changed;
    }
    if (maximize_) {
      for (int64_t i = 0; i < count; ++i) changed[i] = -grad[i];
      grad = changed;
    }
    return grad;
  }

 private:
  Column<C> column_;
  bool scaled_;
  C scale_;
  bool maximize_;
};

struct SgdOptions {
  double lr, weight_decay, momentum, dampening;
  bool nesterov, maximize, first_step, decays, moves;
};

template <typename C>
void sgd_chunk(const SgdOptions& o, C* __restrict param, C* __restrict velocity, const C* __restrict grad,
               int64_t count) {
  const C lr = static_cast<C>(o.lr), decay = static_cast<C>(o.weight_decay), momentum = static_cast<C>(o.momentum);
  const C keep = static_cast<C>(1 - o.dampening);
  if (!o.moves) {
    for (int64_t i = 0; i < count; ++i) param[i] -= lr * (grad[i] + decay * param[i]);
    return;
  }
  const C look_ahead = o.nesterov ? momentum : C{0};
  const C own = o.nesterov ? C{1} : C{0};
  const C factor = o.nesterov ? look_ahead : C{1};
  for (int64_t i = 0; i < count; ++i) {
    const C g = grad[i] + decay * param[i];
    const C v = o.first_step ? g : momentum * velocity[i] + keep * g;
    velocity[i] = v;
    param[i] -= lr * (own * g + factor * v);
  }
}

template <typename C>
mydev_code sgd_as(const mydev_frame* frame, const SgdOptions& options) {
  const int64_t length = frame->num_outputs / 3;
  const mydev_buffer* params = frame->buffers;
  const mydev_buffer* inputs = params + frame->num_outputs;
  const Column<C> param(params), velocity(params + length);
  const Gradients<C> grads(params + 2 * length, inputs[1], options.maximize);
  if (!param.supported() || !grads.supported()) return MYDEV_UNIMPLEMENTED;
  for_each_piece(params, length, [&](int64_t tensor, int64_t, int64_t begin, int64_t count) {
    alignas(64) C p_buffer[kChunk], v_buffer[kChunk], g_loaded[kChunk], g_buffer[kChunk];
    for (int64_t at = begin; at < begin + count; at += kChunk) {
      const int64_t n = std::min(kChunk, begin + count - at);
      const C* g = grads.prepare(tensor, at, n, g_loaded, g_buffer);
      C* p = param.read(tensor, at, n, p_buffer);
      C* v = options.moves ? velocity.read(tensor, at, n, v_buffer) : nullptr;
      sgd_chunk(options, p, v, g, n);
      param.write(p, tensor, at, n);
      if (options.moves) velocity.write(v, tensor, at, n);
    }
  });
  return MYDEV_OK;
}

mydev_code fused_sgd(const mydev_frame* frame) {
  if (!has_types(frame)) return MYDEV_UNIMPLEMENTED;
  const mydev_buffer* inputs = frame->buffers + frame->num_outputs;
  const mydev_attribute* a = frame->attributes;
  if (scalar_of(inputs[2], 0) != 0) return MYDEV_OK;
  const SgdOptions options{scalar_of(inputs[0], a[0].value.f),
                           a[1].value.f,
                           a[2].value.f,
                           a[3].value.f,
                           a[4].value.i != 0,
                           a[5].value.i != 0,
                           a[6].value.i != 0,
                           a[1].value.f != 0,
                           a[2].value.f != 0};
  if (frame->buffers[0].dtype == MYDEV_F64) return sgd_as<double>(frame, options);
  return sgd_as<float>(frame, options);
}

struct AdamOptions {
  double lr, beta1, beta2, weight_decay, eps;
  bool maximize, decoupled;
};

template <typename C>
struct AdamFactors {  // they depend on the step count, of which each tensor has its own
  C decay_param, decay_grad, weight1, beta2, weight2, root_correction2, eps, step_size;

  AdamFactors(const AdamOptions& o, double step) {
    const double correction1 = 1 - std::pow(o.beta1, step), correction2 = 1 - std::pow(o.beta2, step);
    decay_param = static_cast<C>(o.decoupled ? 1 - o.lr * o.weight_decay : 1);
    decay_grad = static_cast<C>(o.decoupled ? 0 : o.weight_decay);
    weight1 = static_cast<C>(1 - o.beta1);
    beta2 = static_cast<C>(o.beta2);
    weight2 = static_cast<C>(1 - o.beta2);
    root_correction2 = static_cast<C>(std::sqrt(correction2));
    eps = static_cast<C>(o.eps);
    step_size = static_cast<C>(o.lr / correction1);
  }
};

template <typename C, bool kMaximum>
void adam_chunk(const AdamFactors<C>& f, C* __restrict param, C* __restrict mean, C* __restrict square,
                C* __restrict maximum, const C* __restrict grad, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const C p = param[i] * f.decay_param;
    const C g = grad[i] + f.decay_grad * param[i];
    const C m = mean[i] + f.weight1 * (g - mean[i]);
    C s = f.beta2 * square[i] + f.weight2 * g * g;
    mean[i] = m;
    square[i] = s;
    if constexpr (kMaximum) {
      s = maximum[i] > s ? maximum[i] : s;
      maximum[i] = s;
    }
    param[i] = p - f.step_size * (m / (std::sqrt(s) / f.root_correction2 + f.eps));
  }
}

template <typename C>
mydev_code adam_as(const mydev_frame* frame, const AdamOptions& options) {
  const int64_t length = frame->num_outputs / 5;
  const mydev_buffer* params = frame->buffers;
  const mydev_buffer* inputs = params + frame->num_outputs;
  const Column<C> param(params), mean(params + length), square(params + 2 * length), maximum(params + 3 * length);
  const Gradients<C> grads(params + 4 * length, inputs[1], options.maximize);
  if (!param.supported() || !mean.supported() || !square.supported() || !grads.supported()) return MYDEV_UNIMPLEMENTED;
  for_each_piece(params, length, [&](int64_t tensor, int64_t, int64_t begin, int64_t count) {
    alignas(64) C p_buffer[kChunk], m_buffer[kChunk], s_buffer[kChunk], x_buffer[kChunk], g_loaded[kChunk],
        g_buffer[kChunk];
    const AdamFactors<C> factors(options, scalar_of(inputs[3 + tensor], 1));
    for (int64_t at = begin; at < begin + count; at += kChunk) {
      const int64_t n = std::min(kChunk, begin + count - at);
      const C* g = grads.prepare(tensor, at, n, g_loaded, g_buffer);
      C* p = param.read(tensor, at, n, p_buffer);
      C* m = mean.read(tensor, at, n, m_buffer);
      C* s = square.read(tensor, at, n, s_buffer);
      if (maximum.present()) {
        C* x = maximum.read(tensor, at, n, x_buffer);
        adam_chunk<C, true>(factors, p, m, s, x, g, n);
        maximum.write(x, tensor, at, n);
      } else {
        adam_chunk<C, false>(factors, p, m, s, nullptr, g, n);
      }
      param.write(p, tensor, at, n);
      mean.write(m, tensor, at, n);
      square.write(s, tensor, at, n);
    }
  });
  return MYDEV_OK;
}

mydev_code fused_adam(const mydev_frame* frame) {
  if (!has_types(frame)) return MYDEV_UNIMPLEMENTED;
  const mydev_buffer* inputs = frame->buffers + frame->num_outputs;
  const mydev_attribute* a = frame->attributes;
  if (scalar_of(inputs[2], 0) != 0) return MYDEV_OK;
  const AdamOptions options{scalar_of(inputs[0], a[0].value.f),
                            a[1].value.f,
                            a[2].value.f,
                            a[3].value.f,
                            a[4].value.f,
                            a[5].value.i != 0,
                            a[6].value.i != 0};
  if (frame->buffers[0].dtype == MYDEV_F64) return adam_as<double>(frame, options);
  return adam_as<float>(frame, options);
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.fused_sgd", fused_sgd),
    kernel_record("mydev.fused_adam", fused_adam),
};

}  // namespace

std::span<const mydev_kernel> optimizer() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
