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

// Adds the call of `use`, which gives gradients that are sums over m rows of n columns, of the type R. On GPUs the rows
// are parted, and the parts' sums are in scratch: one array behind the other.
void add_column_sums(const Request& request, const BoundFrame& frame, TemplateUse& use, int64_t m, int64_t n,
                     mydev_dtype dtype, std::initializer_list<const char*> gradients, Work& work) {
  const uint32_t block = request.language.block;
  const int64_t parts = parts_of(request, (n + block - 1) / block, m, 1);
  const mydev_dtype sum = parts == 1 ? dtype : sum_dtype(domain_of(dtype));
  std::vector<Call> of_parts;
  uint64_t end = 0;
  for (const char* name : gradients) {
    if (parts == 1) break;
    const Call::Memory sums{.offset = end};
    const BoundOperand* gradient = frame.find(name);
    end += static_cast<uint64_t>(parts * n * dtype_size(sum));
    use.place(name, sums);
    if (!is_there(gradient)) continue;
    of_parts.push_back(sum_of_parts(request, Call::Memory{gradient->buffer}, dtype, sums, n, parts));
  }
  use.type('R', sum);
  work.calls.emplace_back(use.call(frame, rows_of(request, parts, n, block))).give(m).give(n).give(parts);
  work.calls.insert(work.calls.end(), of_parts.begin(), of_parts.end());
  work.scratch_bytes = std::max(work.scratch_bytes, end);
}

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
  mydev_geometry geometry(bool by_parts) const { return groups(request_, results_ * (by_parts ? parts_ : 1)); }
  // Says which memory the parameters of both sums have.
  void place(TemplateUse& use, const char* first, const char* second) const {
    if (parts_ != 1) use.place(first, sums_[0]).place(second, sums_[1]);
  }

 private:
  const Request& request_;
  int64_t results_, parts_;
  std::vector<int64_t> steps_ = {0};
  std::array<Call::Memory, 2> sums_;
};

// Softmax, or its gradient, of rows along the second of three dimensions.
Work plan_rows(const Request& request, const char* text, const char* name) {
  const mydev_buffer& first = request.buffer(1);
  const int64_t o = first.sizes[0], d = first.sizes[1], n = first.sizes[2];
  Work work;
  if (o * d * n == 0) return work;
  TemplateUse use(request, text, name);
  use.type('T', dtype_of(first));
  use.choose("LOG", std::string_view(request.frame.kernel->name).starts_with("mydev.log"));
  const BoundFrame frame(contract_of(request), request.frame);
  work.calls.emplace_back(use.call(frame, groups(request, o * n))).give(o).give(d).give(n);
  return work;
}

}  // namespace

Work plan_softmax(const Request& request) {
  return plan_rows(request, kSoftmaxText, "softmax");
}

Work plan_softmax_backward(const Request& request) {
  return plan_rows(request, kSoftmaxBackwardText, "softmax_backward");
}

Work plan_layer_norm(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const mydev_buffer& in = request.buffer(3);
  const int64_t m = in.sizes[0], n = in.sizes[1];
  Work work;
  if (m == 0) return work;
  TemplateUse use(request, kLayerNormText, "layer_norm");
  use.type('T', dtype_of(in)).type('S', dtype_of(request.buffer(1)));
  use.choose("WEIGHT", frame.has("weight")).choose("BIAS", frame.has("bias"));
  Call& call = work.calls.emplace_back(use.call(frame, groups(request, m)));
  use.give_number(call.give(m).give(n), frame.number("eps"));
  return work;
}

Work plan_layer_norm_backward(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const BoundOperand *in = frame.find("in"), *mean = frame.find("mean");
  const int64_t m = frame.buffer(*in).sizes[0], n = frame.buffer(*in).sizes[1];
  const bool has_weight = frame.has("grad_weight"), has_bias = frame.has("grad_bias");
  Work work;
  if (frame.has("grad_in") && m * n != 0) {
    TemplateUse use(request, kLayerNormBackwardText, "layer_norm_backward");
    use.type('T', in->dtype).type('S', mean->dtype).choose("WEIGHT", frame.has("weight"));
    work.calls.emplace_back(use.call(frame, groups(request, m))).give(m).give(n);
  }
  if ((has_weight || has_bias) && n != 0) {
    TemplateUse use(request, kLayerNormParametersText, "layer_norm_parameters");
    use.type('T', in->dtype).type('S', mean->dtype).choose("WEIGHT", has_weight).choose("BIAS", has_bias);
    add_column_sums(request, frame, use, m, n, mean->dtype, {"grad_weight", "grad_bias"}, work);
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
  Work work;
  if (in.sizes[0] * in.sizes[1] == 0) return work;
  TemplateUse use(request, kGroupNormText, "group_norm");
  use.type('T', dtype_of(in)).type('S', dtype_of(request.buffer(1)));
  use.choose("WEIGHT", frame.has("weight")).choose("BIAS", frame.has("bias"));
  Call& call = work.calls.emplace_back(use.call(frame, groups(request, in.sizes[0] * in.sizes[1])));
  give_shape(call, in);
  give_strides(call, out);
  give_strides(call, in);
  use.give_number(call, frame.number("eps"));
  return work;
}

Work plan_group_norm_backward(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const BoundOperand *grad_in = frame.find("grad_in"), *in = frame.find("in"), *mean = frame.find("mean");
  const mydev_buffer &elements = frame.buffer(*in), &grads = frame.buffer(*frame.find("grad_out"));
  const int64_t rows = elements.sizes[0] * elements.sizes[1], channels = elements.sizes[1] * elements.sizes[2];
  const bool has_weight = frame.has("grad_weight"), has_bias = frame.has("grad_bias");
  Work work;
  if (is_there(grad_in) && rows * elements.sizes[2] * elements.sizes[3] != 0) {
    TemplateUse use(request, kGroupNormBackwardText, "group_norm_backward");
    if (request.language.f64) use.compute_in(Domain::kF64);  // its sums cancel each other
    use.type('T', in->dtype).type('S', mean->dtype).choose("WEIGHT", frame.has("weight"));
    Call& call = work.calls.emplace_back(use.call(frame, groups(request, rows)));
    give_shape(call, elements);
    give_strides(call, frame.buffer(*grad_in));
    give_strides(call, grads);
    give_strides(call, elements);
  }
  if ((has_weight || has_bias) && channels != 0) {
    TemplateUse use(request, kGroupNormParametersText, "group_norm_parameters");
    if (request.language.f64) use.compute_in(Domain::kF64);
    use.type('T', in->dtype).type('S', mean->dtype).choose("WEIGHT", has_weight).choose("BIAS", has_bias);
    use.choose("BY_ROW", request.language.gpu && elements.sizes[3] >= request.language.lanes);
    Call& call = work.calls.emplace_back(use.call(frame, groups(request, channels)));
    give_shape(call, elements);
    give_strides(call, grads);
    give_strides(call, elements);
  }
  return work;
}

Work plan_batch_norm(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const BoundOperand* in = frame.find("in");
  const mydev_buffer& sizes = frame.buffer(*in);
  const int64_t n = sizes.sizes[0], c = sizes.sizes[1], s = sizes.sizes[2];
  Work work;
  if (c == 0) return work;
  const PartedSums sums(request, c, n * s, in->dtype, work);
  for (const int64_t step : sums.steps()) {
    TemplateUse use(request, kBatchNormText, "batch_norm");
    use.type('T', in->dtype).type('S', dtype_of(request.buffer(1))).choose("STEP", step);
    use.choose("WEIGHT", frame.has("weight")).choose("BIAS", frame.has("bias"));
    use.choose("RUNNING_MEAN", frame.has("running_mean")).choose("RUNNING_VAR", frame.has("running_var"));
    use.choose("BY_IMAGE", s >= request.language.lanes);
    sums.place(use, "part_means", "part_squares");
    Call& call = work.calls.emplace_back(use.call(frame, sums.geometry(true)));
    use.give_number(call.give(n).give(c).give(s).give(sums.parts()), frame.number("momentum"));
    use.give_number(call, frame.number("eps"));
  }
  return work;
}

Work plan_batch_norm_inference(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const BoundOperand* in = frame.find("in");
  const mydev_buffer& sizes = frame.buffer(*in);
  const int64_t n = sizes.sizes[0], c = sizes.sizes[1], s = sizes.sizes[2];
  Work work;
  if (n * c * s == 0) return work;
  TemplateUse use(request, kBatchNormInferenceText, "batch_norm_inference");
  use.type('T', in->dtype).type('S', frame.find("running_mean")->dtype);
  use.choose("WEIGHT", frame.has("weight")).choose("BIAS", frame.has("bias"));
  Call& call = work.calls.emplace_back(use.call(frame, rows_of(request, n * c, s, request.language.elements)));
  use.give_number(call.give(n).give(c).give(s), frame.number("eps"));
  return work;
}

Work plan_batch_norm_backward(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const BoundOperand* in = frame.find("in");
  const mydev_buffer& sizes = frame.buffer(*in);
  const int64_t n = sizes.sizes[0], c = sizes.sizes[1], s = sizes.sizes[2];
  const bool has_in = frame.has("grad_in"), has_weight = frame.has("grad_weight"), has_bias = frame.has("grad_bias");
  Work work;
  if (c == 0 || !(has_in || has_weight || has_bias)) return work;
  const PartedSums sums(request, c, n * s, in->dtype, work);
  for (const int64_t step : sums.steps()) {
    TemplateUse use(request, kBatchNormBackwardText, "batch_norm_backward");
    use.type('T', in->dtype).type('S', frame.find("mean")->dtype).type('G', frame.find("grad_out")->dtype);
    use.choose("TRAINING", frame.integer("training")).choose("WEIGHT", frame.has("weight")).choose("STEP", step);
    use.choose("GRAD_IN", has_in).choose("GRAD_WEIGHT", has_weight).choose("GRAD_BIAS", has_bias);
    use.choose("BY_IMAGE", s >= request.language.lanes);
    sums.place(use, "part_grads", "part_products");
    Call& call = work.calls.emplace_back(use.call(frame, sums.geometry(step != 2 || has_in)));
    use.give_number(call.give(n).give(c).give(s).give(sums.parts()), frame.number("eps"));
  }
  return work;
}

Work plan_rms_norm(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const BoundOperand* x = frame.find("x");
  const int64_t m = frame.buffer(*x).sizes[0], n = frame.buffer(*x).sizes[1];
  Work work;
  if (m == 0) return work;
  TemplateUse use(request, kRmsNormText, "rms_norm");
  use.type('T', x->dtype).choose("WEIGHT", frame.has("weight"));
  Call& call = work.calls.emplace_back(use.call(frame, groups(request, m)));
  use.give_number(call.give(m).give(n), frame.number("eps"));
  return work;
}

Work plan_rms_norm_backward(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const BoundOperand* x = frame.find("x");
  const int64_t m = frame.buffer(*x).sizes[0], n = frame.buffer(*x).sizes[1];
  Work work;
  if (m * n != 0) {
    TemplateUse use(request, kRmsNormBackwardText, "rms_norm_backward");
    use.type('T', x->dtype).choose("WEIGHT", frame.has("weight"));
    work.calls.emplace_back(use.call(frame, groups(request, m))).give(m).give(n);
  }
  if (frame.has("grad_weight") && n != 0) {
    TemplateUse use(request, kRmsNormWeightText, "rms_norm_weight");
    add_column_sums(request, frame, use.type('T', x->dtype), m, n, x->dtype, {"grad_weight"}, work);
  }
  return work;
}

Work plan_nll_loss(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const mydev_buffer &out = request.buffer(0), &in = request.buffer(2), &target = request.buffer(3);
  const int64_t n = in.sizes[0], c = in.sizes[1], s = in.sizes[2], reduction = frame.integer("reduction");
  require(n * s != 0, "take no loss of nothing");
  Work work;
  const PartedSums sums(request, reduction != 0 ? 1 : n * s, reduction != 0 ? n * s : 1, dtype_of(in), work);
  for (const int64_t step : sums.steps()) {
    TemplateUse use(request, kNllLossText, "nll_loss");
    use.type('T', dtype_of(in))
        .choose("WEIGHT", frame.has("weight"))
        .choose("REDUCTION", reduction)
        .choose("STEP", step);
    sums.place(use, "part_losses", "part_weights");
    Call& call = work.calls.emplace_back(
        use.call(frame, reduction != 0 ? sums.geometry(step != 2) : rows_of(request, n, s, request.language.elements)));
    call.give(n).give(c).give(s).give(sums.parts());
    for (const int32_t d : {0, 1, 2}) call.give(in.strides[d]);
    call.give(target.strides[0]).give(target.strides[1]).give(frame.stride("weight", 0));
    call.give(out.strides[0]).give(out.strides[1]).give(frame.integer("ignore_index"));
  }
  return work;
}

Work plan_nll_loss_backward(const Request& request) {
  const BoundFrame frame(contract_of(request), request.frame);
  const BoundOperand* grad_in = frame.find("grad_in");
  const mydev_buffer& sizes = frame.buffer(*grad_in);
  const int64_t n = sizes.sizes[0], c = sizes.sizes[1], s = sizes.sizes[2], reduction = frame.integer("reduction");
  Work work;
  if (n * c * s == 0) return work;
  TemplateUse use(request, kNllLossBackwardText, "nll_loss_backward");
  use.type('T', grad_in->dtype).choose("WEIGHT", frame.has("weight")).choose("REDUCTION", reduction);
  Call& call = work.calls.emplace_back(use.call(frame, rows_of(request, n * c, s, request.language.elements)));
  call.give(n).give(c).give(s);
  for (const char* name : {"grad_out", "target"}) call.give(frame.stride(name, 0)).give(frame.stride(name, 1));
  call.give(frame.stride("weight", 0)).give(frame.integer("ignore_index"));
  return work;
}

}  // namespace mydev::device_kernels
