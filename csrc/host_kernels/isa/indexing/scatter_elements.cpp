// Kernel group scatter_elements: elements written to, or added to, the places that a tensor of indices says along one
// dimension.
//
// Elements that go to one place are taken in the order of their index along the dimension: what else they differ in
// places them apart, so threads share that. An index out of range is found when it is met: what was written before it
// stays written.
#include <algorithm>
#include <atomic>
#include <cstdio>

#include "host_kernels/isa/simd/combine.h"
#include "host_kernels/isa/simd/element_bytes.h"
#include "host_kernels/isa/simd/element_chunk.h"
#include "host_kernels/isa/simd/tensor_list.h"
#include "runtime/base/parallel.h"
#include "runtime/frame/dtype.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

// The frame's elements as lines: all dimensions but `dim` and the run, which is the last one unless that is `dim`.
class Scatter {
 public:
  explicit Scatter(const mydev_frame* frame)
      : frame_(frame),
        out_(frame->buffers[0]),
        index_(frame->buffers[1]),
        src_(frame->buffers[2]),
        dim_(static_cast<int32_t>(frame->attributes[0].value.i)) {
    const int32_t last = out_.rank - 1;
    if (dim_ == last) return;
    run_ = last;
    length_ = index_.sizes[last];
  }

  // put(place, element) for each element.
  template <typename Element, typename Put>
  mydev_code run(const Put& put) {
    const int64_t depth = index_.sizes[dim_], count = element_count(index_);
    if (count == 0) return MYDEV_OK;
    const int64_t lines = count / depth / length_;
    if (lines >= parallel_threads() || length_ == 1) {
      const int64_t work = depth * length_;
      parallel_for(lines, kGrainHeavy / work + 1, [&](int64_t begin, int64_t end) {
        for (int64_t line = begin; line < end; ++line) take<Element>(line, 0, length_, put);
      });
    } else {
      parallel_for(length_, kGrainHeavy / (lines * depth) + 1, [&](int64_t begin, int64_t end) {
        for (int64_t line = 0; line < lines; ++line) take<Element>(line, begin, end, put);
      });
    }
    return found_.load(std::memory_order_relaxed) ? refuse() : MYDEV_OK;
  }

 private:
  static int64_t stride(const mydev_buffer& buffer, int32_t d) { return d < 0 ? 0 : buffer.strides[d]; }

  template <typename Element, typename Put>
  void take(int64_t line, int64_t begin, int64_t end, const Put& put) {
    int64_t to = 0, at = 0, from = 0;
    for (int32_t d = out_.rank - 1; d >= 0; --d) {
      if (d == dim_ || d == run_) continue;
      const int64_t position = line % index_.sizes[d];
      line /= index_.sizes[d];
      to += position * out_.strides[d];
      at += position * index_.strides[d];
      from += position * src_.strides[d];
    }
    // Copies: what is stored might be any of the members, for all that the compiler knows.
    const int64_t depth = index_.sizes[dim_], limit = out_.sizes[dim_];
    const int64_t to_dim = out_.strides[dim_], at_dim = index_.strides[dim_], from_dim = src_.strides[dim_];
    const int64_t to_run = stride(out_, run_), at_run = stride(index_, run_), from_run = stride(src_, run_);
    Element* const out = static_cast<Element*>(out_.data) + to;
    const int64_t* const index = static_cast<const int64_t*>(index_.data) + at;
    const Element* const src = static_cast<const Element*>(src_.data) + from;
    for (int64_t p = 0; p < depth; ++p) {
      for (int64_t j = begin; j < end; ++j) {
        const int64_t place = index[p * at_dim + j * at_run];
        if (place < 0 || place >= limit) {
          bad_.store(place, std::memory_order_relaxed);  // both read after all threads are joined
          found_.store(true, std::memory_order_relaxed);
          return;
        }
        put(out[place * to_dim + j * to_run], src[p * from_dim + j * from_run]);
      }
    }
  }

  mydev_code refuse() const {
    char message[128];
    std::snprintf(message, sizeof(message), "index %lld is out of bounds for dimension %d with size %lld",
                  static_cast<long long>(bad_.load(std::memory_order_relaxed)), dim_,
                  static_cast<long long>(out_.sizes[dim_]));
    frame_->host->set_error(frame_, message);
    return MYDEV_INVALID_ARGUMENT;  // PyTorch's scatter raises RuntimeError, not IndexError
  }

  const mydev_frame* frame_;
  const mydev_buffer &out_, &index_, &src_;
  int32_t dim_, run_ = -1;
  int64_t length_ = 1;  // of a run
  std::atomic<int64_t> bad_{0};
  std::atomic<bool> found_{false};
};

mydev_code check(const mydev_frame* frame) {
  const int64_t dim = frame->attributes[0].value.i;
  if (frame->buffers[1].dtype != MYDEV_S64 || frame->buffers[2].dtype != frame->buffers[0].dtype) {
    return MYDEV_UNIMPLEMENTED;
  }
  if (dim >= 0 && dim < frame->buffers[0].rank) return MYDEV_OK;
  frame->host->set_error(frame, "dim must be a dimension of the operands, from 0 on");
  return MYDEV_INVALID_ARGUMENT;
}

mydev_code scatter_entry(const mydev_frame* frame) {
  if (const mydev_code code = check(frame); code != MYDEV_OK) return code;
  return visit_element_bytes(dtype_row(frame->buffers[0].dtype).size, [&]<typename Element>() {
    return Scatter(frame).run<Element>([](Element& place, const Element& value) { place = value; });
  });
}

mydev_code scatter_add_entry(const mydev_frame* frame) {
  if (const mydev_code code = check(frame); code != MYDEV_OK) return code;
  mydev_code code = MYDEV_UNIMPLEMENTED;
  const auto run = [&]<typename Element>() {
    code = Scatter(frame).run<Element>([](Element& place, const Element& value) { Add::apply(place, value); });
  };
  if (frame->buffers[0].dtype == MYDEV_C64) {
    run.operator()<ComplexPair<float>>();
  } else if (frame->buffers[0].dtype == MYDEV_C128) {
    run.operator()<ComplexPair<double>>();
  } else {
    visit_element_type(frame->buffers[0].dtype, run);
  }
  return code;
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.scatter", scatter_entry),
    kernel_record("mydev.scatter_add", scatter_add_entry),
};

}  // namespace

std::span<const mydev_kernel> scatter_elements() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
