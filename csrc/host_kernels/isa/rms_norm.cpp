// Kernel group rms_norm: normalisation of rows by their root mean square, forward and backward.
//
// Rows are independent; the gradient of the weight sums over them column by column, in their order, so that results do
// not depend on the number of threads.
#include <algorithm>
#include <cmath>

#include "host_kernels/isa/isa.h"
#include "runtime/base/parallel.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kColumnBlock = 64;

template <typename T>
T* data(const mydev_buffer& buffer) {
  return static_cast<T*>(buffer.data);
}

// The sum of term(j) over [0, n), in kLanes partial sums.
template <typename T, typename Term>
T sum_of(int64_t n, const Term& term) {
  T lanes[kLanes] = {};
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(j + lane);
  }
  for (; j < n; ++j) lanes[j % kLanes] += term(j);
  T sum = 0;
  for (const T lane : lanes) sum += lane;
  return sum;
}

template <typename T>
void forward(const mydev_frame& frame) {
  T* out = data<T>(frame.buffers[0]);
  T* inverse_rms = data<T>(frame.buffers[1]);
  const T* x = data<T>(frame.buffers[2]);
  const T* weight = data<T>(frame.buffers[3]);
  const int64_t rows = frame.buffers[2].sizes[0], n = frame.buffers[2].sizes[1];
  const T eps = static_cast<T>(frame.attributes[0].value.f);
  parallel_for(rows, std::max<int64_t>(1, kGrainCheap / std::max<int64_t>(n, 1)), [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* row = x + i * n;
      T* to = out + i * n;
      const T squares = sum_of<T>(n, [row](int64_t j) { return row[j] * row[j]; });
      const T scale = T(1) / std::sqrt(squares / static_cast<T>(n) + eps);
      inverse_rms[i] = scale;
      if (weight != nullptr) {
        for (int64_t j = 0; j < n; ++j) to[j] = row[j] * scale * weight[j];
      } else {
        for (int64_t j = 0; j < n; ++j) to[j] = row[j] * scale;
      }
    }
  });
}

// With y = x * s: d x = s * (g w - y * mean(g w y)).
template <typename T>
void backward_x(const mydev_frame& frame) {
  T* grad_x = data<T>(frame.buffers[0]);
  const T* grad = data<T>(frame.buffers[2]);
  const T* x = data<T>(frame.buffers[3]);
  const T* inverse_rms = data<T>(frame.buffers[4]);
  const T* weight = data<T>(frame.buffers[5]);
  const int64_t rows = frame.buffers[2].sizes[0], n = frame.buffers[2].sizes[1];
  parallel_for(rows, std::max<int64_t>(1, kGrainCheap / std::max<int64_t>(n, 1)), [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T *g = grad + i * n, *row = x + i * n;
      T* to = grad_x + i * n;
      const T scale = inverse_rms[i];
      const auto weighted = [g, weight](int64_t j) { return weight != nullptr ? g[j] * weight[j] : g[j]; };
      const T mean = sum_of<T>(n, [&](int64_t j) { return weighted(j) * row[j]; }) * scale / static_cast<T>(n);
      for (int64_t j = 0; j < n; ++j) to[j] = scale * (weighted(j) - row[j] * scale * mean);
    }
  });
}

template <typename T>
void backward_weight(const mydev_frame& frame) {
  T* grad_weight = data<T>(frame.buffers[1]);
  const T* grad = data<T>(frame.buffers[2]);
  const T* x = data<T>(frame.buffers[3]);
  const T* inverse_rms = data<T>(frame.buffers[4]);
  const int64_t rows = frame.buffers[2].sizes[0], n = frame.buffers[2].sizes[1];
  const int64_t blocks = (n + kColumnBlock - 1) / kColumnBlock;
  const int64_t grain = std::max<int64_t>(1, kGrainCheap / (kColumnBlock * std::max<int64_t>(rows, 1)));
  parallel_for(blocks, grain, [=](int64_t begin, int64_t end) {
    const int64_t first = begin * kColumnBlock, last = std::min(end * kColumnBlock, n);
    for (int64_t j = first; j < last; ++j) grad_weight[j] = 0;
    for (int64_t i = 0; i < rows; ++i) {
      const T *g = grad + i * n, *row = x + i * n;
      const T scale = inverse_rms[i];
      for (int64_t j = first; j < last; ++j) grad_weight[j] += g[j] * row[j] * scale;
    }
  });
}

mydev_code forward_entry(const mydev_frame* frame) {
  if (!have_one_floating_dtype(frame)) return MYDEV_UNIMPLEMENTED;
  switch (frame->buffers[0].dtype) {
    case MYDEV_F32:
      forward<float>(*frame);
      return MYDEV_OK;
    case MYDEV_F64:
      forward<double>(*frame);
      return MYDEV_OK;
    default:
      return MYDEV_UNIMPLEMENTED;
  }
}

template <typename T>
mydev_code backward(const mydev_frame& frame) {
  backward_x<T>(frame);
  if (frame.buffers[1].data != nullptr) backward_weight<T>(frame);
  return MYDEV_OK;
}

mydev_code backward_entry(const mydev_frame* frame) {
  if (!have_one_floating_dtype(frame)) return MYDEV_UNIMPLEMENTED;
  switch (frame->buffers[0].dtype) {
    case MYDEV_F32:
      return backward<float>(*frame);
    case MYDEV_F64:
      return backward<double>(*frame);
    default:
      return MYDEV_UNIMPLEMENTED;
  }
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.rms_norm", forward_entry),
    kernel_record("mydev.rms_norm_backward", backward_entry),
};

}  // namespace

std::span<const mydev_kernel> rms_norm() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
