// Kernel group variance: two passes, all in double: the mean, then the squared deviations. The mean of f64 is that of
// the distances from the first element, so that elements that are all the same have no variance.
#include <algorithm>
#include <cmath>
#include <utility>

#include "host_kernels/isa/reduction/reduction_plan.h"
#include "host_kernels/isa/simd/dense_values.h"
#include "host_kernels/isa/simd/element_chunk.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

template <typename C>
class Variance {
 public:
  Variance(const mydev_frame* frame, const ReductionPlan& plan)
      : plan_(plan),
        var_(frame->buffers[0]),
        mean_(frame->buffers[1]),
        in_(static_cast<const char*>(frame->buffers[2].data)),
        reader_(frame->buffers[2].dtype),
        writer_(frame->buffers[0].dtype),
        divisor_(std::max(static_cast<double>(plan.count) - frame->attributes[0].value.f, 0.0)),
        root_(frame->attributes[1].value.i != 0) {
    for (int i = 1; i < plan.reduced_rank; ++i) runs_ *= plan.reduced[i].size;
    if (plan.vertical) runs_ *= plan.reduced[0].size;
  }
  bool supported() const { return reader_.supported() && writer_.supported(); }

  void run() const {
    for_each_output(
        plan_, [this](const Odometer& outer) { reduce_one(outer); },
        [this](const Odometer& outer, int64_t column, int64_t count) { reduce_columns(outer, column, count); });
  }

 private:
  void put(int64_t output, double mean, double squares) const {
    const double variance = squares / divisor_;
    const double result = root_ ? std::sqrt(variance) : variance;
    if (var_.data != nullptr) {
      writer_.write(&result, static_cast<char*>(var_.data) + output * writer_.element_bytes(), 0, 1);
    }
    if (mean_.data != nullptr) {
      writer_.write(&mean, static_cast<char*>(mean_.data) + output * writer_.element_bytes(), 0, 1);
    }
  }

  // Calls body(x, n) for chunks of all elements of one output.
  template <typename Body>
  void for_each_element(int64_t start, const Body& body) const {
    if (plan_.count == 0) return;
    alignas(64) C space[kChunk];
    Odometer reduced(plan_.reduced, plan_.reduced_rank, 1);
    const int64_t length = plan_.reduced_rank > 0 ? plan_.reduced[0].size : 1;
    const int64_t stride = plan_.reduced_rank > 0 ? plan_.reduced[0].in : 1;
    for (int64_t run = 0; run < runs_; ++run, reduced.next()) {
      for (int64_t at = 0; at < length; at += kChunk) {
        const int64_t n = std::min(kChunk, length - at);
        const int64_t offset = start + reduced.in() + at * stride;
        body(reader_.read(in_ + offset * reader_.element_bytes(), stride, n, space), n);
      }
    }
  }

  // True if a sum of f64 is beyond double's range: the mean need not be.
  static constexpr bool kIsDouble = sizeof(C) == sizeof(double);
  static bool overflowed(double sum) { return kIsDouble && !std::isfinite(sum); }

  void reduce_one(const Odometer& outer) const {
    const double count = static_cast<double>(plan_.count);
    double sum = 0, mean = 0, squares = 0;
    [[maybe_unused]] bool begun = false;
    for_each_element(outer.in(), [&](const C* x, int64_t n) {
      if constexpr (kIsDouble) {
        if (!std::exchange(begun, true)) mean = x[0];
        sum += wide_sum(x, n, [=](auto v) { return v - mean; });
      } else {
        sum += wide_sum_of(x, n);
      }
    });
    if (overflowed(sum)) {
      mean = 0;
      for (int pass = 0; pass < 2; ++pass) {  // the second mends what the first rounded
        const double center = mean;
        for_each_element(outer.in(), [&](const C* x, int64_t n) {
          mean += wide_sum(x, n, [=](auto v) { return (v - center) / count; });
        });
      }
    } else {
      mean += sum / count;
    }
    for_each_element(outer.in(), [&](const C* x, int64_t n) { squares += wide_squares_about(x, mean, n); });
    put(outer.out(), mean, squares);
  }

  void reduce_columns(const Odometer& outer, int64_t column, int64_t columns) const {
    alignas(64) C space[kChunk];
    alignas(64) double mean[kColumnBlock], squares[kColumnBlock], first[kColumnBlock] = {};
    const double count = static_cast<double>(plan_.count);
    const PlanDimension& inner = plan_.outer[0];
    const int64_t start = outer.in() + column * inner.in;
    const auto for_each_row = [&](const auto& body) {
      Odometer row(plan_.reduced, plan_.reduced_rank, 0);
      for (int64_t r = 0; r < runs_; ++r, row.next()) {
        body(reader_.read(in_ + (start + row.in()) * reader_.element_bytes(), inner.in, columns, space));
      }
    };
    std::fill(mean, mean + columns, 0.0);
    std::fill(squares, squares + columns, 0.0);
    bool begun = !kIsDouble;
    for_each_row([&](const C* __restrict x) {
      if (!std::exchange(begun, true)) std::copy_n(x, columns, first);
      for (int64_t j = 0; j < columns; ++j) mean[j] += kIsDouble ? x[j] - first[j] : x[j];
    });
    bool overflow = false;
    for (int64_t j = 0; j < columns; ++j) overflow |= overflowed(mean[j]);
    for (int64_t j = 0; j < columns; ++j) mean[j] = overflow ? 0 : first[j] + mean[j] / count;
    for (int pass = 0; overflow && pass < 2; ++pass) {
      alignas(64) double shift[kColumnBlock] = {};
      for_each_row([&](const C* __restrict x) {
        for (int64_t j = 0; j < columns; ++j) shift[j] += (x[j] - mean[j]) / count;
      });
      for (int64_t j = 0; j < columns; ++j) mean[j] += shift[j];
    }
    for_each_row([&](const C* __restrict x) {
      for (int64_t j = 0; j < columns; ++j) squares[j] += (x[j] - mean[j]) * (x[j] - mean[j]);
    });
    for (int64_t j = 0; j < columns; ++j) put(outer.out() + (column + j) * inner.out, mean[j], squares[j]);
  }

  const ReductionPlan& plan_;
  const mydev_buffer &var_, &mean_;
  const char* in_;
  ChunkReader<C> reader_;
  ChunkWriter<double> writer_;
  double divisor_;
  bool root_;
  int64_t runs_ = 1;
};

template <typename C>
mydev_code variance_as(const mydev_frame* frame, const ReductionPlan& plan) {
  const Variance<C> variance(frame, plan);
  if (!variance.supported()) return MYDEV_UNIMPLEMENTED;
  variance.run();
  return MYDEV_OK;
}

mydev_code variance_entry(const mydev_frame* frame) {
  if (!have_one_floating_dtype(frame)) return MYDEV_UNIMPLEMENTED;
  ReductionPlan plan;
  if (!make_reduction_plan(frame->buffers[0], frame->buffers[2], plan)) return MYDEV_UNIMPLEMENTED;
  if (plan.outputs == 0) return MYDEV_OK;
  if (frame->buffers[2].dtype == MYDEV_F64) return variance_as<double>(frame, plan);
  return variance_as<float>(frame, plan);
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.variance", variance_entry),
};

}  // namespace

std::span<const mydev_kernel> variance() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
