#include "device_kernels/kernels/network_kernels.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "device_kernels/base/bound_frame.h"
#include "device_kernels/kernels/product_tiles.h"
#include "device_kernels/templates/texts.h"
#include "device_kernels/text/template_kernel.h"
#include "runtime/frame/frame.h"

namespace mydev::device_kernels {

namespace {

int64_t stride_of(const BoundFrame& frame, const BoundOperand* operand, int32_t d) {
  return is_there(operand) ? frame.buffer(*operand).strides[d] : 0;
}

// Gradients that are sums over m rows of n columns. On GPUs the rows are parted, and the parts' sums are in scratch:
// one array behind the other.
class ColumnSums {
 public:
  ColumnSums(const Request& request, int64_t m, int64_t n, mydev_dtype dtype)
      : request_(request), n_(n), dtype_(dtype) {
    const int64_t block = request.language.block;
    parts_ = parts_of(request, (n + block - 1) / block, m, 1);
  }

  int64_t parts() const { return parts_; }
  // The dtype that the first call writes.
  mydev_dtype dtype() const { return parts_ == 1 ? dtype_ : sum_dtype(domain_of(dtype_)); }
  mydev_geometry geometry() const { return rows_of(request_, parts_, n_, request_.language.block); }
  // Gives the call the results that it writes; some other in the place of one that is absent.
  void give_results(Call& call, std::initializer_list<const BoundOperand*> results) const {
    const BoundOperand* any = *std::ranges::find_if(results, is_there);
    size_t i = 0;
    for (const BoundOperand* result : results) {
      call.give(parts_ == 1 ? memory_or(result, any->buffer) : Call::Memory{.offset = i++ * bytes()});
    }
  }
  void add_parts(std::initializer_list<const BoundOperand*> results, Work& work) const {
    if (parts_ == 1) return;
    size_t i = 0;
    for (const BoundOperand* result : results) {
      const Call::Memory sums{.offset = i++ * bytes()};
      if (!is_there(result)) continue;
      work.calls.push_back(sum_of_parts(request_, Call::Memory{result->buffer}, dtype_, sums, n_, parts_));
    }
    work.scratch_bytes = std::max(work.scratch_bytes, i * bytes());
  }

 private:
  uint64_t bytes() const { return static_cast<uint64_t>(parts_ * n_ * dtype_size(dtype())); }

  const Request& request_;
  int64_t n_, parts_;
  mydev_dtype dtype_;
};

// Two sums over the elements of each of some results. On GPUs each has `parts` groups and there are two calls: STEP 1
// leaves the parts' sums in scratch, [parts, results], and STEP 2 adds them. Elsewhere STEP 0 does all.
class PartedSums {
 public:
  PartedSums(const Request& request, int64_t results, int64_t elements, mydev_dtype dtype, Work& work)
      : request_(request), results_(results), parts_(parts_of(request, results, elements, request.language.lanes)) {
    if (parts_ == 1) return;
    steps_ = {1, 2};
    for (Call::Memory& memory : sums_) memory = work.take(results * parts_, sum_dtype(domain_of(dtype)));
  }

  int64_t parts() const { return parts_; }
  const std::vector<int64_t>& steps() const { return steps_; }
  // A group for each part; in a step that stores nothing by parts, for each result.
  mydev_geometry geometry(bool by_parts) const {
    return groups(request_, static_cast<uint64_t>(results_ * (by_parts ? parts_ : 1)));
  }
  // Gives the call the memory of both sums, the last of its results.
  void give(Call& call) const {
    for (const Call::Memory& memory : sums_) call.give(memory);
  }

 private:
  const Request& request_;
  int64_t results_, parts_;
  std::vector<int64_t> steps_ = {0};
  std::array<Call::Memory, 2> sums_ = {Call::Memory{0}, Call::Memory{0}};  // results, which are not touched in STEP 0
};

bool is_of_log(const Request& request) {
  return std::string_view(request.frame.kernel->name).starts_with("mydev.log");
}

}  // namespace

Work plan_softmax(const Request& request) {
  const mydev_buffer& in = request.buffer(1);
  const int64_t o = in.sizes[0], d = in.sizes[1], n = in.sizes[2];
  Work work;
  if (o * d * n == 0) return work;
  TemplateUse use(request, kSoftmaxText, "softmax");
  use.type('T', dtype_of(in)).choose("LOG", is_of_log(request) ? 1 : 0);
  Call call = use.call({1, 0, 1, "iii"}, groups(request, static_cast<uint64_t>(o * n)));
  work.calls.push_back(call.give(Call::Memory{0}).give(Call::Memory{1}).give(o).give(d).give(n));
  return work;
}

Work plan_softmax_backward(const Request& request) {
  const mydev_buffer& grad_out = request.buffer(1);
  const int64_t o = grad_out.sizes[0], d = grad_out.sizes[1], n = grad_out.sizes[2];
  Work work;
  if (o * d * n == 0) return work;
  TemplateUse use(request, kSoftmaxBackwardText, "softmax_backward");
  use.type('T', dtype_of(grad_out)).choose("LOG", is_of_log(request) ? 1 : 0);
  Call call = use.call({1, 0, 2, "iii"}, groups(request, static_cast<uint64_t>(o * n)));
  for (const int32_t buffer : {0, 1, 2}) call.give(Call::Memory{buffer});
  work.calls.push_back(call.give(o).give(d).give(n));
  return work;
}

Work plan_layer_norm(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const mydev_buffer& in = request.buffer(3);
  const int64_t m = in.sizes[0], n = in.sizes[1];
  const BoundOperand *weight = frame.find("weight"), *bias = frame.find("bias");
  Work work;
  if (m == 0) return work;
  TemplateUse use(request, kLayerNormText, "layer_norm");
  use.type('T', dtype_of(in)).type('S', dtype_of(request.buffer(1)));
  use.choose("WEIGHT", is_there(weight) ? 1 : 0).choose("BIAS", is_there(bias) ? 1 : 0);
  Call call = use.call({3, 0, 3, "iic"}, groups(request, static_cast<uint64_t>(m)));
  for (const int32_t buffer : {0, 1, 2, 3}) call.give(Call::Memory{buffer});
  call.give(memory_or(weight, 3)).give(memory_or(bias, 3)).give(m).give(n);
  use.give_number(call, frame.number("eps"));
  work.calls.push_back(std::move(call));
  return work;
}

Work plan_layer_norm_backward(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const BoundOperand *grad_in = frame.find("grad_in"), *grad_weight = frame.find("grad_weight"),
                     *grad_bias = frame.find("grad_bias"), *grad_out = frame.find("grad_out"), *in = frame.find("in"),
                     *mean = frame.find("mean"), *rstd = frame.find("rstd"), *weight = frame.find("weight");
  const int64_t m = frame.buffer(*in).sizes[0], n = frame.buffer(*in).sizes[1];
  Work work;
  if (is_there(grad_in) && m * n != 0) {
    TemplateUse use(request, kLayerNormBackwardText, "layer_norm_backward");
    use.type('T', in->dtype).type('S', mean->dtype).choose("WEIGHT", is_there(weight) ? 1 : 0);
    Call call = use.call({1, 0, 5, "ii"}, groups(request, static_cast<uint64_t>(m)));
    for (const BoundOperand* operand : {grad_in, grad_out, in, mean, rstd}) call.give(Call::Memory{operand->buffer});
    work.calls.push_back(call.give(memory_or(weight, mean->buffer)).give(m).give(n));
  }
  if ((is_there(grad_weight) || is_there(grad_bias)) && n != 0) {
    const ColumnSums sums(request, m, n, mean->dtype);
    TemplateUse use(request, kLayerNormParametersText, "layer_norm_parameters");
    use.type('T', in->dtype).type('S', mean->dtype).type('R', sums.dtype());
    use.choose("WEIGHT", is_there(grad_weight) ? 1 : 0).choose("BIAS", is_there(grad_bias) ? 1 : 0);
    Call call = use.call({2, 0, 4, "iii"}, sums.geometry());
    sums.give_results(call, {grad_weight, grad_bias});
    for (const BoundOperand* operand : {grad_out, in, mean, rstd}) call.give(Call::Memory{operand->buffer});
    work.calls.push_back(call.give(m).give(n).give(sums.parts()));
    sums.add_parts({grad_weight, grad_bias}, work);
  }
  return work;
}

namespace {

void give_shape(Call& call, const mydev_buffer& buffer) {
  for (int32_t d = 0; d < buffer.rank; ++d) call.give(buffer.sizes[d]);
}
void give_strides(Call& call, const mydev_buffer& buffer) {
  for (int32_t d = 0; d < buffer.rank; ++d) call.give(buffer.strides[d]);
}

}  // namespace

Work plan_group_norm(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const mydev_buffer &out = request.buffer(0), &in = request.buffer(3);
  const BoundOperand *weight = frame.find("weight"), *bias = frame.find("bias");
  Work work;
  if (in.sizes[0] * in.sizes[1] == 0) return work;
  TemplateUse use(request, kGroupNormText, "group_norm");
  use.type('T', dtype_of(in)).type('S', dtype_of(request.buffer(1)));
  use.choose("WEIGHT", is_there(weight) ? 1 : 0).choose("BIAS", is_there(bias) ? 1 : 0);
  Call call = use.call({3, 0, 3, "iiiiiiiiiiiic"}, groups(request, static_cast<uint64_t>(in.sizes[0] * in.sizes[1])));
  for (const int32_t buffer : {0, 1, 2, 3}) call.give(Call::Memory{buffer});
  call.give(memory_or(weight, 3)).give(memory_or(bias, 3));
  give_shape(call, in);
  give_strides(call, out);
  give_strides(call, in);
  use.give_number(call, frame.number("eps"));
  work.calls.push_back(std::move(call));
  return work;
}

Work plan_group_norm_backward(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const BoundOperand *grad_in = frame.find("grad_in"), *grad_weight = frame.find("grad_weight"),
                     *grad_bias = frame.find("grad_bias"), *grad_out = frame.find("grad_out"), *in = frame.find("in"),
                     *mean = frame.find("mean"), *rstd = frame.find("rstd"), *weight = frame.find("weight");
  const mydev_buffer &elements = frame.buffer(*in), &grads = frame.buffer(*grad_out);
  const int64_t rows = elements.sizes[0] * elements.sizes[1], channels = elements.sizes[1] * elements.sizes[2];
  Work work;
  if (is_there(grad_in) && rows * elements.sizes[2] * elements.sizes[3] != 0) {
    TemplateUse use(request, kGroupNormBackwardText, "group_norm_backward");
    if (request.language.f64) use.compute_in(Domain::kF64);  // its sums cancel each other
    use.type('T', in->dtype).type('S', mean->dtype).choose("WEIGHT", is_there(weight) ? 1 : 0);
    Call call = use.call({1, 0, 5, std::string(16, 'i')}, groups(request, static_cast<uint64_t>(rows)));
    for (const BoundOperand* operand : {grad_in, grad_out, in, mean, rstd}) call.give(Call::Memory{operand->buffer});
    call.give(memory_or(weight, mean->buffer));
    give_shape(call, elements);
    give_strides(call, frame.buffer(*grad_in));
    give_strides(call, grads);
    give_strides(call, elements);
    work.calls.push_back(std::move(call));
  }
  if ((is_there(grad_weight) || is_there(grad_bias)) && channels != 0) {
    TemplateUse use(request, kGroupNormParametersText, "group_norm_parameters");
    if (request.language.f64) use.compute_in(Domain::kF64);
    use.type('T', in->dtype).type('S', mean->dtype);
    use.choose("WEIGHT", is_there(grad_weight) ? 1 : 0).choose("BIAS", is_there(grad_bias) ? 1 : 0);
    const bool by_row = request.language.gpu && elements.sizes[3] >= request.language.lanes;
    use.choose("BY_ROW", by_row ? 1 : 0);
    Call call = use.call({2, 0, 4, std::string(12, 'i')}, groups(request, static_cast<uint64_t>(channels)));
    const int32_t any = is_there(grad_weight) ? grad_weight->buffer : grad_bias->buffer;
    call.give(memory_or(grad_weight, any)).give(memory_or(grad_bias, any));
    for (const BoundOperand* operand : {grad_out, in, mean, rstd}) call.give(Call::Memory{operand->buffer});
    give_shape(call, elements);
    give_strides(call, grads);
    give_strides(call, elements);
    work.calls.push_back(std::move(call));
  }
  return work;
}

Work plan_batch_norm(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const BoundOperand *in = frame.find("in"), *weight = frame.find("weight"), *bias = frame.find("bias"),
                     *mean = frame.find("running_mean"), *var = frame.find("running_var");
  const mydev_buffer& sizes = frame.buffer(*in);
  const int64_t n = sizes.sizes[0], c = sizes.sizes[1], s = sizes.sizes[2];
  Work work;
  if (c == 0) return work;
  const PartedSums sums(request, c, n * s, in->dtype, work);
  for (const int64_t step : sums.steps()) {
    TemplateUse use(request, kBatchNormText, "batch_norm");
    use.type('T', in->dtype).type('S', dtype_of(request.buffer(1))).choose("STEP", step);
    use.choose("WEIGHT", is_there(weight) ? 1 : 0).choose("BIAS", is_there(bias) ? 1 : 0);
    use.choose("RUNNING_MEAN", is_there(mean) ? 1 : 0).choose("RUNNING_VAR", is_there(var) ? 1 : 0);
    use.choose("BY_IMAGE", s >= request.language.lanes ? 1 : 0);
    Call call = use.call({7, 0, 3, "iiiicc"}, sums.geometry(true));
    for (const int32_t buffer : {0, 1, 2}) call.give(Call::Memory{buffer});
    call.give(memory_or(mean, 1)).give(memory_or(var, 2));
    sums.give(call);
    call.give(Call::Memory{in->buffer}).give(memory_or(weight, in->buffer)).give(memory_or(bias, in->buffer));
    call.give(n).give(c).give(s).give(sums.parts());
    use.give_number(call, frame.number("momentum"));
    use.give_number(call, frame.number("eps"));
    work.calls.push_back(std::move(call));
  }
  return work;
}

Work plan_batch_norm_inference(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const BoundOperand *in = frame.find("in"), *weight = frame.find("weight"), *bias = frame.find("bias"),
                     *mean = frame.find("running_mean"), *var = frame.find("running_var");
  const mydev_buffer& sizes = frame.buffer(*in);
  const int64_t n = sizes.sizes[0], c = sizes.sizes[1], s = sizes.sizes[2];
  Work work;
  if (n * c * s == 0) return work;
  TemplateUse use(request, kBatchNormInferenceText, "batch_norm_inference");
  use.type('T', in->dtype).type('S', mean->dtype);
  use.choose("WEIGHT", is_there(weight) ? 1 : 0).choose("BIAS", is_there(bias) ? 1 : 0);
  Call call = use.call({1, 0, 5, "iiic"}, rows_of(request, n * c, s, request.language.elements));
  call.give(Call::Memory{0}).give(Call::Memory{in->buffer});
  call.give(memory_or(weight, mean->buffer)).give(memory_or(bias, mean->buffer));
  call.give(Call::Memory{mean->buffer}).give(Call::Memory{var->buffer}).give(n).give(c).give(s);
  use.give_number(call, frame.number("eps"));
  work.calls.push_back(std::move(call));
  return work;
}

Work plan_batch_norm_backward(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const BoundOperand *grad_in = frame.find("grad_in"), *grad_weight = frame.find("grad_weight"),
                     *grad_bias = frame.find("grad_bias"), *grad_out = frame.find("grad_out"), *in = frame.find("in"),
                     *weight = frame.find("weight"), *mean = frame.find("mean"), *invstd = frame.find("invstd");
  const mydev_buffer& sizes = frame.buffer(*in);
  const int64_t n = sizes.sizes[0], c = sizes.sizes[1], s = sizes.sizes[2];
  Work work;
  const BoundOperand* any = is_there(grad_in) ? grad_in : is_there(grad_weight) ? grad_weight : grad_bias;
  if (c == 0 || !is_there(any)) return work;
  const PartedSums sums(request, c, n * s, in->dtype, work);
  for (const int64_t step : sums.steps()) {
    TemplateUse use(request, kBatchNormBackwardText, "batch_norm_backward");
    use.type('T', in->dtype).type('S', mean->dtype).type('G', grad_out->dtype);
    use.choose("TRAINING", frame.integer("training")).choose("WEIGHT", is_there(weight) ? 1 : 0);
    use.choose("GRAD_IN", is_there(grad_in) ? 1 : 0).choose("GRAD_WEIGHT", is_there(grad_weight) ? 1 : 0);
    use.choose("GRAD_BIAS", is_there(grad_bias) ? 1 : 0).choose("STEP", step);
    use.choose("BY_IMAGE", s >= request.language.lanes ? 1 : 0);
    Call call = use.call({5, 0, 5, "iiiic"}, sums.geometry(step != 2 || is_there(grad_in)));
    for (const BoundOperand* result : {grad_in, grad_weight, grad_bias}) call.give(memory_or(result, any->buffer));
    sums.give(call);
    call.give(Call::Memory{grad_out->buffer}).give(Call::Memory{in->buffer}).give(memory_or(weight, mean->buffer));
    call.give(Call::Memory{mean->buffer}).give(Call::Memory{invstd->buffer});
    call.give(n).give(c).give(s).give(sums.parts());
    use.give_number(call, frame.number("eps"));
    work.calls.push_back(std::move(call));
  }
  return work;
}

Work plan_rms_norm(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const BoundOperand *x = frame.find("x"), *weight = frame.find("weight");
  const int64_t m = frame.buffer(*x).sizes[0], n = frame.buffer(*x).sizes[1];
  Work work;
  if (m == 0) return work;
  TemplateUse use(request, kRmsNormText, "rms_norm");
  use.type('T', x->dtype).choose("WEIGHT", is_there(weight) ? 1 : 0);
  Call call = use.call({2, 0, 2, "iic"}, groups(request, static_cast<uint64_t>(m)));
  call.give(Call::Memory{0}).give(Call::Memory{1}).give(Call::Memory{x->buffer}).give(memory_or(weight, x->buffer));
  call.give(m).give(n);
  use.give_number(call, frame.number("eps"));
  work.calls.push_back(std::move(call));
  return work;
}

Work plan_rms_norm_backward(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const BoundOperand *grad_x = frame.find("grad_x"), *grad_weight = frame.find("grad_weight"),
                     *grad = frame.find("grad"), *x = frame.find("x"), *inverse = frame.find("inverse_rms"),
                     *weight = frame.find("weight");
  const int64_t m = frame.buffer(*x).sizes[0], n = frame.buffer(*x).sizes[1];
  Work work;
  if (m * n != 0) {
    TemplateUse use(request, kRmsNormBackwardText, "rms_norm_backward");
    use.type('T', x->dtype).choose("WEIGHT", is_there(weight) ? 1 : 0);
    Call call = use.call({1, 0, 4, "ii"}, groups(request, static_cast<uint64_t>(m)));
    for (const BoundOperand* operand : {grad_x, grad, x, inverse}) call.give(Call::Memory{operand->buffer});
    work.calls.push_back(call.give(memory_or(weight, x->buffer)).give(m).give(n));
  }
  if (is_there(grad_weight) && n != 0) {
    const ColumnSums sums(request, m, n, x->dtype);
    TemplateUse use(request, kRmsNormWeightText, "rms_norm_weight");
    use.type('T', x->dtype).type('R', sums.dtype());
    Call call = use.call({1, 0, 3, "iii"}, sums.geometry());
    sums.give_results(call, {grad_weight});
    for (const BoundOperand* operand : {grad, x, inverse}) call.give(Call::Memory{operand->buffer});
    work.calls.push_back(call.give(m).give(n).give(sums.parts()));
    sums.add_parts({grad_weight}, work);
  }
  return work;
}

Work plan_nll_loss(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const mydev_buffer &out = request.buffer(0), &in = request.buffer(2), &target = request.buffer(3);
  const BoundOperand* weight = frame.find("weight");
  const int64_t n = in.sizes[0], c = in.sizes[1], s = in.sizes[2], reduction = frame.integer("reduction");
  require(n * s != 0, "take no loss of nothing");
  Work work;
  const PartedSums sums(request, reduction != 0 ? 1 : n * s, reduction != 0 ? n * s : 1, dtype_of(in), work);
  for (const int64_t step : sums.steps()) {
    TemplateUse use(request, kNllLossText, "nll_loss");
    use.type('T', dtype_of(in)).choose("WEIGHT", is_there(weight) ? 1 : 0);
    use.choose("REDUCTION", reduction).choose("STEP", step);
    Call call = use.call({4, 0, 3, std::string(13, 'i')},
                         reduction != 0 ? sums.geometry(step != 2) : rows_of(request, n, s, request.language.elements));
    for (const int32_t buffer : {0, 1}) call.give(Call::Memory{buffer});
    sums.give(call);
    for (const int32_t buffer : {2, 3}) call.give(Call::Memory{buffer});
    call.give(memory_or(weight, 2)).give(n).give(c).give(s).give(sums.parts());
    for (const int32_t d : {0, 1, 2}) call.give(in.strides[d]);
    call.give(target.strides[0]).give(target.strides[1]).give(stride_of(frame, weight, 0));
    call.give(out.strides[0]).give(out.strides[1]).give(frame.integer("ignore_index"));
    work.calls.push_back(std::move(call));
  }
  return work;
}

Work plan_nll_loss_backward(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const BoundOperand *grad_in = frame.find("grad_in"), *grad_out = frame.find("grad_out"),
                     *target = frame.find("target"), *weight = frame.find("weight"),
                     *total = frame.find("total_weight");
  const mydev_buffer& sizes = frame.buffer(*grad_in);
  const int64_t n = sizes.sizes[0], c = sizes.sizes[1], s = sizes.sizes[2], reduction = frame.integer("reduction");
  Work work;
  if (n * c * s == 0) return work;
  TemplateUse use(request, kNllLossBackwardText, "nll_loss_backward");
  use.type('T', grad_in->dtype).choose("WEIGHT", is_there(weight) ? 1 : 0).choose("REDUCTION", reduction);
  Call call = use.call({1, 0, 4, "iiiiiiiii"}, rows_of(request, n * c, s, request.language.elements));
  for (const BoundOperand* operand : {grad_in, grad_out, target}) call.give(Call::Memory{operand->buffer});
  call.give(memory_or(weight, total->buffer)).give(Call::Memory{total->buffer}).give(n).give(c).give(s);
  for (const BoundOperand* operand : {grad_out, target}) {
    call.give(stride_of(frame, operand, 0)).give(stride_of(frame, operand, 1));
  }
  work.calls.push_back(call.give(stride_of(frame, weight, 0)).give(frame.integer("ignore_index")));
  return work;
}

}  // namespace mydev::device_kernels
