// Kernel group cumulative: sums and products of the elements up to each, along one dimension.
//
// Half precision computes in float, f32 and f64 in double, integers in 64 bits, which wrap round.
#include <algorithm>

#include "host_kernels/isa/element_chunk.h"
#include "host_kernels/isa/tensor_list.h"
#include "runtime/base/parallel.h"
#include "runtime/frame/dtype.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

struct Sum {
  static constexpr int64_t kStart = 0;
  template <typename C>
  static C combine(C sum, C x) {
    return sum + x;
  }
};
struct Product {
  static constexpr int64_t kStart = 1;
  template <typename C>
  static C combine(C product, C x) {
    return product * x;
  }
};

// What T is computed in. Integers are unsigned, so that wrapping round is defined.
template <typename T>
struct Compute {
  using Type = std::conditional_t<std::is_integral_v<T>, uint64_t, float>;
};
template <>
struct Compute<float> {
  using Type = double;
};
template <>
struct Compute<double> {
  using Type = double;
};

// The operands as lines: all dimensions but `dim` and the run, which is the last one unless that is `dim`.
template <typename Op, typename T>
struct Cumulative {
  using C = typename Compute<T>::Type;
  static constexpr int64_t kWidth = 256;  // of a run that is taken at once

  const mydev_buffer &out, &in;
  int32_t dim, run;

  void line(int64_t number, int64_t begin, int64_t end) const {
    int64_t to = 0, from = 0;
    for (int32_t d = out.rank - 1; d >= 0; --d) {
      if (d == dim || d == run) continue;
      const int64_t position = number % out.sizes[d];
      number /= out.sizes[d];
      to += position * out.strides[d];
      from += position * in.strides[d];
    }
    T* const results = static_cast<T*>(out.data) + to;
    const T* const elements = static_cast<const T*>(in.data) + from;
    if (run < 0) {
      down(results, elements);
    } else {
      for (int64_t at = begin; at < end; at += kWidth) {
        across(results + at * out.strides[run], elements + at * in.strides[run], std::min(kWidth, end - at));
      }
    }
  }

 private:
  void down(T* results, const T* elements) const {
    const int64_t size = out.sizes[dim], to = out.strides[dim], from = in.strides[dim];
    C value = static_cast<C>(Op::kStart);
    for (int64_t i = 0; i < size; ++i) {
      value = Op::combine(value, element_cast<C>(elements[i * from]));
      results[i * to] = element_cast<T>(value);
    }
  }

  void across(T* results, const T* elements, int64_t width) const {
    const int64_t size = out.sizes[dim], to = out.strides[run], from = in.strides[run];
    alignas(64) C values[kWidth];
    std::fill(values, values + width, static_cast<C>(Op::kStart));
    for (int64_t i = 0; i < size; ++i, results += out.strides[dim], elements += in.strides[dim]) {
      for (int64_t j = 0; j < width; ++j) {
        values[j] = Op::combine(values[j], element_cast<C>(elements[j * from]));
        results[j * to] = element_cast<T>(values[j]);
      }
    }
  }
};

template <typename Op, typename T>
void accumulate(const mydev_frame* frame, int32_t dim) {
  const mydev_buffer& out = frame->buffers[0];
  const int64_t count = element_count(out);
  if (count == 0) return;
  const int32_t last = out.rank - 1;
  const Cumulative<Op, T> cumulative{out, frame->buffers[1], dim, dim == last ? -1 : last};
  const int64_t depth = out.sizes[dim], width = dim == last ? 1 : out.sizes[last], lines = count / depth / width;
  if (lines >= parallel_threads() || width == 1) {
    parallel_for(lines, kGrainHeavy / (depth * width) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) cumulative.line(line, 0, width);
    });
  } else {
    parallel_for(width, kGrainHeavy / (depth * lines) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t line = 0; line < lines; ++line) cumulative.line(line, begin, end);
    });
  }
}

template <typename Op>
mydev_code entry(const mydev_frame* frame) {
  const mydev_buffer &out = frame->buffers[0], &in = frame->buffers[1];
  if (out.dtype != in.dtype || out.dtype == MYDEV_PRED) return MYDEV_UNIMPLEMENTED;
  const int64_t dim = frame->attributes[0].value.i;
  if (dim < 0 || dim >= out.rank) {
    frame->host->set_error(frame, "dim must be a dimension of the operands, from 0 on");
    return MYDEV_INVALID_ARGUMENT;
  }
  const bool known = visit_element_type(out.dtype, [&]<typename T>() {
    if constexpr (!std::is_same_v<T, Truth>) accumulate<Op, T>(frame, static_cast<int32_t>(dim));
  });
  return known ? MYDEV_OK : MYDEV_UNIMPLEMENTED;
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.cumsum", entry<Sum>),
    kernel_record("mydev.cumprod", entry<Product>),
};

}  // namespace

std::span<const mydev_kernel> cumulative() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
