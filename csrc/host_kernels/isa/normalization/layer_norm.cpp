// Kernel group layer_norm: over the rows of dense [M, N].
//
// f16, bf16 and f32, also mixed, are computed in float. Statistics take two passes, sums in double. The gradients of
// weight and bias are summed over pieces of rows that the shape alone decides.
#include <algorithm>
#include <cmath>

#include "host_kernels/isa/simd/dense_values.h"
#include "host_kernels/isa/simd/element_chunk.h"
#include "runtime/base/parallel.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int64_t kMaxRowPieces = 32, kRowsPerPiece = 16;

template <typename C>
class Operand {
 public:
  explicit Operand(const mydev_buffer& buffer)
      : data_(static_cast<char*>(buffer.data)), reader_(buffer.dtype), writer_(buffer.dtype) {}
  bool supported() const { return !present() || (reader_.supported() && writer_.supported()); }
  bool present() const { return data_ != nullptr; }
  const C* read(int64_t at, int64_t count, C* space) const { return reader_.read(address(at), 1, count, space); }
  C value(int64_t at) const {
    C space[1];
    return *read(at, 1, space);
  }
  C* place(int64_t at, C* space) const { return writer_.place(address(at), 1, space); }
  void write(const C* values, int64_t at, int64_t count) const { writer_.write(values, address(at), 1, count); }

 private:
  char* address(int64_t at) const { return data_ + at * reader_.element_bytes(); }
  char* data_;
  ChunkReader<C> reader_;
  ChunkWriter<C> writer_;
};

// Reads chunks of an operand, and keeps the last: passes over a row that is one chunk convert it once.
template <typename C>
class KeptChunk {
 public:
  explicit KeptChunk(const Operand<C>& operand) : operand_(operand) {}
  const C* read(int64_t at, int64_t count) {
    if (at != at_ || count != count_) values_ = operand_.read(at, count, space_);
    at_ = at;
    count_ = count;
    return values_;
  }

 private:
  const Operand<C>& operand_;
  const C* values_ = nullptr;
  int64_t at_ = -1, count_ = 0;
  alignas(64) C space_[kChunk];
};

// Calls body(at, count) for the chunks of a row of `length` elements.
template <typename Body>
void for_each_chunk(int64_t length, const Body& body) {
  for (int64_t at = 0; at < length; at += kChunk) body(at, std::min(kChunk, length - at));
}

template <typename C>
mydev_code forward_as(const mydev_frame* frame) {
  const Operand<C> out(frame->buffers[0]), mean_out(frame->buffers[1]), rstd_out(frame->buffers[2]),
      in(frame->buffers[3]), weight(frame->buffers[4]), bias(frame->buffers[5]);
  for (const Operand<C>* operand : {&out, &mean_out, &rstd_out, &in, &weight, &bias}) {
    if (!operand->supported()) return MYDEV_UNIMPLEMENTED;
  }
  const int64_t rows = frame->buffers[3].sizes[0], length = frame->buffers[3].sizes[1];
  const double eps = frame->attributes[0].value.f;
  parallel_for(rows, std::max<int64_t>(kGrainHeavy / std::max<int64_t>(length, 1), 1), [&](int64_t begin, int64_t end) {
    KeptChunk<C> values(in), weights(weight), biases(bias);
    alignas(64) C result[kChunk];
    for (int64_t row = begin; row < end; ++row) {
      const int64_t start = row * length;
      double sum = 0, squares = 0;
      for_each_chunk(length, [&](int64_t at, int64_t n) { sum += wide_sum_of(values.read(start + at, n), n); });
      const double exact_mean = sum / static_cast<double>(length);
      const C mean = static_cast<C>(exact_mean);
      for_each_chunk(length,
                     [&](int64_t at, int64_t n) { squares += squares_about(values.read(start + at, n), mean, n); });
      const double rounded = exact_mean - static_cast<double>(mean);
      const double variance = std::max(squares / static_cast<double>(length) - rounded * rounded, 0.0);
      const C rstd = static_cast<C>(1 / std::sqrt(variance + eps));
      mean_out.write(&mean, row, 1);
      rstd_out.write(&rstd, row, 1);
      for_each_chunk(length, [&](int64_t at, int64_t n) {
        const C* x = values.read(start + at, n);
        C* y = out.place(start + at, result);
        if (weight.present() && bias.present()) {
          const C *w = weights.read(at, n), *b = biases.read(at, n);
          for (int64_t j = 0; j < n; ++j) y[j] = (x[j] - mean) * rstd * w[j] + b[j];
        } else {
          for (int64_t j = 0; j < n; ++j) y[j] = (x[j] - mean) * rstd;
          if (weight.present()) {
            const C* w = weights.read(at, n);
            for (int64_t j = 0; j < n; ++j) y[j] *= w[j];
          }
          if (bias.present()) {
            const C* b = biases.read(at, n);
            for (int64_t j = 0; j < n; ++j) y[j] += b[j];
          }
        }
        out.write(y, start + at, n);
      });
    }
  });
  return MYDEV_OK;
}

int64_t row_pieces(int64_t rows) {
  return std::clamp<int64_t>(rows / kRowsPerPiece, 1, kMaxRowPieces);
}

template <typename C>
class Backward {
 public:
  explicit Backward(const mydev_frame* frame)
      : grad_in_(frame->buffers[0]),
        grad_weight_(frame->buffers[1]),
        grad_bias_(frame->buffers[2]),
        grad_out_(frame->buffers[3]),
        in_(frame->buffers[4]),
        mean_(frame->buffers[5]),
        rstd_(frame->buffers[6]),
        weight_(frame->buffers[7]),
        rows_(frame->buffers[4].sizes[0]),
        length_(frame->buffers[4].sizes[1]),
        partial_(static_cast<C*>(frame->scratch)) {}
  bool supported() const {
    for (const Operand<C>* o : {&grad_in_, &grad_weight_, &grad_bias_, &grad_out_, &in_, &mean_, &rstd_, &weight_}) {
      if (!o->supported()) return false;
    }
    return true;
  }

  void run() const {
    const int64_t pieces = row_pieces(rows_);
    const bool sums = grad_weight_.present() || grad_bias_.present();
    const int64_t grain = std::max<int64_t>(kGrainHeavy / std::max<int64_t>(rows_ / pieces * length_, 1), 1);
    parallel_for(pieces, grain, [&](int64_t first, int64_t last) {
      for (int64_t piece = first; piece < last; ++piece) {
        C* weight_sum = partial_ + piece * 2 * length_;
        if (sums) std::fill(weight_sum, weight_sum + 2 * length_, C{0});
        for (int64_t row = rows_ * piece / pieces; row < rows_ * (piece + 1) / pieces; ++row) {
          differentiate_row(row, sums ? weight_sum : nullptr, sums ? weight_sum + length_ : nullptr);
        }
      }
    });
    if (grad_weight_.present()) combine(pieces, 0, grad_weight_);
    if (grad_bias_.present()) combine(pieces, length_, grad_bias_);
  }

 private:
  struct RowSums {
    double gradient = 0, product = 0;
  };

  // Computes for a chunk gradient = g * weight and normal, the normalised input. Returns the sum of `gradient` and its
  // dot product with `normal`. Adds to the sums of the weight's and the bias's gradients if there are such.
  RowSums scale(int64_t row, int64_t at, int64_t n, C mean, C rstd, C* gradient, C* normal, C* weight_sum,
                C* bias_sum) const {
    alignas(64) C x_space[kChunk], g_space[kChunk], w_space[kChunk];
    const C* x = in_.read(row * length_ + at, n, x_space);
    const C* g = grad_out_.read(row * length_ + at, n, g_space);
    const C* w = weight_.present() ? weight_.read(at, n, w_space) : nullptr;
    constexpr int64_t lanes = kLanes<C>;
    Vec<C> sum = {}, dot = {};
    int64_t j = 0;
    for (; j + lanes <= n; j += lanes) {
      const Vec<C> grad = load(g + j), value = (load(x + j) - mean) * rstd;
      const Vec<C> scaled = w != nullptr ? grad * load(w + j) : grad;
      store(gradient + j, scaled);
      store(normal + j, value);
      sum += scaled;
      dot += scaled * value;
      if (weight_sum != nullptr) {
        store(weight_sum + at + j, load(weight_sum + at + j) + grad * value);
        store(bias_sum + at + j, load(bias_sum + at + j) + grad);
      }
    }
    RowSums sums{across_lanes<C>(sum, kPlus), across_lanes<C>(dot, kPlus)};
    for (; j < n; ++j) {
      normal[j] = (x[j] - mean) * rstd;
      gradient[j] = w != nullptr ? g[j] * w[j] : g[j];
      sums.gradient += gradient[j];
      sums.product += gradient[j] * normal[j];
      if (weight_sum != nullptr) {
        weight_sum[at + j] += g[j] * normal[j];
        bias_sum[at + j] += g[j];
      }
    }
    return sums;
  }

  void differentiate_row(int64_t row, C* weight_sum, C* bias_sum) const {
    alignas(64) C gradient[kChunk], normal[kChunk];
    const C mean = mean_.value(row), rstd = rstd_.value(row);
    RowSums total;
    for_each_chunk(length_, [&](int64_t at, int64_t n) {
      const RowSums sums = scale(row, at, n, mean, rstd, gradient, normal, weight_sum, bias_sum);
      total.gradient += sums.gradient;
      total.product += sums.product;
    });
    if (!grad_in_.present()) return;
    const C mean_gradient = static_cast<C>(total.gradient / static_cast<double>(length_));
    const C mean_product = static_cast<C>(total.product / static_cast<double>(length_));
    for_each_chunk(length_, [&](int64_t at, int64_t n) {
      if (length_ > kChunk) scale(row, at, n, mean, rstd, gradient, normal, nullptr, nullptr);
      C* y = grad_in_.place(row * length_ + at, gradient);
#pragma GCC ivdep
      for (int64_t j = 0; j < n; ++j) y[j] = rstd * (gradient[j] - mean_gradient - normal[j] * mean_product);
      grad_in_.write(y, row * length_ + at, n);
    });
  }

  void combine(int64_t pieces, int64_t offset, const Operand<C>& target) const {
    alignas(64) double total[kChunk];
    alignas(64) C result[kChunk];
    for_each_chunk(length_, [&](int64_t at, int64_t n) {
      std::fill(total, total + n, 0.0);
      for (int64_t piece = 0; piece < pieces; ++piece) {
        const C* from = partial_ + piece * 2 * length_ + offset + at;
        for (int64_t j = 0; j < n; ++j) total[j] += from[j];
      }
      for (int64_t j = 0; j < n; ++j) result[j] = static_cast<C>(total[j]);
      target.write(result, at, n);
    });
  }

  Operand<C> grad_in_, grad_weight_, grad_bias_, grad_out_, in_, mean_, rstd_, weight_;
  int64_t rows_, length_;
  C* partial_;
};

template <typename C>
mydev_code backward_as(const mydev_frame* frame) {
  const Backward<C> backward(frame);
  if (!backward.supported()) return MYDEV_UNIMPLEMENTED;
  backward.run();
  return MYDEV_OK;
}

uint64_t backward_scratch(const mydev_frame* frame) {
  const int64_t* sizes = frame->buffers[4].sizes;
  return static_cast<uint64_t>(row_pieces(sizes[0]) * 2 * sizes[1]) * sizeof(double);
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.layer_norm", floating_entry<forward_as<float>, forward_as<double>, 3>),
    kernel_record("mydev.layer_norm_backward", floating_entry<backward_as<float>, backward_as<double>, 4>,
                  backward_scratch),
};

}  // namespace

std::span<const mydev_kernel> layer_norm() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
