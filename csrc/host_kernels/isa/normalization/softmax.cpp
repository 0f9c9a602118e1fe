// Kernel group softmax: softmax, its logarithm, and their backwards along the middle of three dimensions.
//
// Computed in float for f16, bf16 and f32, in double for f64. A row is one task where inner is 1, else a block of
// kColumns columns.
#include <cmath>
#include <limits>

#include "host_kernels/isa/simd/dense_values.h"
#include "host_kernels/isa/simd/element_chunk.h"
#include "runtime/base/parallel.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int64_t kColumns = 256;
static_assert(kColumns <= kChunk);

struct Shape {
  int64_t outer, dim, inner;
};

Shape shape_of(const mydev_frame* frame) {
  const int64_t* sizes = frame->buffers[0].sizes;
  return {sizes[0], sizes[1], sizes[2]};
}

// Calls pass.row(at) where inner is 1, else pass.columns(at, count) for neighbouring lines along `dim`; `at` is the
// position of the (first) line's first element.
template <typename Pass>
void for_each_line(const Pass& pass) {
  const Shape shape = pass.shape();
  if (shape.dim == 0) return;
  if (shape.inner == 1) {
    parallel_for(shape.outer, std::max<int64_t>(kGrainHeavy / shape.dim, 1), [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row) pass.row(row * shape.dim);
    });
    return;
  }
  const int64_t blocks = (shape.inner + kColumns - 1) / kColumns;
  const int64_t per_task = std::min(shape.inner, kColumns) * shape.dim;
  parallel_for(shape.outer * blocks, std::max<int64_t>(kGrainHeavy / per_task, 1), [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const int64_t column = task % blocks * kColumns;
      pass.columns(task / blocks * shape.dim * shape.inner + column, std::min(kColumns, shape.inner - column));
    }
  });
}

template <typename C, bool kLog>
class Forward {
 public:
  explicit Forward(const mydev_frame* frame)
      : shape_(shape_of(frame)),
        out_(static_cast<char*>(frame->buffers[0].data)),
        in_(static_cast<const char*>(frame->buffers[1].data)),
        writer_(frame->buffers[0].dtype),
        reader_(frame->buffers[1].dtype) {}
  bool supported() const { return writer_.supported() && reader_.supported(); }

  const Shape& shape() const { return shape_; }

  void row(int64_t at) const {
    alignas(64) C source[kChunk];
    alignas(64) C result[kChunk];
    C maximum = kLowest;
    for (int64_t i = 0; i < shape_.dim; i += kChunk) {
      const int64_t count = std::min(kChunk, shape_.dim - i);
      maximum =
          kLarger(extremum_of<true>(read(at + i, count, source), count, kLowest, [](auto x) { return x; }), maximum);
    }
    double sum = 0;
    for (int64_t i = 0; i < shape_.dim; i += kChunk) {
      const int64_t count = std::min(kChunk, shape_.dim - i);
      const C* x = read(at + i, count, source);
      sum += exp_shifted(x, maximum, result, count);
    }
    const C scale = static_cast<C>(kLog ? std::log(sum) : 1.0 / sum);
    const bool kept = !kLog && shape_.dim <= kChunk;  // the exponentials are still in `result`
    for (int64_t i = 0; i < shape_.dim; i += kChunk) {
      const int64_t count = std::min(kChunk, shape_.dim - i);
      char* target = out_ + (at + i) * writer_.element_bytes();
      C* y = writer_.place(target, 1, result);
      if (kept) {
        for (int64_t j = 0; j < count; ++j) y[j] = result[j] * scale;
      } else {
        const C* x = read(at + i, count, source);
        if constexpr (kLog) {
          for (int64_t j = 0; j < count; ++j) y[j] = x[j] - maximum - scale;
        } else {
          exp_shifted(x, maximum, y, count);
          for (int64_t j = 0; j < count; ++j) y[j] *= scale;
        }
      }
      writer_.write(y, target, 1, count);
    }
  }

  void columns(int64_t at, int64_t count) const {
    alignas(64) C source[kChunk];
    alignas(64) C result[kColumns];
    alignas(64) C maximum[kColumns];
    alignas(64) C sum[kColumns];
    for (int64_t j = 0; j < count; ++j) {
      maximum[j] = kLowest;
      sum[j] = 0;
    }
    for (int64_t d = 0; d < shape_.dim; ++d) {
      const C* x = read(at + d * shape_.inner, count, source);
      for (int64_t j = 0; j < count; ++j) maximum[j] = kLarger(x[j], maximum[j]);
    }
    for (int64_t d = 0; d < shape_.dim; ++d) {
      const C* x = read(at + d * shape_.inner, count, source);
      for (int64_t j = 0; j < count; ++j) result[j] = x[j] - maximum[j];
      exp_values(result, count);
      for (int64_t j = 0; j < count; ++j) sum[j] += result[j];
    }
    for (int64_t j = 0; j < count; ++j) sum[j] = kLog ? std::log(sum[j]) : 1 / sum[j];
    for (int64_t d = 0; d < shape_.dim; ++d) {
      const C* x = read(at + d * shape_.inner, count, source);
      char* target = out_ + (at + d * shape_.inner) * writer_.element_bytes();
      C* y = writer_.place(target, 1, result);
      if constexpr (kLog) {
        for (int64_t j = 0; j < count; ++j) y[j] = x[j] - maximum[j] - sum[j];
      } else {
        for (int64_t j = 0; j < count; ++j) y[j] = x[j] - maximum[j];
        exp_values(y, count);
        for (int64_t j = 0; j < count; ++j) y[j] *= sum[j];
      }
      writer_.write(y, target, 1, count);
    }
  }

 private:
  static constexpr C kLowest = -std::numeric_limits<C>::infinity();
  const C* read(int64_t at, int64_t count, C* buffer) const {
    return reader_.read(in_ + at * reader_.element_bytes(), 1, count, buffer);
  }

  Shape shape_;
  char* out_;
  const char* in_;
  ChunkWriter<C> writer_;
  ChunkReader<C> reader_;
};

template <typename C, bool kLog>
class Backward {
 public:
  explicit Backward(const mydev_frame* frame)
      : shape_(shape_of(frame)),
        grad_in_(static_cast<char*>(frame->buffers[0].data)),
        grad_(static_cast<const char*>(frame->buffers[1].data)),
        out_(static_cast<const char*>(frame->buffers[2].data)),
        writer_(frame->buffers[0].dtype),
        grad_reader_(frame->buffers[1].dtype),
        out_reader_(frame->buffers[2].dtype) {}
  bool supported() const { return writer_.supported() && grad_reader_.supported() && out_reader_.supported(); }

  const Shape& shape() const { return shape_; }

  void row(int64_t at) const {
    alignas(64) C grads[kChunk];
    alignas(64) C outs[kChunk];
    alignas(64) C result[kChunk];
    double total = 0;
    for (int64_t i = 0; i < shape_.dim; i += kChunk) {
      const int64_t count = std::min(kChunk, shape_.dim - i);
      const C* g = read_grad(at + i, count, grads);
      total += kLog ? sum_of(g, count) : dot_of(g, read_out(at + i, count, outs), count);
    }
    const C sum = static_cast<C>(total);
    for (int64_t i = 0; i < shape_.dim; i += kChunk) {
      const int64_t count = std::min(kChunk, shape_.dim - i);
      const C* g = read_grad(at + i, count, grads);
      const C* y = read_out(at + i, count, outs);
      char* target = grad_in_ + (at + i) * writer_.element_bytes();
      C* r = writer_.place(target, 1, result);
      if constexpr (kLog) {
        std::memcpy(result, y, static_cast<size_t>(count) * sizeof(C));
        exp_values(result, count);
        for (int64_t j = 0; j < count; ++j) r[j] = g[j] - result[j] * sum;
      } else {
        for (int64_t j = 0; j < count; ++j) r[j] = (g[j] - sum) * y[j];
      }
      writer_.write(r, target, 1, count);
    }
  }

  void columns(int64_t at, int64_t count) const {
    alignas(64) C grads[kChunk];
    alignas(64) C outs[kChunk];
    alignas(64) C result[kColumns];
    alignas(64) C sum[kColumns];
    for (int64_t j = 0; j < count; ++j) sum[j] = 0;
    for (int64_t d = 0; d < shape_.dim; ++d) {
      const C* g = read_grad(at + d * shape_.inner, count, grads);
      if constexpr (kLog) {
        for (int64_t j = 0; j < count; ++j) sum[j] += g[j];
      } else {
        const C* y = read_out(at + d * shape_.inner, count, outs);
        for (int64_t j = 0; j < count; ++j) sum[j] += g[j] * y[j];
      }
    }
    for (int64_t d = 0; d < shape_.dim; ++d) {
      const int64_t line = at + d * shape_.inner;
      const C* g = read_grad(line, count, grads);
      const C* y = read_out(line, count, outs);
      char* target = grad_in_ + line * writer_.element_bytes();
      C* r = writer_.place(target, 1, result);
      if constexpr (kLog) {
        std::memcpy(result, y, static_cast<size_t>(count) * sizeof(C));
        exp_values(result, count);
        for (int64_t j = 0; j < count; ++j) r[j] = g[j] - result[j] * sum[j];
      } else {
        for (int64_t j = 0; j < count; ++j) r[j] = (g[j] - sum[j]) * y[j];
      }
      writer_.write(r, target, 1, count);
    }
  }

 private:
  const C* read_grad(int64_t at, int64_t count, C* buffer) const {
    return grad_reader_.read(grad_ + at * grad_reader_.element_bytes(), 1, count, buffer);
  }
  const C* read_out(int64_t at, int64_t count, C* buffer) const {
    return out_reader_.read(out_ + at * out_reader_.element_bytes(), 1, count, buffer);
  }

  Shape shape_;
  char* grad_in_;
  const char* grad_;
  const char* out_;
  ChunkWriter<C> writer_;
  ChunkReader<C> grad_reader_, out_reader_;
};

template <template <typename, bool> class Pass, bool kLog>
mydev_code softmax_entry(const mydev_frame* frame) {
  if (!have_one_floating_dtype(frame)) return MYDEV_UNIMPLEMENTED;
  const auto run = [](const auto& pass) {
    if (!pass.supported()) return MYDEV_UNIMPLEMENTED;
    for_each_line(pass);
    return MYDEV_OK;
  };
  if (frame->buffers[0].dtype == MYDEV_F64) return run(Pass<double, kLog>(frame));
  return run(Pass<float, kLog>(frame));
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.softmax", softmax_entry<Forward, false>),
    kernel_record("mydev.log_softmax", softmax_entry<Forward, true>),
    kernel_record("mydev.softmax_backward", softmax_entry<Backward, false>),
    kernel_record("mydev.log_softmax_backward", softmax_entry<Backward, true>),
};

}  // namespace

std::span<const mydev_kernel> softmax() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
