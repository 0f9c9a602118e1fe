// rms_norm_rope(x T[...,t,d], weight T[d], rotation T[t,d]; eps) -> T[...,t,d], and its gradient; T is f32 or f64.
//
// RMS normalisation of each row, then rotary position embedding: element j of a row turns together with element
// j + d/2, by the angle whose cosine is rotation[t, j] and whose sine is rotation[t, j + d/2]. One pass over memory
// each way, where the composition makes about ten. Operands may have any strides, so that the heads of an attention
// layer need no transposed copy; the result is dense.
//
// The gradient of the weight is a sum over rows. It is made in blocks of rows whose number does not depend on the
// number of threads, hence neither does the result.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "parallel_for.h"
#include "records.h"

namespace {

constexpr int kLanes = 16;
constexpr int64_t kMaxBlocks = 64;

// The sum of term(j) over [0, n), in lanes that the compiler can keep in vector registers.
template <typename T, typename Term>
T sum_of(int64_t n, const Term& term) {
  T lanes[kLanes] = {};
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += term(j + lane);
  }
  T sum = 0;
  for (; j < n; ++j) sum += term(j);
  for (const T lane : lanes) sum += lane;
  return sum;
}

mydev_code refuse(const mydev_frame& frame, const char* message) {
  frame.host->set_error(&frame, message);
  return MYDEV_INVALID_ARGUMENT;
}

// [docs: strides]
// Walks over the rows of a strided buffer in row-major order.
template <typename T>
class RowCursor {
 public:
  RowCursor(const mydev_buffer& buffer, int64_t row)
      : buffer_(buffer), outer_(buffer.rank - 1), data_(static_cast<T*>(buffer.data)) {
    for (int32_t d = outer_ - 1; d >= 0; --d) {
      index_[d] = row % buffer.sizes[d];
      row /= buffer.sizes[d];
      data_ += index_[d] * buffer.strides[d];
    }
  }
  T* get() const { return data_; }
  int64_t stride() const { return buffer_.strides[outer_]; }
  void next() {
    for (int32_t d = outer_ - 1; d >= 0; --d) {
      data_ += buffer_.strides[d];
      if (++index_[d] < buffer_.sizes[d]) return;
      data_ -= index_[d] * buffer_.strides[d];
      index_[d] = 0;
    }
  }

 private:
  const mydev_buffer& buffer_;
  int32_t outer_;
  T* data_;
  int64_t index_[MYDEV_MAX_SHAPE_RANK] = {};
};
// [docs: end]

int64_t row_count(const mydev_buffer& x) {
  int64_t rows = 1;
  for (int32_t d = 0; d + 1 < x.rank; ++d) rows *= x.sizes[d];
  return rows;
}

template <typename T, typename Stride>
void forward_row(T* __restrict out, const T* __restrict x, Stride stride, const T* __restrict weight,
                 const T* __restrict rotation, int64_t d, T eps) {
  const int64_t half = d / 2;
  const T squares = sum_of<T>(d, [=](int64_t j) { return x[j * stride] * x[j * stride]; });
  const T scale = T(1) / std::sqrt(squares / static_cast<T>(d) + eps);
  for (int64_t j = 0; j < half; ++j) {
    const T a = x[j * stride] * scale * weight[j], b = x[(j + half) * stride] * scale * weight[j + half];
    out[j] = a * rotation[j] - b * rotation[j + half];
    out[j + half] = b * rotation[j] + a * rotation[j + half];
  }
}

template <typename T>
mydev_code forward(const mydev_frame& frame) {
  const mydev_buffer &out = frame.buffers[0], &x = frame.buffers[1];
  const int64_t t = x.sizes[x.rank - 2], d = x.sizes[x.rank - 1], rows = row_count(x);
  if (d % 2 != 0) return refuse(frame, "the last size of x must be even: its halves turn against each other");
  const T* weight = static_cast<const T*>(frame.buffers[2].data);
  const T* rotation = static_cast<const T*>(frame.buffers[3].data);
  const T eps = static_cast<T>(frame.attributes[0].value.f);
  parallel_for(frame, rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(d, 1)), [&](int64_t begin, int64_t end) {
    RowCursor<const T> row(x, begin);
    for (int64_t i = begin; i < end; ++i, row.next()) {
      T* to = static_cast<T*>(out.data) + i * d;
      if (row.stride() == 1) {
        forward_row(to, row.get(), std::integral_constant<int64_t, 1>(), weight, rotation + i % t * d, d, eps);
      } else {
        forward_row(to, row.get(), row.stride(), weight, rotation + i % t * d, d, eps);
      }
    }
  });
  return MYDEV_OK;
}

// Adds to grad_weight; `turned` is room for a row.
template <typename T, typename Stride, typename GradStride>
void backward_row(T* __restrict grad_x, T* __restrict grad_weight, T* __restrict turned, const T* __restrict x,
                  Stride stride, const T* __restrict weight, const T* __restrict rotation, const T* __restrict grad,
                  GradStride grad_stride, int64_t d, T eps) {
  const int64_t half = d / 2;
  for (int64_t j = 0; j < half; ++j) {
    const T a = grad[j * grad_stride], b = grad[(j + half) * grad_stride];
    turned[j] = a * rotation[j] + b * rotation[j + half];
    turned[j + half] = b * rotation[j] - a * rotation[j + half];
  }
  const T squares = sum_of<T>(d, [=](int64_t j) { return x[j * stride] * x[j * stride]; });
  const T product = sum_of<T>(d, [=](int64_t j) { return turned[j] * weight[j] * x[j * stride]; });
  const T scale = T(1) / std::sqrt(squares / static_cast<T>(d) + eps);
  const T along = product * scale * scale / static_cast<T>(d);
  for (int64_t j = 0; j < d; ++j) {
    grad_x[j] = scale * (turned[j] * weight[j] - x[j * stride] * along);
    grad_weight[j] += turned[j] * x[j * stride] * scale;
  }
}

// [docs: scratch]
int64_t block_count(const mydev_buffer& x) {
  return std::min(kMaxBlocks, row_count(x));
}

// Two rows per block: the sum for the gradient of the weight, and one that backward_row works in.
uint64_t backward_scratch_bytes(const mydev_frame* frame) {
  const mydev_buffer& x = frame->buffers[frame->num_outputs];
  const uint64_t size = x.dtype == MYDEV_F32 ? sizeof(float) : sizeof(double);
  return static_cast<uint64_t>(2 * block_count(x) * x.sizes[x.rank - 1]) * size;
}
// [docs: end]

template <typename T>
mydev_code backward(const mydev_frame& frame) {
  const mydev_buffer &grad_x = frame.buffers[0], &x = frame.buffers[2], &grad = frame.buffers[5];
  T* grad_weight = static_cast<T*>(frame.buffers[1].data);
  const T* weight = static_cast<const T*>(frame.buffers[3].data);
  const T* rotation = static_cast<const T*>(frame.buffers[4].data);
  const T eps = static_cast<T>(frame.attributes[0].value.f);
  const int64_t t = x.sizes[x.rank - 2], d = x.sizes[x.rank - 1], rows = row_count(x), blocks = block_count(x);
  if (d % 2 != 0) return refuse(frame, "the last size of x must be even: its halves turn against each other");
  T* scratch = static_cast<T*>(frame.scratch);
  const int64_t grain = std::max<int64_t>(1, blocks * 8192 / std::max<int64_t>(rows * d, 1));
  parallel_for(frame, blocks, grain, [&](int64_t begin, int64_t end) {
    constexpr std::integral_constant<int64_t, 1> kOne;
    for (int64_t block = begin; block < end; ++block) {
      T *sum = scratch + 2 * block * d, *turned = sum + d;
      std::fill(sum, turned, T(0));
      const int64_t first = rows * block / blocks, last = rows * (block + 1) / blocks;
      RowCursor<const T> row(x, first), grad_row(grad, first);
      for (int64_t i = first; i < last; ++i, row.next(), grad_row.next()) {
        T* to = static_cast<T*>(grad_x.data) + i * d;
        const T* turn = rotation + i % t * d;
        if (row.stride() == 1 && grad_row.stride() == 1) {
          backward_row(to, sum, turned, row.get(), kOne, weight, turn, grad_row.get(), kOne, d, eps);
        } else {
          backward_row(to, sum, turned, row.get(), row.stride(), weight, turn, grad_row.get(), grad_row.stride(), d,
                       eps);
        }
      }
    }
  });
  std::fill(grad_weight, grad_weight + d, T(0));
  for (int64_t block = 0; block < blocks; ++block) {
    for (int64_t j = 0; j < d; ++j) grad_weight[j] += scratch[2 * block * d + j];
  }
  return MYDEV_OK;
}

mydev_code forward_entry(const mydev_frame* frame) {
  return frame->buffers[0].dtype == MYDEV_F32 ? forward<float>(*frame) : forward<double>(*frame);
}

mydev_code backward_entry(const mydev_frame* frame) {
  return frame->buffers[0].dtype == MYDEV_F32 ? backward<float>(*frame) : backward<double>(*frame);
}

// --- records ---------------------------------------------------------------------------------------------------------

// [docs: fused-signature]
constexpr char kTypes[] = "T: f32 f64";
constexpr mydev_signature kSignature = {
    .struct_size = sizeof(mydev_signature),
    .contract = "dense (out T[n...,t,d]) <- (x strided T[n...,t,d], weight T[d], rotation T[t,d]; eps: float = 1e-6)",
    .types = kTypes};

// [docs: end]

// [docs: fused-gradient]
// The gradient is given operands 0, 1 and 2, then the gradient of the result; it returns those of operands 0 and 1.
constexpr int32_t kSaved[] = {0, 1, 2}, kWrt[] = {0, 1};
constexpr mydev_gradient kGradient = {
    sizeof(mydev_gradient), "example.rms_norm_rope_grad", kSaved, 3, /*num_wrt=*/2, kWrt};
// [docs: end]

constexpr mydev_signature kGradSignature = {
    .struct_size = sizeof(mydev_signature),
    .contract =
        "dense (grad_x T[n...,t,d], grad_weight T[d]) <- (x strided T[n...,t,d], weight T[d], rotation T[t,d],"
        " grad strided T[n...,t,d]; eps: float = 1e-6)",
    .types = kTypes};

}  // namespace

extern "C" constexpr mydev_kernel rms_norm_rope = {
    .struct_size = sizeof(mydev_kernel),
    .name = "example.rms_norm_rope",
    .entry = forward_entry,
    .doc = "RMS normalisation of rows, then rotary position embedding",
    .signature = &kSignature,
    .gradient = &kGradient,
    .batching = MYDEV_BATCHING_SEQUENTIAL,
};

extern "C" constexpr mydev_kernel rms_norm_rope_grad = {
    .struct_size = sizeof(mydev_kernel),
    .name = "example.rms_norm_rope_grad",
    .entry = backward_entry,
    .scratch_bytes = backward_scratch_bytes,
    .doc = "the gradient of example.rms_norm_rope",
    .signature = &kGradSignature,
    .batching = MYDEV_BATCHING_SEQUENTIAL,
};
