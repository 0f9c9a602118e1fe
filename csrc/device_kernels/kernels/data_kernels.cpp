#include "device_kernels/kernels/data_kernels.h"

#include <array>

#include "device_kernels/base/bound_frame.h"
#include "device_kernels/templates/texts.h"
#include "device_kernels/text/template_kernel.h"
#include "runtime/frame/frame.h"

namespace mydev::device_kernels {

mydev_dtype moved_as(const mydev_buffer& buffer) {
  const int64_t bytes = dtype_size(static_cast<mydev_dtype>(buffer.dtype));
  constexpr std::array kUnsigned = {MYDEV_U8, MYDEV_U16, MYDEV_U32, MYDEV_U64};
  for (const mydev_dtype dtype : kUnsigned) {
    if (dtype_size(dtype) == bytes) return dtype;
  }
  return MYDEV_C128;
}

const char* bits_type(int64_t bytes) {
  switch (bytes) {
    case 1:
      return "u8";
    case 2:
      return "u16";
    case 4:
      return "u32";
    case 8:
      return "u64";
    default:
      return "u128";
  }
}

Work plan_index_select(const Request& request) {
  const mydev_buffer &out = request.buffer(0), &in = request.buffer(1), &index = request.buffer(2);
  const int64_t o = out.sizes[0], n = out.sizes[1], inner = out.sizes[2];
  Work work;
  if (o * n * inner == 0) return work;
  TemplateUse use(request, kIndexSelectText, "index_select");
  use.type('T', moved_as(in)).type('I', static_cast<mydev_dtype>(index.dtype));
  const BoundFrame frame(contract_of(request), request.frame);
  Call& call = work.calls.emplace_back(use.call(frame, rows_of(request, o * n, inner, request.language.elements)));
  call.give(o).give(in.sizes[1]).give(n).give(inner).give(index.strides[0]);
  return work;
}

Work plan_concatenate(const Request& request) {
  const mydev_buffer& out = request.buffer(0);
  const int64_t o = out.sizes[0], n = out.sizes[1], inner = out.sizes[2];
  Work work;
  int64_t at = 0;
  for (uint32_t i = 0; i < request.frame.num_inputs; ++i) {
    const int64_t length = request.buffer(1 + i).sizes[1] * inner;
    if (o * length != 0) {
      TemplateUse use(request, kConcatenateText, "concatenate");
      use.type('T', moved_as(out));
      Call& call = work.calls.emplace_back(use.call(rows_of(request, o, length, request.language.elements)));
      call.give(Call::Memory{0}).give(Call::Memory{static_cast<int32_t>(1 + i)});
      call.give(o).give(length).give(n * inner).give(at);
    }
    at += length;
  }
  return work;
}

Work plan_arange(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const mydev_buffer& out = request.buffer(0);
  const auto dtype = static_cast<mydev_dtype>(out.dtype);
  Work work;
  if (out.sizes[0] == 0) return work;
  // Floats are computed in double, and rounded once.
  const bool is_float = is_real(domain_of(dtype));
  TemplateUse use(request, kArangeText, "arange");
  use.type('T', dtype).compute_in(is_float ? Domain::kF64 : Domain::kI64);
  Call& call = work.calls.emplace_back(use.call(frame, rows_of(request, 1, out.sizes[0], request.language.elements)));
  call.give(out.sizes[0]).give(out.strides[0]);
  for (const char* name : {"start", "step"}) {
    if (is_float) {
      call.give_f64(frame.number(name));
    } else {
      call.give(frame.integer(name));
    }
  }
  return work;
}

// Groups that share the rows of a table: enough for the threads of processors.
constexpr int64_t kRanges = 64;

Work plan_embedding_backward(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const mydev_buffer &grad_weight = request.buffer(0), &grad_out = request.buffer(1), &index = request.buffer(2);
  const int64_t v = grad_weight.sizes[0], inner = grad_weight.sizes[1];
  Work work;
  if (v * inner == 0) return work;
  const bool by_index = request.language.gpu;
  const auto dtype = static_cast<mydev_dtype>(grad_out.dtype);
  const int64_t by_frequency = frame.integer("scale_by_frequency");
  const bool by_range = !by_index && by_frequency == 0 && (dtype == MYDEV_F32 || dtype == MYDEV_F64);
  const int64_t n = grad_out.sizes[0];
  if (by_index) {
    TemplateUse zeros(request, kZerosText, "zeros");
    zeros.type('T', dtype);
    const mydev_geometry geometry = rows_of(request, 1, v * inner, request.language.elements);
    work.calls.emplace_back(zeros.call(geometry)).give(Call::Memory{0}).give(v * inner);
    if (n == 0) return work;
  }
  TemplateUse use(request,
                  by_index   ? kEmbeddingRowsText
                  : by_range ? kEmbeddingRangesText
                             : kEmbeddingBackwardText,
                  by_index   ? "embedding_rows"
                  : by_range ? "embedding_ranges"
                             : "embedding_backward");
  use.type('T', dtype).type('I', static_cast<mydev_dtype>(index.dtype));
  if (!by_range) use.choose("BY_FREQUENCY", by_frequency);
  const int64_t lanes = request.language.lanes, rows = by_range ? (v + kRanges - 1) / kRanges : 1;
  Call& call = work.calls.emplace_back(
      use.call(frame, by_index ? groups(request, n * ((inner + lanes - 1) / lanes))
                               : rows_of(request, (v + rows - 1) / rows, inner, request.language.block)));
  call.give(v).give(n).give(inner).give(index.strides[0]).give(frame.integer("padding_idx"));
  if (by_range) call.give(rows);
  return work;
}

}  // namespace mydev::device_kernels
