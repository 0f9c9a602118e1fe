// Scaled dot-product attention through PyTorch's fused attention of the CPU.
//
// Once a backend answers "overrideable" it owns every shape. So it is chosen exactly where the CPU chooses its own
// fused kernel: 4-D operands of one floating dtype and head size, heads of key and value shared by groups of the
// query's or not, no dropout, a mask that needs no gradient and broadcasts. Everything else takes PyTorch's composition
// of matmul and softmax, as on the CPU. So do, of the fused kernel itself, the batches of vmap, forward-mode
// differentiation, and a gradient that is to be differentiated in its turn.
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_ops.h>
#include <ATen/ops/_scaled_dot_product_fused_attention_overrideable_backward_ops.h>
#include <ATen/ops/_scaled_dot_product_fused_attention_overrideable_ops.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "aten/host/host_op.h"
#include "aten/launch/native_launch.h"
#include "aten/ops/optional_tensor.h"
#include "aten/ops/transformed_tensor.h"

namespace mydev {
namespace {

using at::Tensor;
using AttentionResults = std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;
using AttentionGradients = std::tuple<Tensor, Tensor, Tensor, Tensor>;
using FlashForward = HostOp<at::_ops::_scaled_dot_product_flash_attention_for_cpu>;
using FlashBackward = HostOp<at::_ops::_scaled_dot_product_flash_attention_for_cpu_backward>;

bool is_float_dtype(c10::ScalarType type) {
  constexpr std::array kTypes{at::kFloat, at::kDouble, at::kBFloat16, at::kHalf};
  return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

bool fused_kernel_takes(const sdp::sdp_params& call) {
  const Tensor &query = call.query, &key = call.key, &value = call.value;
  const auto fits = [&](const Tensor& t) {
    return !t.is_nested() && t.scalar_type() == query.scalar_type() && t.dim() == 4 && t.size(-1) == query.size(-1) &&
           t.size(-2) > 0 && t.stride(-1) == 1;
  };
  return at::globalContext().userEnabledFlashSDP() && is_float_dtype(query.scalar_type()) && fits(query) && fits(key) &&
         fits(value) && query.size(-1) > 0 && call.dropout == 0.0 &&
         sdp::check_batch_size_and_num_heads_dense</*supports_gqa=*/true>(call, /*debug=*/false) &&
         sdp::check_attn_mask_shape(call, /*debug=*/false);
}

int64_t choose_attention(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask,
                         double dropout, bool is_causal, std::optional<double> /*scale*/, bool enable_gqa) {
  const sdp::sdp_params call{query, key, value, mask, dropout, is_causal, enable_gqa};
  return static_cast<int64_t>(fused_kernel_takes(call) ? sdp::SDPBackend::overrideable : sdp::SDPBackend::math);
}

AttentionResults attention(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& bias,
                           double dropout, bool is_causal, bool /*return_debug_mask*/, std::optional<double> scale) {
  auto [output, logsumexp] = FlashForward::call(query, key, value, dropout, is_causal, bias, scale);
  // There is no dropout, so no random state either; the schema wants tensors all the same.
  const Tensor no_state = empty_dense({}, at::kLong, query.device());
  return {std::move(output), std::move(logsumexp), Tensor(), Tensor(), query.size(2), key.size(2), no_state, no_state,
          Tensor()};
}

AttentionGradients attention_backward(const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value,
                                      const Tensor& bias, std::array<bool, 4> /*wanted*/, const Tensor& output,
                                      const Tensor& logsumexp, const Tensor& /*cum_seq_q*/, const Tensor& /*cum_seq_k*/,
                                      c10::SymInt /*max_q*/, c10::SymInt /*max_k*/, double dropout, bool is_causal,
                                      const Tensor& /*philox_seed*/, const Tensor& /*philox_offset*/,
                                      std::optional<double> scale) {
  auto [grad_query, grad_key, grad_value] =
      FlashBackward::call(grad, query, key, value, output, logsumexp, dropout, is_causal,
                          bias.defined() ? OptionalTensor(bias) : std::nullopt, scale);
  return {std::move(grad_query), std::move(grad_key), std::move(grad_value), Tensor()};
}

// --- composed
// ---------------------------------------------------------------------------------------------------------

// What attention is made of, in f32 for low precision, as the fused kernel computes it.
struct Composition {
  c10::ScalarType dtype;
  double scale;
  Tensor query, key, value, scores, weights;
};

// Heads of key or value repeated for the queries that share them, and the sum over those.
Tensor repeat_heads(const Tensor& tensor, int64_t heads) {
  return tensor.size(1) == heads ? tensor : tensor.repeat_interleave(heads / tensor.size(1), /*dim=*/1);
}
Tensor sum_over_groups(const Tensor& grad, int64_t heads) {
  return grad.size(1) == heads ? grad : grad.unflatten(1, {heads, grad.size(1) / heads}).sum(2);
}

Composition compose(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& bias, bool is_causal,
                    std::optional<double> scale) {
  const c10::ScalarType dtype = query.scalar_type();
  const c10::ScalarType wide = dtype == at::kDouble ? at::kDouble : at::kFloat;
  Composition made{.dtype = dtype,
                   .scale = scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1)))),
                   .query = query.to(wide),
                   .key = repeat_heads(key.to(wide), query.size(1)),
                   .value = repeat_heads(value.to(wide), query.size(1)),
                   .scores = {},
                   .weights = {}};
  made.scores = at::matmul(made.query, made.key.transpose(-2, -1)) * made.scale;
  if (is_causal) {
    const Tensor seen = at::ones({query.size(-2), key.size(-2)}, query.options().dtype(at::kBool)).tril();
    made.scores = made.scores.masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity());
  }
  if (bias.defined()) made.scores = made.scores + bias.to(wide);
  made.weights = at::_safe_softmax(made.scores, -1);  // a row that is masked throughout is zero
  return made;
}

AttentionResults composed_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const OptionalTensor& bias, double /*dropout*/, bool is_causal,
                                    bool /*return_debug_mask*/, std::optional<double> scale) {
  const Composition made = compose(query, key, value, bias.value_or(Tensor()), is_causal, scale);
  const Tensor no_state = at::empty({}, query.options().dtype(at::kLong));
  return {at::matmul(made.weights, made.value).to(made.dtype),
          at::logsumexp(made.scores, -1),
          Tensor(),
          Tensor(),
          query.size(2),
          key.size(2),
          no_state,
          no_state,
          Tensor()};
}

AttentionGradients composed_attention_backward(const Tensor& given_grad, const Tensor& query, const Tensor& key,
                                               const Tensor& value, const Tensor& bias, std::array<bool, 4> /*wanted*/,
                                               const Tensor& /*output*/, const Tensor& /*logsumexp*/,
                                               const Tensor& /*cum_seq_q*/, const Tensor& /*cum_seq_k*/,
                                               c10::SymInt /*max_q*/, c10::SymInt /*max_k*/, double /*dropout*/,
                                               bool is_causal, const Tensor& /*philox_seed*/,
                                               const Tensor& /*philox_offset*/, std::optional<double> scale) {
  const Composition made = compose(query, key, value, bias, is_causal, scale);
  const Tensor &weights = made.weights, grad = given_grad.to(weights.scalar_type());
  const Tensor grad_weights = at::matmul(grad, made.value.transpose(-2, -1));
  const Tensor centred = grad_weights - (grad_weights * weights).sum(-1, /*keepdim=*/true);
  const Tensor grad_scores = weights * centred * made.scale;
  const Tensor grad_key = at::matmul(grad_scores.transpose(-2, -1), made.query);
  const Tensor grad_value = at::matmul(weights.transpose(-2, -1), grad);
  return {at::matmul(grad_scores, made.key).to(made.dtype), sum_over_groups(grad_key, key.size(1)).to(made.dtype),
          sum_over_groups(grad_value, value.size(1)).to(made.dtype), Tensor()};
}

TORCH_LIBRARY_IMPL(aten, FuncTorchBatchedDecomposition, m) {
  m.impl("_scaled_dot_product_fused_attention_overrideable", TORCH_FN(composed_attention));
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", TORCH_FN(composed_attention_backward));
}

// --- autograd
// ---------------------------------------------------------------------------------------------------------

AttentionResults differentiable_attention(c10::DispatchKeySet keys, const Tensor& query, const Tensor& key,
                                          const Tensor& value, const OptionalTensor& bias, double dropout,
                                          bool is_causal, bool return_debug_mask, std::optional<double> scale) {
  if (has_tangent(query) || has_tangent(key) || has_tangent(value) || has_tangent(bias.value_or(Tensor()))) {
    return composed_attention(query, key, value, bias, dropout, is_causal, return_debug_mask, scale);
  }
  return at::_ops::_scaled_dot_product_fused_attention_overrideable::redispatch(
      with_core_autograd(keys), query, key, value, bias, dropout, is_causal, return_debug_mask, scale);
}

AttentionGradients differentiable_backward(c10::DispatchKeySet keys, const Tensor& grad, const Tensor& query,
                                           const Tensor& key, const Tensor& value, const Tensor& bias,
                                           std::array<bool, 4> wanted, const Tensor& output, const Tensor& logsumexp,
                                           const Tensor& cum_seq_q, const Tensor& cum_seq_k, c10::SymInt max_q,
                                           c10::SymInt max_k, double dropout, bool is_causal, const Tensor& philox_seed,
                                           const Tensor& philox_offset, std::optional<double> scale) {
  const auto operands = {&grad, &query, &key, &value};
  const auto any = [&](const auto& is) {
    return std::any_of(operands.begin(), operands.end(), [&](const Tensor* tensor) { return is(*tensor); });
  };
  const bool as_graph = at::GradMode::is_enabled() && any([](const Tensor& tensor) { return tensor.requires_grad(); });
  if (as_graph || any(has_tangent)) {
    return composed_attention_backward(grad, query, key, value, bias, wanted, output, logsumexp, cum_seq_q, cum_seq_k,
                                       std::move(max_q), std::move(max_k), dropout, is_causal, philox_seed,
                                       philox_offset, scale);
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return at::_ops::_scaled_dot_product_fused_attention_overrideable_backward::redispatch(
      keys & c10::after_autograd_keyset, grad, query, key, value, bias, wanted, output, logsumexp, cum_seq_q, cum_seq_k,
      std::move(max_q), std::move(max_k), dropout, is_causal, philox_seed, philox_offset, scale);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("_scaled_dot_product_fused_attention_overrideable", TORCH_FN(differentiable_attention));
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", TORCH_FN(differentiable_backward));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sdp_choice", TORCH_FN(choose_attention));
  m.impl("_scaled_dot_product_fused_attention_overrideable", TORCH_FN(attention));
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", TORCH_FN(attention_backward));
}

}  // namespace
}  // namespace mydev

// scaled_dot_product_attention asks the stub, not the op.
namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &mydev::choose_attention)
}
