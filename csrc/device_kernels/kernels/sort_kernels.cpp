// The plans of kernels that put elements in order, or find places.
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

}  // namespace

Work plan_nonzero(const Request& request) {
  const mydev_buffer &out = request.buffer(0), &in = request.buffer(1);
  const int64_t piece = request.language.gpu ? kSmallPiece : kPiece;
  const int64_t n = in.sizes[0], k = out.sizes[0], pieces = (n + piece - 1) / piece;
  Work work;
  if (k == 0) return work;
  const Call::Memory result{0}, elements{1};
  // Where the places of each piece begin in `out`, and behind them where the last ones end.
  const Call::Memory starts = work.take(pieces + 1, MYDEV_S64);
  const auto start = [&](int64_t i) { return Call::Memory{-1, starts.offset + static_cast<uint64_t>(i) * sizeof(i)}; };
  const auto find = [&](bool writes, Call::Memory to) {
    TemplateUse use(request, kNonzeroText, "nonzero");
    use.type('T', dtype_of(in)).choose("PIECE", piece).choose("WRITES", writes ? 1 : 0);
    Call call = use.call({1, 0, 2, "ii"}, rows_of(request, 1, pieces, request.language.elements));
    work.calls.push_back(call.give(to).give(elements).give(starts).give(n).give(k));
  };
  TemplateUse zeros(request, kZerosText, "zeros");
  zeros.type('T', MYDEV_S64);
  work.calls.push_back(zeros.call({1, 0, 0, "i"}, rows_of(request, 1, 1, 1)).give(starts).give(1));
  if (n != 0) {
    find(false, start(1));
    add_running_sums(request, start(1), pieces, work);
    find(true, result);
  }
  TemplateUse rest(request, kFillRestText, "fill_rest");
  Call fill = rest.call({1, 0, 1, "ii"}, rows_of(request, 1, k, request.language.elements));
  work.calls.push_back(fill.give(result).give(start(pieces)).give(k).give(n));
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
  const std::array<int64_t, 3> dense = {inner * d, 1, d};  // lines one after another
  const std::array<int64_t, 3> given = {in.strides[0], in.strides[1], in.strides[2]};
  size_t at = 0;
  for (int64_t width = kFirstRun, step = 0;; ++step) {
    const bool first = step == 0, last = first ? width >= d : 2 * width >= d;
    TemplateUse use(request, kSortText, "sort");
    use.type('T', dtype)
        .type('P', last ? MYDEV_S64 : MYDEV_S32)
        .choose("DESCENDING", request.frame.attributes[0].value.i);
    use.choose("FIRST", first ? 1 : 0).choose("LAST", last ? 1 : 0);
    Call call = use.call({2, 0, 2, "iiiiiiiiiiiiii"}, rows_of(request, o * inner, d, request.language.elements));
    call.give(last ? Call::Memory{0} : rooms[at]).give(last ? Call::Memory{1} : places[at]);
    call.give(first ? Call::Memory{2} : rooms[1 - at]).give(places[1 - at]);
    call.give(o).give(d).give(inner).give(kept).give(width);
    for (size_t i = 0; i < 3; ++i) call.give(last ? values.strides[i] : dense[i]);
    for (size_t i = 0; i < 3; ++i) call.give(last ? indices.strides[i] : dense[i]);
    for (size_t i = 0; i < 3; ++i) call.give(first ? given[i] : dense[i]);
    work.calls.push_back(std::move(call));
    if (last) break;
    if (!first) width *= 2;
    at = 1 - at;
  }
  return work;
}

}  // namespace mydev::device_kernels
