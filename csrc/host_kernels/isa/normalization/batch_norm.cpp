// Kernel group batch_norm: over dense [N, C, S], or [N, C] rows (S = 1: channels last, or no spatial dimensions).
//
// Statistics take two passes in double, of half types one: sums of squares have many more digits than their values. In
// a half type, out is that of the rounded ones, which backward will see. A task is a channel (S > 1) or a block of
// channels (S = 1).
#include <algorithm>
#include <cmath>

#include "host_kernels/isa/simd/dense_values.h"
#include "host_kernels/isa/simd/element_chunk.h"
#include "host_kernels/isa/simd/half_values.h"
#include "runtime/base/parallel.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int64_t kChannelBlock = 128;

struct Shape {
  int64_t samples, channels, places;
  int64_t count() const { return samples * places; }  // elements of a channel
};

Shape shape_of(const mydev_buffer& buffer) {
  return {buffer.sizes[0], buffer.sizes[1], buffer.sizes[2]};
}

// An operand with one value per channel, which may be absent.
template <typename C>
class ChannelVector {
 public:
  explicit ChannelVector(const mydev_buffer& buffer)
      : data_(static_cast<char*>(buffer.data)), reader_(buffer.dtype), writer_(buffer.dtype) {}
  bool supported() const { return !present() || reader_.supported(); }
  bool present() const { return data_ != nullptr; }
  C operator[](int64_t channel) const {
    C space;
    return *reader_.read(address(channel), 1, 1, &space);
  }
  C value_or(int64_t channel, C otherwise) const { return present() ? (*this)[channel] : otherwise; }
  void set_if_present(int64_t channel, double value) const {
    const C rounded = static_cast<C>(value);
    if (present()) writer_.write(&rounded, address(channel), 1, 1);
  }

 private:
  char* address(int64_t channel) const { return data_ + channel * reader_.element_bytes(); }
  char* data_;
  ChunkReader<C> reader_;
  ChunkWriter<C> writer_;
};

template <typename C>
bool supported(std::initializer_list<const ChannelVector<C>*> vectors) {
  for (const ChannelVector<C>* vector : vectors) {
    if (!vector->supported()) return false;
  }
  return true;
}

// A dense operand of shape [N, C, S].
template <typename C>
struct Source {
  const mydev_buffer& buffer;
  ChunkReader<C> reader{buffer.dtype};
  const C* at(int64_t element, int64_t count, C* space) const {
    return reader.read(static_cast<const char*>(buffer.data) + element * reader.element_bytes(), 1, count, space);
  }
};
template <typename C>
struct Target {
  const mydev_buffer& buffer;
  ChunkWriter<C> writer{buffer.dtype};
  char* address(int64_t element) const { return static_cast<char*>(buffer.data) + element * writer.element_bytes(); }
};

// Calls body(channel, width) for each task: the channels [channel, channel + width).
template <typename Body>
void for_each_channel_block(const Shape& shape, const Body& body) {
  const int64_t block = shape.places == 1 ? kChannelBlock : 1;
  const int64_t blocks = (shape.channels + block - 1) / block;
  const int64_t grain = std::max<int64_t>(kGrainHeavy / std::max<int64_t>(shape.count() * block, 1), 1);
  parallel_for(blocks, grain, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) body(b * block, std::min(block, shape.channels - b * block));
  });
}

// Calls body(element, count) for each dense run of the channels [channel, channel + width): runs of one channel's
// places, or rows across the block.
template <typename Body>
void for_each_run(const Shape& shape, int64_t channel, int64_t width, const Body& body) {
  for (int64_t n = 0; n < shape.samples; ++n) {
    const int64_t start = (n * shape.channels + channel) * shape.places;
    const int64_t length = width * shape.places;
    for (int64_t at = 0; at < length; at += kChunk) body(start + at, std::min(kChunk, length - at));
  }
}

// Adds the sums of deviations from `center`, and of their squares. Some vectors are added in f32, which has 13 bits
// more than a half type; these sums are added in double.
template <typename T>
void add_moments(const T* x, int64_t count, float center, double& sum, double& squares) {
  constexpr int64_t n = kLanes<float>, kVectors = 64;
  int64_t i = 0;
  while (i + n <= count) {
    const int64_t end = std::min(count - n, i + (kVectors - 1) * n);
    F32 s = {}, q = {}, s2 = {}, q2 = {};
    for (; i + n <= end; i += 2 * n) {
      const F32 a = load_values(x + i) - center, b = load_values(x + i + n) - center;
      s += a;
      q += a * a;
      s2 += b;
      q2 += b * b;
    }
    if (i <= end) {
      const F32 a = load_values(x + i) - center;
      s += a;
      q += a * a;
      i += n;
    }
    sum += static_cast<double>(across_lanes<float>(s + s2, kPlus));
    squares += static_cast<double>(across_lanes<float>(q + q2, kPlus));
  }
  for (; i < count; ++i) {
    const double deviation = static_cast<double>(static_cast<float>(x[i]) - center);
    sum += deviation;
    squares += deviation * deviation;
  }
}

// Calls body with the elements of a half type, as a pointer of it; returns false for other types.
template <typename Body>
bool visit_halves(const mydev_buffer& buffer, const Body& body) {
  if (buffer.dtype == MYDEV_F16) {
    body(static_cast<_Float16*>(buffer.data));
  } else if (buffer.dtype == MYDEV_BF16) {
    body(static_cast<BFloat16Bits*>(buffer.data));
  } else {
    return false;
  }
  return true;
}

template <typename C>
struct Statistics {
  double mean[kChannelBlock], variance[kChannelBlock];  // biased

  void compute(const Shape& shape, const Source<C>& in, int64_t channel, int64_t width) {
    alignas(64) C space[kChunk];
    const double count = static_cast<double>(shape.count());
    std::fill(mean, mean + width, 0.0);
    std::fill(variance, variance + width, 0.0);
    const bool is_half = in.reader.element_bytes() == 2;
    if (shape.places > 1 && is_half) return compute_of_halves(shape, in.buffer, channel);
    for_each_run(shape, channel, width, [&](int64_t at, int64_t n) {
      const C* __restrict x = in.at(at, n, space);
      if (shape.places > 1) {
        mean[0] += wide_sum_of(x, n);
      } else if (is_half) {
        for (int64_t j = 0; j < n; ++j) {
          mean[j] += x[j];
          variance[j] += double{x[j]} * double{x[j]};
        }
      } else {
        for (int64_t j = 0; j < n; ++j) mean[j] += x[j];
      }
    });
    for (int64_t j = 0; j < width; ++j) mean[j] /= count;
    if (is_half) {
      for (int64_t j = 0; j < width; ++j) variance[j] = std::max(variance[j] / count - mean[j] * mean[j], 0.0);
      return;
    }
    for_each_run(shape, channel, width, [&](int64_t at, int64_t n) {
      const C* __restrict x = in.at(at, n, space);
      if (shape.places > 1) {
        variance[0] += wide_squares_about(x, mean[0], n);
      } else {
        for (int64_t j = 0; j < n; ++j) variance[j] += (x[j] - mean[j]) * (x[j] - mean[j]);
      }
    });
    for (int64_t j = 0; j < width; ++j) variance[j] /= count;
  }

 private:
  // One channel with places: deviations from its first element keep the digits of a variance beside a large mean.
  void compute_of_halves(const Shape& shape, const mydev_buffer& in, int64_t channel) {
    const double count = static_cast<double>(shape.count());
    visit_halves(in, [&]<typename T>(const T* x) {
      const auto first = static_cast<float>(x[channel * shape.places]);
      const float center = std::isfinite(first) ? first : 0.0f;
      double sum = 0, squares = 0;
      for (int64_t n = 0; n < shape.samples; ++n) {
        add_moments(x + (n * shape.channels + channel) * shape.places, shape.places, center, sum, squares);
      }
      mean[0] = static_cast<double>(center) + sum / count;
      variance[0] = std::max(squares / count - sum / count * (sum / count), 0.0);
    });
  }
};

// The same over dense elements that need no buffers.
template <typename T>
void scale_and_shift_dense(const T* x, T* y, int64_t count, float scale, float shift) {
  constexpr int64_t n = kLanes<float>;
  int64_t i = 0;
  for (; i + n <= count; i += n) store_values(y + i, load_values(x + i) * scale + shift);
  if (i < count) store_partial_values(y + i, load_partial_values(x + i, count - i) * scale + shift, count - i);
}

// Whether scale_and_shift was done: of a channel of a half type.
template <typename C>
bool scale_and_shift_halves(const Shape& shape, const Source<C>& in, const Target<C>& out, int64_t channel,
                            const C* scale, const C* shift) {
  if constexpr (std::is_same_v<C, float>) {
    if (shape.places == 1 || out.buffer.dtype != in.buffer.dtype) return false;
    return visit_halves(out.buffer, [&]<typename T>(T* to) {
      for (int64_t n = 0; n < shape.samples; ++n) {
        const int64_t at = (n * shape.channels + channel) * shape.places;
        scale_and_shift_dense(static_cast<const T*>(in.buffer.data) + at, to + at, shape.places, scale[0], shift[0]);
      }
    });
  }
  return false;
}

// out = in * scale + shift per channel.
template <typename C>
void scale_and_shift(const Shape& shape, const Source<C>& in, const Target<C>& out, int64_t channel, int64_t width,
                     const C* scale, const C* shift) {
  if (scale_and_shift_halves(shape, in, out, channel, scale, shift)) return;
  alignas(64) C space[kChunk], result[kChunk];
  for_each_run(shape, channel, width, [&](int64_t at, int64_t n) {
    const C* x = in.at(at, n, space);
    C* y = out.writer.place(out.address(at), 1, result);
    if (shape.places > 1) {
      const C a = scale[0], b = shift[0];
      for (int64_t j = 0; j < n; ++j) y[j] = x[j] * a + b;
    } else {
      for (int64_t j = 0; j < n; ++j) y[j] = x[j] * scale[j] + shift[j];
    }
    out.writer.write(y, out.address(at), 1, n);
  });
}

template <typename C>
mydev_code training_as(const mydev_frame* frame) {
  const mydev_buffer* b = frame->buffers;
  const ChannelVector<C> mean_out(b[1]), invstd_out(b[2]), running_mean(b[3]), running_var(b[4]), weight(b[6]),
      bias(b[7]);
  const double momentum = frame->attributes[0].value.f, eps = frame->attributes[1].value.f;
  const Shape shape = shape_of(b[5]);
  const Source<C> in{b[5]};
  const Target<C> out{b[0]};
  if (!in.reader.supported() || !out.writer.supported() ||
      !supported({&mean_out, &invstd_out, &running_mean, &running_var, &weight, &bias})) {
    return MYDEV_UNIMPLEMENTED;
  }
  for_each_channel_block(shape, [&](int64_t channel, int64_t width) {
    Statistics<C> statistics;
    statistics.compute(shape, in, channel, width);
    C scale[kChannelBlock], shift[kChannelBlock];
    const double count = static_cast<double>(shape.count());
    for (int64_t j = 0; j < width; ++j) {
      const int64_t c = channel + j;
      const double variance = statistics.variance[j];
      if (running_mean.present()) {
        running_mean.set_if_present(c, (1 - momentum) * running_mean[c] + momentum * statistics.mean[j]);
      }
      if (running_var.present()) {
        const double unbiased = variance * count / (count - 1);
        running_var.set_if_present(c, (1 - momentum) * running_var[c] + momentum * unbiased);
      }
      const double invstd = 1 / std::sqrt(variance + eps);
      mean_out.set_if_present(c, statistics.mean[j]);  // in half precision, rounded; what follows is not
      invstd_out.set_if_present(c, invstd);
      const double factor = invstd * weight.value_or(c, 1);
      scale[j] = static_cast<C>(factor);
      shift[j] = static_cast<C>(bias.value_or(c, 0) - statistics.mean[j] * factor);
    }
    scale_and_shift(shape, in, out, channel, width, scale, shift);
  });
  return MYDEV_OK;
}

template <typename C>
mydev_code inference_as(const mydev_frame* frame) {
  const mydev_buffer* b = frame->buffers;
  const ChannelVector<C> weight(b[2]), bias(b[3]), mean(b[4]), variance(b[5]);
  const double eps = frame->attributes[0].value.f;
  const Shape shape = shape_of(b[1]);
  const Source<C> in{b[1]};
  const Target<C> out{b[0]};
  if (!in.reader.supported() || !out.writer.supported() || !supported({&weight, &bias, &mean, &variance})) {
    return MYDEV_UNIMPLEMENTED;
  }
  for_each_channel_block(shape, [&](int64_t channel, int64_t width) {
    C scale[kChannelBlock], shift[kChannelBlock];
    for (int64_t j = 0; j < width; ++j) {
      const int64_t c = channel + j;
      const double factor = weight.value_or(c, 1) / std::sqrt(variance[c] + eps);
      scale[j] = static_cast<C>(factor);
      shift[j] = static_cast<C>(bias.value_or(c, 0) - mean[c] * factor);
    }
    scale_and_shift(shape, in, out, channel, width, scale, shift);
  });
  return MYDEV_OK;
}

template <typename C>
mydev_code backward_as(const mydev_frame* frame) {
  const mydev_buffer* b = frame->buffers;
  const ChannelVector<C> grad_weight(b[1]), grad_bias(b[2]), weight(b[5]), mean_in(b[6]), scale_in(b[7]);
  const bool training = frame->attributes[0].value.i != 0;
  const double eps = frame->attributes[1].value.f;
  const Shape shape = shape_of(b[4]);
  const Source<C> grad_out{b[3]}, in{b[4]};
  const Target<C> grad_in{b[0]};
  const bool writes = grad_in.buffer.data != nullptr;
  if (!in.reader.supported() || !grad_out.reader.supported() || (writes && !grad_in.writer.supported()) ||
      !supported({&grad_weight, &grad_bias, &weight, &mean_in, &scale_in})) {
    return MYDEV_UNIMPLEMENTED;
  }
  for_each_channel_block(shape, [&](int64_t channel, int64_t width) {
    alignas(64) C x_space[kChunk], g_space[kChunk], product[kChunk];
    double dot[kChannelBlock] = {}, sum[kChannelBlock] = {};
    C mean[kChannelBlock], invstd[kChannelBlock];
    for (int64_t j = 0; j < width; ++j) {
      mean[j] = mean_in[channel + j];
      const C given = scale_in[channel + j];
      invstd[j] = training ? given : static_cast<C>(1 / std::sqrt(given + eps));
    }
    for_each_run(shape, channel, width, [&](int64_t at, int64_t n) {
      const C* x = in.at(at, n, x_space);
      const C* g = grad_out.at(at, n, g_space);
      if (shape.places > 1) {
        for (int64_t j = 0; j < n; ++j) product[j] = (x[j] - mean[0]) * g[j];
        dot[0] += sum_of(product, n);
        sum[0] += sum_of(g, n);
      } else {
        for (int64_t j = 0; j < n; ++j) dot[j] += (x[j] - mean[j]) * g[j];
        for (int64_t j = 0; j < n; ++j) sum[j] += g[j];
      }
    });
    // grad_in = g * scale + x * slope + shift in training, else g * scale, whatever x is
    C scale[kChannelBlock], slope[kChannelBlock], shift[kChannelBlock];
    const double count = static_cast<double>(shape.count());
    for (int64_t j = 0; j < width; ++j) {
      const int64_t c = channel + j;
      grad_weight.set_if_present(c, dot[j] * invstd[j]);
      grad_bias.set_if_present(c, sum[j]);
      const double factor = static_cast<double>(invstd[j]) * weight.value_or(c, 1);
      scale[j] = static_cast<C>(factor);
      slope[j] = static_cast<C>(-factor * invstd[j] * invstd[j] * dot[j] / count);
      shift[j] = static_cast<C>(-factor * sum[j] / count);
    }
    if (!writes) return;
    for_each_run(shape, channel, width, [&](int64_t at, int64_t n) {
      const C* x = in.at(at, n, x_space);
      const C* g = grad_out.at(at, n, g_space);
      C* y = grad_in.writer.place(grad_in.address(at), 1, product);
      if (!training) {
        for (int64_t j = 0; j < n; ++j) y[j] = g[j] * scale[shape.places > 1 ? 0 : j];
      } else if (shape.places > 1) {
        const C m = mean[0], p = scale[0], q = slope[0], r = shift[0];
        for (int64_t j = 0; j < n; ++j) y[j] = g[j] * p + (x[j] - m) * q + r;
      } else {
        for (int64_t j = 0; j < n; ++j) y[j] = g[j] * scale[j] + (x[j] - mean[j]) * slope[j] + shift[j];
      }
      grad_in.writer.write(y, grad_in.address(at), 1, n);
    });
  });
  return MYDEV_OK;
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.batch_norm_training", floating_entry<training_as<float>, training_as<double>, 5>),
    kernel_record("mydev.batch_norm_inference", floating_entry<inference_as<float>, inference_as<double>, 1>),
    kernel_record("mydev.batch_norm_backward", floating_entry<backward_as<float>, backward_as<double>, 4>),
};

}  // namespace

std::span<const mydev_kernel> batch_norm() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
