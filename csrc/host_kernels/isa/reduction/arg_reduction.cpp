// Kernel group arg_reduction: where the largest or smallest element lies along one dimension.
#include <limits>

#include "host_kernels/isa/reduction/reduction_plan.h"
#include "host_kernels/isa/simd/dense_values.h"
#include "host_kernels/isa/simd/element_chunk.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

template <typename T>
bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(x);
  return false;
}

struct Largest {
  template <typename C>
  static C identity() {
    return std::numeric_limits<C>::has_infinity ? -std::numeric_limits<C>::infinity()
                                                : std::numeric_limits<C>::lowest();
  }
  static bool beats(auto x, auto best) { return x > best || (is_nan(x) && !is_nan(best)); }
  static constexpr auto combine = kLarger;
};
struct Smallest {
  template <typename C>
  static C identity() {
    return std::numeric_limits<C>::has_infinity ? std::numeric_limits<C>::infinity() : std::numeric_limits<C>::max();
  }
  static bool beats(auto x, auto best) { return x < best || (is_nan(x) && !is_nan(best)); }
  static constexpr auto combine = kSmaller;
};

template <typename Op, typename C>
class ArgReduction {
 public:
  ArgReduction(const mydev_frame* frame, const ReductionPlan& plan)
      : plan_(plan),
        values_(frame->buffers[0]),
        indices_(frame->buffers[1]),
        in_(static_cast<const char*>(frame->buffers[2].data)),
        reader_(frame->buffers[2].dtype),
        writer_(frame->buffers[0].dtype),
        dim_size_(plan.reduced_rank > 0 ? plan.reduced[0].size : 1),
        dim_stride_(plan.reduced_rank > 0 ? plan.reduced[0].in : 0) {}
  bool supported() const { return reader_.supported() && (values_.data == nullptr || writer_.supported()); }

  void run() const {
    for_each_output(
        plan_, [this](const Odometer& outer) { search_line(outer); },
        [this](const Odometer& outer, int64_t column, int64_t count) { search_columns(outer, column, count); });
  }

 private:
  void put(int64_t output, C value, int64_t index) const {
    static_cast<int64_t*>(indices_.data)[output] = index;
    if (values_.data != nullptr) {
      writer_.write(&value, static_cast<char*>(values_.data) + output * writer_.element_bytes(), 0, 1);
    }
  }

  void search_line(const Odometer& outer) const {
    alignas(64) C space[kChunk];
    C best = C{};
    int64_t where = -1;
    for (int64_t at = 0; at < dim_size_; at += kChunk) {
      const int64_t n = std::min(kChunk, dim_size_ - at);
      const C* x = reader_.read(in_ + (outer.in() + at * dim_stride_) * reader_.element_bytes(), dim_stride_, n, space);
      const C candidate = fold(x, n, Op::template identity<C>(), Op::combine);
      if (where >= 0 && !Op::beats(candidate, best)) continue;
      best = candidate;
      for (int64_t i = 0; i < n; ++i) {
        if (x[i] == best || (is_nan(best) && is_nan(x[i]))) {
          best = x[i];  // zeros are equal, whatever their signs
          where = at + i;
          break;
        }
      }
    }
    put(outer.out(), best, where);
  }

  void search_columns(const Odometer& outer, int64_t column, int64_t columns) const {
    alignas(64) C space[kChunk];
    C best[kColumnBlock];
    int64_t where[kColumnBlock];
    const PlanDimension& inner = plan_.outer[0];
    const int64_t start = outer.in() + column * inner.in;
    for (int64_t row = 0; row < dim_size_; ++row) {
      const C* x = reader_.read(in_ + (start + row * dim_stride_) * reader_.element_bytes(), inner.in, columns, space);
      for (int64_t j = 0; j < columns; ++j) {
        if (row == 0 || Op::beats(x[j], best[j])) {
          best[j] = x[j];
          where[j] = row;
        }
      }
    }
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t output = outer.out() + (column + j) * inner.out;
      put(output, best[j], where[j]);
    }
  }

  const ReductionPlan& plan_;
  const mydev_buffer &values_, &indices_;
  const char* in_;
  ChunkReader<C> reader_;
  ChunkWriter<C> writer_;
  int64_t dim_size_, dim_stride_;
};

template <typename Op, typename C>
mydev_code search_as(const mydev_frame* frame, const ReductionPlan& plan) {
  const ArgReduction<Op, C> reduction(frame, plan);
  if (!reduction.supported()) return MYDEV_UNIMPLEMENTED;
  reduction.run();
  return MYDEV_OK;
}

template <typename Op>
mydev_code search_entry(const mydev_frame* frame) {
  if (!have_dtype(frame, 0, 1, frame->buffers[2].dtype) || frame->buffers[1].dtype != MYDEV_S64) {
    return MYDEV_UNIMPLEMENTED;
  }
  ReductionPlan plan;
  if (!make_reduction_plan(frame->buffers[1], frame->buffers[2], plan) || plan.reduced_rank > 1) {
    return MYDEV_UNIMPLEMENTED;
  }
  if (plan.outputs == 0) return MYDEV_OK;
  if (plan.count == 0) {
    frame->host->set_error(frame, "there is no element to choose from");
    return MYDEV_INVALID_ARGUMENT;
  }
  switch (frame->buffers[2].dtype) {
    case MYDEV_F16:
    case MYDEV_BF16:
    case MYDEV_F32:
      return search_as<Op, float>(frame, plan);
    case MYDEV_F64:
      return search_as<Op, double>(frame, plan);
    default:
      return search_as<Op, int64_t>(frame, plan);
  }
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.max_with_index", search_entry<Largest>),
    kernel_record("mydev.min_with_index", search_entry<Smallest>),
};

}  // namespace

std::span<const mydev_kernel> arg_reduction() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
