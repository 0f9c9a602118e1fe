// The plans of kernels that put elements in order, or find places.
#include <algorithm>
#include <array>
#include <limits>

#include "device_kernels/base/bound_frame.h"
#include "device_kernels/kernels/data_kernels.h"
#include "device_kernels/templates/texts.h"
#include "device_kernels/text/template_kernel.h"
#include "runtime/frame/frame.h"

namespace mydev::device_kernels {

namespace {

constexpr int64_t kPiece = 64;       // elements whose places a thread finds
constexpr int64_t kSmallPiece = 16;  // on GPUs, where neighbouring threads read neighbouring memory
constexpr int64_t kFirstRun = 32;    // elements of the runs that are sorted first
constexpr int64_t kGroupRun = 1024;  // of those that a group of a GPU sorts in local memory

}  // namespace

Work plan_nonzero(const Request& request) {
  const mydev_buffer &out = request.buffer(0), &in = request.buffer(1);
  const int64_t piece = request.language.gpu ? kSmallPiece : kPiece;
  const int64_t n = in.sizes[0], k = out.sizes[0], pieces = (n + piece - 1) / piece;
  Work work;
  if (k == 0) return work;
  const Call::Memory result{0}, elements{1};
  // The beginnings in `out` of the places of each piece, and behind them the end of the last ones.
  const Call::Memory starts = work.take(pieces + 1, MYDEV_S64);
  const auto start = [&](int64_t i) { return Call::Memory{-1, starts.offset + static_cast<uint64_t>(i) * sizeof(i)}; };
  const auto find = [&](bool writes, Call::Memory to) {
    TemplateUse use(request, kNonzeroText, "nonzero");
    use.type('T', dtype_of(in)).choose("PIECE", piece).choose("WRITES", writes);
    Call& call = work.calls.emplace_back(use.call(rows_of(request, 1, pieces, request.language.elements)));
    call.give(to).give(elements).give(starts).give(n).give(k);
  };
  TemplateUse zeros(request, kZerosText, "zeros");
  zeros.type('T', MYDEV_S64);
  work.calls.emplace_back(zeros.call(rows_of(request, 1, 1, 1))).give(starts).give(1);
  if (n != 0) {
    find(false, start(1));
    add_running_sums(request, start(1), pieces, work);
    find(true, result);
  }
  TemplateUse rest(request, kFillRestText, "fill_rest");
  Call& fill = work.calls.emplace_back(rest.call(rows_of(request, 1, k, request.language.elements)));
  fill.give(result).give(start(pieces)).give(k).give(n);
  return work;
}

Work plan_sort(const Request& request) {
  const mydev_buffer &values = request.buffer(0), &indices = request.buffer(1), &in = request.buffer(2);
  const int64_t o = in.sizes[0], d = in.sizes[1], inner = in.sizes[2], kept = values.sizes[1], count = o * d * inner;
  const mydev_dtype dtype = dtype_of(in);
  Work work;
  if (count * kept == 0) return work;
  require(d <= std::numeric_limits<int32_t>::max(), "sort no line of 2^31 elements");
  const std::array<Call::Memory, 2> rooms = {work.take(count, dtype), work.take(count, dtype)};
  const std::array<Call::Memory, 2> places = {work.take(count, MYDEV_S32), work.take(count, MYDEV_S32)};
  // The first step sorts runs, the others merge two of them. Groups of GPUs sort long runs, of which they leave what
  // may be kept: where that is little, they do so until one run is left.
  const bool has_groups = request.language.gpu && d > request.language.lanes;
  int64_t length = d, width = kFirstRun;  // of lines, and of the runs in them
  for (size_t at = 0, step = 0;; at = 1 - at, ++step) {
    const bool first = step == 0, by_groups = has_groups && (first || kept <= kGroupRun / 2);
    const bool last = length <= (by_groups ? kGroupRun : first ? width : 2 * width);
    const int64_t of_run = std::min(kept, kGroupRun);
    const int64_t left = by_groups ? length / kGroupRun * of_run + std::min(length % kGroupRun, of_run) : length;
    TemplateUse use(request, by_groups ? kSortRunsText : kSortText, by_groups ? "sort_runs" : "sort");
    use.type('T', dtype).type('P', last ? MYDEV_S64 : MYDEV_S32);
    use.choose("DESCENDING", request.frame.attributes[0].value.i).choose("FIRST", first);
    if (by_groups) {
      use.choose("RUN", kGroupRun);
    } else {
      use.choose("LAST", last);
    }
    const int64_t runs = o * inner * ((length + kGroupRun - 1) / kGroupRun);
    Call& call = work.calls.emplace_back(
        use.call(by_groups ? groups(request, runs) : rows_of(request, o * inner, length, request.language.elements)));
    call.give(last ? Call::Memory{0} : rooms[at]).give(last ? Call::Memory{1} : places[at]);
    call.give(first ? Call::Memory{2} : rooms[1 - at]).give(places[1 - at]);
    call.give(o).give(length).give(inner).give(by_groups ? of_run : kept);
    if (!by_groups) call.give(width);
    // Between steps lines lie one after another.
    const std::array<int64_t, 3> dense = {inner * left, 1, left}, before = {inner * length, 1, length};
    for (size_t i = 0; i < 3; ++i) call.give(last ? values.strides[i] : dense[i]);
    for (size_t i = 0; i < 3; ++i) call.give(last ? indices.strides[i] : dense[i]);
    for (size_t i = 0; i < 3; ++i) call.give(first ? in.strides[i] : before[i]);
    if (last) return work;
    length = left;
    width = by_groups ? of_run : first ? width : 2 * width;
  }
}

}  // namespace mydev::device_kernels
