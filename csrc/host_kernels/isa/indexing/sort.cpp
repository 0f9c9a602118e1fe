// Kernel group sort: the lines of [O, D, I] along D in order, and the first K of each.
//
// A line is read into scratch as values with their positions, which two orders decide about: with positions among equal
// values (so that sorting is stable), or without, as PyTorch's topk on the CPU has it, with the same algorithms of the
// standard library, so that equal elements come out as there. Their instances are of types that are local to this file.
// f16, bf16 and f32 are compared in float, integers and pred as s64; NaN is greatest.
#include <algorithm>
#include <cmath>

#include "host_kernels/isa/simd/element_chunk.h"
#include "runtime/base/parallel.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

template <typename C>
struct Element {
  C value;
  int64_t position;
};

template <typename C>
bool is_nan(C value) {
  if constexpr (std::is_floating_point_v<C>) return std::isnan(value);
  return false;
}

// Whether a comes before b.
template <bool kDescending>
struct ByValue {
  template <typename C>
  bool operator()(const Element<C>& a, const Element<C>& b) const {
    if constexpr (kDescending) return (is_nan(a.value) && !is_nan(b.value)) || a.value > b.value;
    return (!is_nan(a.value) && is_nan(b.value)) || a.value < b.value;
  }
};
template <bool kDescending>
struct ByValueAndPosition {
  template <typename C>
  bool operator()(const Element<C>& a, const Element<C>& b) const {
    const ByValue<kDescending> before;
    return before(a, b) || (!before(b, a) && a.position < b.position);
  }
};

constexpr int64_t kElementBytes = 16;
static_assert(sizeof(Element<double>) == kElementBytes && sizeof(Element<float>) == kElementBytes);

// Finds the first `kept` of values that come chunk by chunk, in the order of ByValueAndPosition. They are a heap, whose
// top is the last of them. A later value can come before the top only by its value; a loop without branches checks this
// for sixteen values at once.
template <typename C, bool kDescending>
class First {
 public:
  First(Element<C>* line, int64_t kept) : line_(line), kept_(kept) {}

  void add(const C* x, int64_t begin, int64_t n) {
    int64_t j = 0;
    for (; j < n && held_ < kept_; ++j) {
      line_[held_++] = {x[j], begin + j};
      if (held_ == kept_) std::make_heap(line_, line_ + kept_, before_);
    }
    for (; j < n; j += kAtOnce) {
      const int64_t end = std::min(n, j + kAtOnce);
      const Element<C> last = line_[0];
      bool any = false;
      for (int64_t i = j; i < end; ++i) any |= by_value_(Element<C>{x[i], 0}, last);
      for (int64_t i = j; any && i < end; ++i) {
        if (!by_value_(Element<C>{x[i], 0}, line_[0])) continue;
        std::pop_heap(line_, line_ + kept_, before_);
        line_[kept_ - 1] = {x[i], begin + i};
        std::push_heap(line_, line_ + kept_, before_);
      }
    }
  }
  void sort() { std::sort(line_, line_ + kept_, before_); }

 private:
  static constexpr int64_t kAtOnce = 16;

  ByValue<kDescending> by_value_;
  ByValueAndPosition<kDescending> before_;
  Element<C>* line_;
  int64_t kept_, held_ = 0;
};

// Sorts a line of `count` elements, of which the first `kept` are wanted.
template <bool kDescending>
struct Sort {
  // If less than one in kFew elements is wanted, the rest of the line is not stored at all.
  static constexpr int64_t kFew = 32;
  template <typename C>
  using Few = First<C, kDescending>;

  template <typename C>
  static void run(Element<C>* line, int64_t count, int64_t kept) {
    const ByValueAndPosition<kDescending> before;
    if (kept < count) std::nth_element(line, line + kept, line + count, before);
    std::sort(line, line + kept, before);
  }
};
template <bool kDescending>
struct Select {
  static constexpr int64_t kFew = 0;  // equal elements as the standard library leaves them
  template <typename C>
  using Few = First<C, kDescending>;

  template <typename C>
  static void run(Element<C>* line, int64_t count, int64_t kept) {
    const ByValue<kDescending> before;
    if (kept * 64 <= count) {
      std::partial_sort(line, line + kept, line + count, before);
    } else if (kept > 0) {
      std::nth_element(line, line + kept - 1, line + count, before);
      std::sort(line, line + kept - 1, before);
    }
  }
};

template <typename Algorithm, typename C>
mydev_code run_as(const mydev_frame* frame) {
  const mydev_buffer &values = frame->buffers[0], &indices = frame->buffers[1], &in = frame->buffers[2];
  const ChunkReader<C> reader(in.dtype);
  const ChunkWriter<C> writer(values.dtype);
  if (!reader.supported() || !writer.supported()) return MYDEV_UNIMPLEMENTED;
  const int64_t inner = in.sizes[2], lines = in.sizes[0] * inner, count = in.sizes[1], kept = values.sizes[1];
  if (lines == 0 || kept == 0) return MYDEV_OK;
  // There are at most as many pieces as the scratch has room for lines.
  const int64_t pieces =
      std::min(lines, static_cast<int64_t>(frame->scratch_bytes) / (std::max<int64_t>(count, 1) * kElementBytes));
  const int64_t grain = lines * count < kGrainHeavy ? pieces : 1;
  parallel_for(pieces, grain, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece) {
      auto* line = static_cast<Element<C>*>(frame->scratch) + piece * count;
      for (int64_t at = lines * piece / pieces; at < lines * (piece + 1) / pieces; ++at) {
        const int64_t o = at / inner, i = at % inner;
        alignas(64) C space[kChunk];
        const char* from =
            static_cast<const char*>(in.data) + (o * in.strides[0] + i * in.strides[2]) * reader.element_bytes();
        const auto for_each_chunk = [&](const auto& body) {
          for (int64_t begin = 0; begin < count; begin += kChunk) {
            const int64_t n = std::min(kChunk, count - begin);
            body(reader.read(from + begin * in.strides[1] * reader.element_bytes(), in.strides[1], n, space), begin, n);
          }
        };
        if (kept * Algorithm::kFew < count && Algorithm::kFew != 0) {
          typename Algorithm::template Few<C> few(line, kept);
          for_each_chunk([&](const C* x, int64_t begin, int64_t n) { few.add(x, begin, n); });
          few.sort();
        } else {
          for_each_chunk([&](const C* x, int64_t begin, int64_t n) {
            for (int64_t j = 0; j < n; ++j) line[begin + j] = {x[j], begin + j};
          });
          Algorithm::run(line, count, kept);
        }
        char* to =
            static_cast<char*>(values.data) + (o * values.strides[0] + i * values.strides[2]) * writer.element_bytes();
        auto* positions = static_cast<int64_t*>(indices.data) + o * indices.strides[0] + i * indices.strides[2];
        for (int64_t begin = 0; begin < kept; begin += kChunk) {
          const int64_t n = std::min(kChunk, kept - begin);
          for (int64_t j = 0; j < n; ++j) space[j] = line[begin + j].value;
          writer.write(space, to + begin * values.strides[1] * writer.element_bytes(), values.strides[1], n);
          for (int64_t j = 0; j < n; ++j) positions[(begin + j) * indices.strides[1]] = line[begin + j].position;
        }
      }
    }
  });
  return MYDEV_OK;
}

template <typename Algorithm>
mydev_code run_for_type(const mydev_frame* frame) {
  switch (frame->buffers[2].dtype) {
    case MYDEV_F16:
    case MYDEV_BF16:
    case MYDEV_F32:
      return run_as<Algorithm, float>(frame);
    case MYDEV_F64:
      return run_as<Algorithm, double>(frame);
    default:
      return run_as<Algorithm, int64_t>(frame);
  }
}

// The attribute is `descending` or `largest`, which are the same order.
template <template <bool> typename Algorithm>
mydev_code entry(const mydev_frame* frame) {
  const mydev_buffer &values = frame->buffers[0], &indices = frame->buffers[1], &in = frame->buffers[2];
  if (values.dtype != in.dtype || indices.dtype != MYDEV_S64) return MYDEV_UNIMPLEMENTED;
  if (in.rank != 3 || values.rank != 3 || values.sizes[0] != in.sizes[0] || values.sizes[2] != in.sizes[2] ||
      values.sizes[1] > in.sizes[1]) {
    frame->host->set_error(frame, "takes [o,d,i] and gives [o,k,i] with k at most d");
    return MYDEV_INVALID_ARGUMENT;
  }
  return frame->attributes[0].value.i != 0 ? run_for_type<Algorithm<true>>(frame)
                                           : run_for_type<Algorithm<false>>(frame);
}

uint64_t scratch_bytes(const mydev_frame* frame) {
  const int64_t* sizes = frame->buffers[2].sizes;
  const int64_t pieces = std::min<int64_t>(sizes[0] * sizes[2], parallel_threads());
  return static_cast<uint64_t>(pieces * std::max<int64_t>(sizes[1], 1) * kElementBytes);
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.sort", entry<Sort>, scratch_bytes),
    kernel_record("mydev.topk", entry<Select>, scratch_bytes),
};

}  // namespace

std::span<const mydev_kernel> sort() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
