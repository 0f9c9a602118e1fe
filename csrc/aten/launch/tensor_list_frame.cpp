#include "aten/launch/tensor_list_frame.h"

#include <algorithm>

namespace mydev {
namespace {

// From this many elements on, the threads of a launch may share a list; below, one thread goes through it in order. It
// is no more than the kernels' piece (csrc/host_kernels/isa/simd/tensor_list.h).
constexpr int64_t kSharedElements = 8192;

struct Interval {
  const char *begin, *end;
  bool written;

  bool operator==(const Interval& other) const { return begin == other.begin && end == other.end; }
};

Interval interval_of(const at::Tensor& tensor, bool written) {
  const char* begin = static_cast<const char*>(tensor.const_data_ptr());
  return {begin, begin + tensor.nbytes(), written};
}

bool overlap(const Interval& a, const Interval& b) {
  return a.begin < b.end && b.begin < a.end;
}

// Whether a written interval overlaps any other.
bool any_conflict(c10::SmallVectorImpl<Interval>& intervals) {
  const auto by_begin = [](const Interval& a, const Interval& b) { return a.begin < b.begin; };
  if (!std::is_sorted(intervals.begin(), intervals.end(), by_begin)) {
    std::sort(intervals.begin(), intervals.end(), by_begin);
  }
  const char *end = nullptr, *written_end = nullptr;  // of the intervals so far
  for (const Interval& interval : intervals) {
    if (interval.begin < (interval.written ? end : written_end)) return true;
    end = std::max(end, interval.end);
    if (interval.written) written_end = std::max(written_end, interval.end);
  }
  return false;
}

}  // namespace

bool are_independent(std::initializer_list<at::TensorList> written, c10::ArrayRef<at::TensorList> read,
                     const at::Tensor* scalar) {
  const at::TensorList model = *written.begin();
  c10::SmallVector<Interval, 64> intervals;
  int64_t elements = 0;
  for (size_t i = 0; i < model.size(); ++i) {
    if (model[i].numel() == 0) continue;
    elements += model[i].numel();
    const size_t first = intervals.size();
    for (const at::TensorList list : written) {
      if (!list.empty()) intervals.push_back(interval_of(list[i], true));
    }
    const size_t last = intervals.size();
    for (const at::TensorList list : read) {
      const Interval source = interval_of(list[i], false);
      bool is_written = false;
      for (size_t k = first; k < last; ++k) {
        if (source == intervals[k]) {
          is_written = true;
        } else if (overlap(source, intervals[k])) {
          return false;
        }
      }
      if (!is_written) intervals.push_back(source);
    }
  }
  if (scalar != nullptr) {
    const Interval source = interval_of(*scalar, false);
    for (const Interval& interval : intervals) {
      if (interval.written && overlap(source, interval)) return false;
    }
  }
  return elements < kSharedElements || !any_conflict(intervals);
}

}  // namespace mydev
