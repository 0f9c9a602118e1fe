#include "runtime/validation/memory_view.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "runtime/frame/dtype.h"

namespace mydev::validation {

namespace {

constexpr uint64_t kMostRows = 4096;

using Rows = std::vector<std::pair<uintptr_t, uintptr_t>>;

uint64_t count_rows(const MemoryView& view) {
  uint64_t rows = 1;
  for (const MemoryView::Dimension& dimension : view.outer) {
    if (rows > kMostRows) break;
    rows *= dimension.count;
  }
  return rows;
}

// The rows are sorted: each pitch is larger than the rows inside it.
Rows rows_of(const MemoryView& view) {
  Rows rows{{view.begin, view.begin + view.row}};
  for (const MemoryView::Dimension& dimension : view.outer) {
    const size_t inner = rows.size();
    for (uint64_t i = 1; i < dimension.count; ++i) {
      for (size_t r = 0; r < inner; ++r) {
        rows.emplace_back(rows[r].first + i * dimension.pitch, rows[r].second + i * dimension.pitch);
      }
    }
  }
  return rows;
}

bool rows_overlap(const Rows& a, const Rows& b) {
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i].second <= b[j].first) {
      ++i;
    } else if (b[j].second <= a[i].first) {
      ++j;
    } else {
      return true;
    }
  }
  return false;
}

// Whether rows at the same distance `pitch` overlap. Compares their places within the pitch; a row may reach beyond its
// end.
bool phases_overlap(const MemoryView& a, const MemoryView& b, uint64_t pitch) {
  const uint64_t from_a = (b.begin + pitch - a.begin % pitch) % pitch;  // where b's rows begin, seen from a's
  return from_a < a.row || from_a + b.row > pitch;
}

// `range` is dense and within the span of `view`, whose rows are too many to list.
bool range_meets_rows(const MemoryView& view, uintptr_t begin, uintptr_t end) {
  const MemoryView::Dimension& last = view.outer.back();
  if (end - begin >= last.pitch) return true;
  MemoryView inner = view;
  inner.outer.pop_back();
  inner.end = view.end - (last.count - 1) * last.pitch;
  const uint64_t extent = inner.end - inner.begin;
  const uint64_t first = (begin - view.begin) / last.pitch;
  for (uint64_t i = first; i < last.count && i <= first + 1; ++i) {  // shorter than the pitch: meets two at most
    const uintptr_t base = view.begin + i * last.pitch;
    const uintptr_t from = std::max(begin, base), to = std::min(end, base + extent);
    if (from >= to) continue;
    inner.begin = base;
    inner.end = base + extent;
    if (inner.dense() || range_meets_rows(inner, from, to)) return true;
  }
  return false;
}

}  // namespace

MemoryView MemoryView::of_bytes(const void* data, uint64_t bytes) {
  MemoryView view;
  view.begin = reinterpret_cast<uintptr_t>(data);
  view.end = view.begin + bytes;
  view.row = bytes;
  return view;
}

MemoryView MemoryView::of_buffer(const mydev_buffer& buffer) {
  MemoryView view;
  const int64_t element = dtype_row(buffer.dtype).size;
  if (buffer.data == nullptr || element == 0) return view;
  view.begin = reinterpret_cast<uintptr_t>(buffer.data);
  view.row = static_cast<uint64_t>(element);
  std::vector<Dimension> dimensions;
  for (int32_t d = 0; d < buffer.rank; ++d) {
    if (buffer.sizes[d] == 0) return {};
    const int64_t stride = buffer.strides[d] * element;
    if (buffer.sizes[d] == 1 || stride == 0) continue;
    if (stride < 0) view.begin -= static_cast<uint64_t>((buffer.sizes[d] - 1) * -stride);
    dimensions.push_back({static_cast<uint64_t>(buffer.sizes[d]), static_cast<uint64_t>(std::llabs(stride))});
  }
  std::sort(dimensions.begin(), dimensions.end(),
            [](const Dimension& a, const Dimension& b) { return a.pitch < b.pitch; });
  uint64_t extent = view.row;
  bool windows = false;
  for (const Dimension& dimension : dimensions) {
    windows |= dimension.pitch < extent;
    if (view.outer.empty() && dimension.pitch == view.row) {
      view.row *= dimension.count;
    } else if (!view.outer.empty() && dimension.pitch == view.outer.back().pitch * view.outer.back().count) {
      view.outer.back().count *= dimension.count;
    } else {
      view.outer.push_back(dimension);
    }
    extent += (dimension.count - 1) * dimension.pitch;
  }
  view.end = view.begin + extent;
  if (windows) {
    view.row = extent;
    view.outer.clear();
  }
  return view;
}

bool overlap(const MemoryView& a, const MemoryView& b) {
  const uintptr_t begin = std::max(a.begin, b.begin), end = std::min(a.end, b.end);
  if (begin >= end) return false;
  if (a.dense() && b.dense()) return true;
  if (a.dense()) return range_meets_rows(b, begin, end);
  if (b.dense()) return range_meets_rows(a, begin, end);
  if (count_rows(a) <= kMostRows && count_rows(b) <= kMostRows) return rows_overlap(rows_of(a), rows_of(b));
  if (a.outer.size() != 1 || b.outer.size() != 1 || a.outer[0].pitch != b.outer[0].pitch) return false;
  return phases_overlap(a, b, a.outer[0].pitch);
}

}  // namespace mydev::validation
