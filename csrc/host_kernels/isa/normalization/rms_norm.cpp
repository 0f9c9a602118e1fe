// Kernel group rms_norm: normalisation of rows by their root mean square, forward and backward.
//
// Rows are independent; the gradient of the weight sums over them column by column, in their order, so that results do
// not depend on the number of threads. Long sums are made of blocks' sums, which are added in double.
#include <algorithm>
#include <cmath>

#include "host_kernels/isa/isa.h"
#include "runtime/base/parallel.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kColumnBlock = 64;
constexpr int64_t kSumBlock = 1024;

template <typename T>
T* data(const mydev_buffer& buffer) {
  return static_cast<T*>(buffer.data);
}

// The sum of term(j) over [first, last), in kLanes partial sums.
template <typename T, typename Term>
T block_sum(int64_t first, int64_t last, const Term& term) {
  T lanes[kLanes] = {};
  int64_t j = first;
  for (; j + kLanes <= last; j += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(j + lane);
  }
  for (; j < last; ++j) lanes[j % kLanes] += term(j);
  T sum = 0;
  for (const T lane : lanes) sum += lane;
  return sum;
}

// The sum of term(j) over [0, n).
template <typename T, typename Term>
T sum_of(int64_t n, const Term& term) {
  double sum = 0;
  for (int64_t j = 0; j < n; j += kSumBlock) {
    sum += static_cast<double>(block_sum<T>(j, std::min(j + kSumBlock, n), term));
  }
  return static_cast<T>(sum);
}

template <typename T>
mydev_code forward(const mydev_frame& frame) {
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
  return MYDEV_OK;
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
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kColumnBlock, columns = std::min(kColumnBlock, n - first);
      double sums[kColumnBlock] = {};
      for (int64_t start = 0; start < rows; start += kSumBlock) {
        T partial[kColumnBlock] = {};
        for (int64_t i = start; i < std::min(start + kSumBlock, rows); ++i) {
          const T *g = grad + i * n + first, *row = x + i * n + first;
          const T scale = inverse_rms[i];
          for (int64_t j = 0; j < columns; ++j) partial[j] += g[j] * row[j] * scale;
        }
        for (int64_t j = 0; j < columns; ++j) sums[j] += static_cast<double>(partial[j]);
      }
      for (int64_t j = 0; j < columns; ++j) grad_weight[first + j] = static_cast<T>(sums[j]);
    }
  });
}

template <typename T>
mydev_code backward(const mydev_frame& frame) {
  backward_x<T>(frame);
  if (frame.buffers[1].data != nullptr) backward_weight<T>(frame);
  return MYDEV_OK;
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.rms_norm", f32_or_f64_entry<forward<float>, forward<double>>),
    kernel_record("mydev.rms_norm_backward", f32_or_f64_entry<backward<float>, backward<double>>),
};

}  // namespace

std::span<const mydev_kernel> rms_norm() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
