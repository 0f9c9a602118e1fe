// The plans of convolutions and pooling.
#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "device_kernels/base/bound_frame.h"
#include "device_kernels/kernels/network_kernels.h"
#include "device_kernels/kernels/product_tiles.h"
#include "device_kernels/templates/texts.h"
#include "device_kernels/text/template_kernel.h"
#include "runtime/frame/frame.h"

namespace mydev::device_kernels {

namespace {

// On GPUs a convolution is a product by tiles, unless most of a tile were empty.
constexpr int64_t kFewestOuts = 16;
constexpr int64_t kFewestIns = 3;
// Elsewhere the gradient of weights is by columns, which are a group's lanes, of several rows.
constexpr int64_t kFewestRows = 4, kFewestColumns = 24, kRowsOfThread = 8;  // the template's
constexpr int64_t kMostOfInt32 = std::numeric_limits<int32_t>::max();

using Triple = std::array<int64_t, 3>;

// A tensor of images, or of weights: two sizes, then three, of which the first are 1 where there are fewer.
struct Images {
  int64_t n, c;
  Triple sizes, strides;
  int64_t stride_n, stride_c;

  explicit Images(const mydev_buffer& buffer)
      : n(buffer.sizes[0]), c(buffer.sizes[1]), stride_n(buffer.strides[0]), stride_c(buffer.strides[1]) {
    sizes.fill(1);
    strides.fill(0);
    const int64_t rank = int64_t{buffer.rank} - 2;
    for (int64_t d = 0; d < rank; ++d) {
      sizes[static_cast<size_t>(3 - rank + d)] = buffer.sizes[2 + d];
      strides[static_cast<size_t>(3 - rank + d)] = buffer.strides[2 + d];
    }
  }
  int64_t count() const { return sizes[0] * sizes[1] * sizes[2]; }
  // The same places with as few rows as there can be: rows that follow each other in memory are one.
  Images in_longest_rows() const {
    Images rows = *this;
    for (size_t d : {size_t{1}, size_t{0}}) {
      if (sizes[d] != 1 && strides[d] != rows.sizes[2] * strides[2]) break;
      rows.sizes[2] *= sizes[d];
      rows.sizes[d] = 1;
    }
    return rows;
  }
  // Elements from the first to the last of so many channels of an image.
  int64_t span(int64_t channels) const {
    int64_t last = (channels - 1) * stride_c;
    for (size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * strides[d];
    return last + 1;
  }
};

void give(Call& call, const Triple& numbers) {
  for (const int64_t number : numbers) call.give(number);
}
void give_strides(Call& call, const Images& images) {
  call.give(images.stride_n).give(images.stride_c);
  give(call, images.strides);
}

// The attributes of a convolution.
struct Window {
  Triple stride, padding, dilation;
  bool transposed;
  int64_t groups;

  Window(const BoundFrame& frame, size_t rank)
      : stride(list(frame, "stride", rank, 1)),
        padding(list(frame, "padding", rank, 0)),
        dilation(list(frame, "dilation", rank, 1)),
        transposed(frame.integer("transposed") != 0),
        groups(frame.integer("groups")) {}

 private:
  static Triple list(const BoundFrame& frame, const char* name, size_t rank, int64_t otherwise) {
    Triple values;
    values.fill(otherwise);
    const mydev_attribute found = frame.attribute(name);
    for (size_t d = 0; d < rank; ++d) values[3 - rank + d] = found.value.ints[d];
    return values;
  }
};

size_t rank_of(const mydev_buffer& buffer) {
  return static_cast<size_t>(buffer.rank) - 2;
}

// A convolution or its gradient by x: forward, or by windows that are turned round.
Work convolve(const Request& request, bool is_gradient) {
  const BoundFrame frame(contract_of(request), request.frame);
  const Images out(request.buffer(0)), in(request.buffer(1)), weight(request.buffer(2));
  const Window window(frame, rank_of(request.buffer(0)));
  const BoundOperand* bias = frame.find("bias");
  Work work;
  if (out.n * out.c * out.count() == 0) return work;
  const mydev_dtype result = dtype_of(request.buffer(0));
  const int64_t ins = in.c / window.groups, outs = out.c / window.groups;
  const bool by_tiles = request.language.gpu && outs >= kFewestOuts && ins >= kFewestIns;
  TemplateUse use(request, by_tiles ? kConvolutionTilesText : kConvolutionText,
                  by_tiles ? "convolution_tiles" : "convolution");
  use.type('R', result).type('T', dtype_of(request.buffer(1)));
  use.choose("FORWARD", window.transposed == is_gradient).choose("BIAS", is_there(bias));
  const TileShape shape(request, use.domain(), window.groups, outs, out.n * out.count());
  if (by_tiles) shape.choose(use.choose("READS", 0));
  const int64_t channels = outs >= 6 ? 8 : outs >= 3 ? 4 : 1;  // of a thread
  if (!by_tiles) {
    use.choose("ROWS", channels).choose("STRIDED", window.stride != Triple{1, 1, 1});
    use.choose("WIDE", in.span(1) > kMostOfInt32);
  }
  const int64_t rows = out.n * window.groups * ((outs + channels - 1) / channels);
  Call& call = work.calls.emplace_back(
      use.call(by_tiles ? shape.groups(request) : rows_of(request, rows, out.count(), request.language.block)));
  for (const int32_t buffer : {0, 1, 2}) call.give(Call::Memory{buffer});
  call.give(Call::Memory{is_there(bias) ? bias->buffer : 2}).give(out.n).give(out.c);
  give(call, out.sizes);
  call.give(ins).give(outs);
  for (const Triple& each : {in.sizes, weight.sizes, window.stride, window.padding, window.dilation}) give(call, each);
  for (const Images& each : {out, in, weight}) give_strides(call, each);
  call.give(frame.stride("bias", 0));
  return work;
}

}  // namespace

Work plan_convolution(const Request& request) {
  return convolve(request, false);
}

Work plan_convolution_backward_data(const Request& request) {
  return convolve(request, true);
}

namespace {

// The gradient of a weight by the tensor whose places windows begin at, and by the other one.
struct WeightsGradient {
  const Window& window;
  const BoundFrame& frame;
  const BoundOperand *grad_weight, *first, *second;
  const Images weight{frame.buffer(*grad_weight)}, a{frame.buffer(*first)}, b{frame.buffer(*second)};

  int64_t count() const { return weight.n * weight.c * weight.count(); }
  int64_t rows() const { return weight.n / window.groups; }
  int64_t columns() const { return weight.c * weight.count(); }
  bool is_by_tiles(const Request& request) const {
    return request.language.gpu && rows() >= kFewestOuts && columns() >= kFewestOuts;
  }
  bool is_by_columns(const Request& request) const {
    return !request.language.gpu && rows() >= kFewestRows && columns() >= kFewestColumns &&
           b.span(weight.c) <= kMostOfInt32;
  }
  void give(Call& call, Call::Memory result) const {
    call.give(result).give(Call::Memory{first->buffer}).give(Call::Memory{second->buffer});
    call.give(a.n).give(weight.n).give(rows()).give(weight.c);
    for (const Triple& each : {a.sizes, b.sizes, weight.sizes, window.stride, window.padding, window.dilation}) {
      device_kernels::give(call, each);
    }
    for (const Images& each : {weight, a, b}) give_strides(call, each);
  }
  void add(const Request& request, Work& work) const {
    const bool by_columns = is_by_columns(request);
    TemplateUse use(request, by_columns ? kConvolutionWeightColumnsText : kConvolutionWeightsText,
                    by_columns ? "convolution_weight_columns" : "convolution_weights");
    use.type('T', grad_weight->dtype);
    const bool by_row = request.language.loops || a.sizes[2] >= request.language.lanes;
    if (!by_columns) use.choose("BY_ROW", by_row);
    const int64_t tiles = window.groups * ((rows() + kRowsOfThread - 1) / kRowsOfThread);
    Call& call = work.calls.emplace_back(
        use.call(by_columns ? rows_of(request, tiles, columns(), request.language.block) : groups(request, count())));
    give(call, Call::Memory{grad_weight->buffer});
  }
  void add_by_tiles(const Request& request, Work& work) const {
    const Domain domain = domain_of(grad_weight->dtype);
    const int64_t places = a.n * a.count();
    const TileShape shape(request, domain, window.groups, rows(), columns());
    const int64_t parts = is_dense(frame.buffer(*grad_weight)) ? shape.parts(request, places) : 1;
    TemplateUse use(request, kConvolutionWeightTilesText, "convolution_weight_tiles");
    use.type('R', parts == 1 ? grad_weight->dtype : sum_dtype(domain)).type('T', grad_weight->dtype);
    shape.choose(use.choose("READS", 0));
    Call& call = work.calls.emplace_back(use.call(shape.groups(request, parts)));
    const Call::Memory result{grad_weight->buffer};
    give(call, parts == 1 ? result : Call::Memory{});
    call.give(parts).give(shape.steps(places, parts));
    if (parts == 1) return;
    work.scratch_bytes = static_cast<uint64_t>(parts * count() * dtype_size(sum_dtype(domain)));
    work.calls.push_back(sum_of_parts(request, result, grad_weight->dtype, Call::Memory{}, count(), parts));
  }

 private:
  static bool is_dense(const mydev_buffer& buffer) {
    int64_t stride = 1;
    for (int32_t d = buffer.rank; d-- > 0; stride *= buffer.sizes[d]) {
      if (buffer.strides[d] != stride && buffer.sizes[d] != 1) return false;
    }
    return true;
  }
};

}  // namespace

Work plan_convolution_backward_weights(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const BoundOperand *grad_weight = frame.find("grad_weight"), *grad_bias = frame.find("grad_bias"),
                     *grad_out = frame.find("grad_out"), *x = frame.find("x");
  const Window window(frame, rank_of(frame.buffer(*grad_weight)));
  // The weight's first size is that of the tensor whose places windows begin at.
  const BoundOperand *first = window.transposed ? x : grad_out, *second = window.transposed ? grad_out : x;
  Work work;
  const WeightsGradient gradient{window, frame, grad_weight, first, second};
  if (gradient.count() != 0 && gradient.is_by_tiles(request)) {
    gradient.add_by_tiles(request, work);
  } else if (gradient.count() != 0) {
    gradient.add(request, work);
  }
  if (is_there(grad_bias)) {
    const Images grads = Images(frame.buffer(*grad_out)).in_longest_rows();
    TemplateUse use(request, kChannelSumsText, "channel_sums");
    use.type('T', grad_bias->dtype).choose("BY_ROW", grads.sizes[2] >= request.language.lanes);
    Call& call = work.calls.emplace_back(use.call(frame, groups(request, grads.c))).give(grads.n).give(grads.c);
    give(call, grads.sizes);
    give_strides(call, grads);
    call.give(frame.stride("grad_bias", 0));
  }
  return work;
}

namespace {

using Pair = std::array<int64_t, 2>;

Pair pair_of(const BoundFrame& frame, const char* name) {
  const mydev_attribute found = frame.attribute(name);
  return {found.value.ints[0], found.value.ints[1]};
}

void give_image_strides(Call& call, const mydev_buffer& buffer) {
  for (int32_t d = 0; d < 4; ++d) call.give(buffer.strides[d]);
}

bool is_largest(const Request& request) {
  return std::string_view(request.frame.kernel->name).starts_with("mydev.max");
}

}  // namespace

Work plan_pool(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const bool largest = is_largest(request);
  const mydev_buffer &out = request.buffer(0), &indices = request.buffer(largest ? 1 : 0),
                     &x = request.buffer(largest ? 2 : 1);
  Work work;
  if (std::any_of(out.sizes, out.sizes + 4, [](int64_t size) { return size == 0; })) return work;
  TemplateUse use(request, kPoolText, "pool");
  use.type('T', dtype_of(x)).choose("MAX", largest);
  use.choose("PADDED", largest ? 0 : frame.integer("count_include_pad"));
  const int64_t rows = out.sizes[0] * out.sizes[1] * out.sizes[2];
  Call& call = work.calls.emplace_back(use.call(frame, rows_of(request, rows, out.sizes[3], request.language.block)));
  for (int32_t d = 0; d < 4; ++d) call.give(out.sizes[d]);
  call.give(x.sizes[2]).give(x.sizes[3]);
  for (const char* name : {"kernel", "stride", "padding"}) {
    const Pair pair = pair_of(frame, name);
    call.give(pair[0]).give(pair[1]);
  }
  const Pair dilation = largest ? pair_of(frame, "dilation") : Pair{1, 1};
  call.give(dilation[0]).give(dilation[1]).give(largest ? 0 : frame.integer("divisor"));
  for (const mydev_buffer* buffer : {&out, &indices, &x}) give_image_strides(call, *buffer);
  return work;
}

namespace {

// By planes, so that no element looks at all windows of its plane.
Call max_pool_gradient(const Request& request, const BoundFrame& frame) {
  const mydev_buffer &grad_x = request.buffer(0), &grad_out = request.buffer(1), &indices = request.buffer(2);
  TemplateUse use(request, kMaxPoolPlanesText, "max_pool_planes");
  use.type('T', dtype_of(grad_x)).choose("SHARED", request.language.gpu);
  Call call = use.call(frame, groups(request, grad_x.sizes[0] * grad_x.sizes[1]));
  for (int32_t d = 0; d < 4; ++d) call.give(grad_out.sizes[d]);
  call.give(grad_x.sizes[2]).give(grad_x.sizes[3]);
  for (const mydev_buffer* buffer : {&grad_out, &indices, &grad_x}) give_image_strides(call, *buffer);
  return call;
}

}  // namespace

Work plan_pool_backward(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const bool largest = is_largest(request);
  const mydev_buffer &grad_x = request.buffer(0), &grad_out = request.buffer(1),
                     &indices = request.buffer(largest ? 2 : 1);
  Work work;
  if (std::any_of(grad_x.sizes, grad_x.sizes + 4, [](int64_t size) { return size == 0; })) return work;
  const mydev_dtype dtype = dtype_of(grad_x);
  if (largest && (dtype == MYDEV_F32 || dtype == MYDEV_F64)) {
    work.calls.push_back(max_pool_gradient(request, frame));
    return work;
  }
  TemplateUse use(request, kPoolBackwardText, "pool_backward");
  use.type('T', dtype_of(grad_x)).choose("MAX", largest);
  use.choose("PADDED", largest ? 0 : frame.integer("count_include_pad"));
  const int64_t rows = grad_x.sizes[0] * grad_x.sizes[1] * grad_x.sizes[2];
  Call& call =
      work.calls.emplace_back(use.call(frame, rows_of(request, rows, grad_x.sizes[3], request.language.block)));
  for (int32_t d = 0; d < 4; ++d) call.give(grad_out.sizes[d]);
  call.give(grad_x.sizes[2]).give(grad_x.sizes[3]);
  for (const char* name : {"kernel", "stride", "padding"}) {
    const Pair pair = largest ? Pair{1, 1} : pair_of(frame, name);
    call.give(pair[0]).give(pair[1]);
  }
  call.give(largest ? 0 : frame.integer("divisor"));
  for (const mydev_buffer* buffer : {&grad_out, &indices, &grad_x}) give_image_strides(call, *buffer);
  return work;
}

namespace {

bool is_backward(const Request& request) {
  return std::string_view(request.frame.kernel->name).ends_with("_backward");
}

}  // namespace

Work plan_adaptive_pool(const Request& request) {
  const bool backward = is_backward(request);
  const mydev_buffer &out = request.buffer(0), &in = request.buffer(1);
  const mydev_buffer &windows = backward ? in : out, &image = backward ? out : in;
  Work work;
  if (count_of(out) == 0) return work;
  TemplateUse use(request, kAdaptivePoolText, "adaptive_pool");
  use.type('T', dtype_of(out)).choose("BACKWARD", backward);
  const int64_t rows = out.sizes[0] * out.sizes[1] * out.sizes[2];
  Call& call = work.calls.emplace_back(use.call(rows_of(request, rows, out.sizes[3], request.language.block)));
  call.give(Call::Memory{0}).give(Call::Memory{1});
  for (int32_t d = 0; d < 4; ++d) call.give(windows.sizes[d]);
  call.give(image.sizes[2]).give(image.sizes[3]);
  for (const mydev_buffer* buffer : {&out, &in}) give_image_strides(call, *buffer);
  return work;
}

Work plan_upsample(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const bool backward = is_backward(request);
  const bool linear = std::string_view(request.frame.kernel->name).starts_with("mydev.upsample_linear");
  const Images out(request.buffer(0)), in(request.buffer(1));
  const Images &fine = backward ? in : out, &coarse = backward ? out : in;
  Work work;
  if (out.n * out.c * out.count() == 0) return work;
  const mydev_dtype dtype = dtype_of(request.buffer(0));
  TemplateUse use(request, kUpsampleText, "upsample");
  use.type('T', dtype);
  if (dtype == MYDEV_U8) use.compute_in(Domain::kF32);
  use.choose("LINEAR", linear).choose("BACKWARD", backward);
  use.choose("FLAG", frame.integer(linear ? "align_corners" : "exact"));
  const int64_t rows = out.n * out.c * out.sizes[0] * out.sizes[1];
  Call& call = work.calls.emplace_back(use.call(rows_of(request, rows, out.sizes[2], request.language.block)));
  call.give(Call::Memory{0}).give(Call::Memory{1}).give(out.n).give(out.c);
  for (const Images* each : {&coarse, &fine}) give(call, each->sizes);
  for (const Images* each : {&out, &in}) give_strides(call, *each);
  const mydev_attribute steps = frame.attribute("step");
  for (size_t d = 0; d < 3; ++d)
    use.give_number(call, d + steps.count < 3 ? 1 : steps.value.floats[d + steps.count - 3]);
  return work;
}

}  // namespace mydev::device_kernels
