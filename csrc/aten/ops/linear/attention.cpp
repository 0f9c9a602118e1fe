// Scaled dot-product attention as one operator: by mydev.attention, or where there is none, and no dropout, by
// PyTorch's fused attention of the CPU.
//
// Once a backend answers "overrideable" it owns every shape. So it is chosen exactly where the CPU chooses its own
// fused kernel. Operands are then 4-D, of one floating dtype and head size; heads of key and value may be shared by
// groups of the query's. A mask needs no gradient, and broadcasts. With dropout it is chosen where there are kernels
// for it and nothing is traced or transformed. Everything else takes PyTorch's composition of matmul and softmax, as on
// the CPU. So do calls of the fused kernel itself for the batches of vmap, for forward-mode differentiation, and for a
// gradient that is to be differentiated in its turn.
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

#include "aten/device/generator.h"
#include "aten/host/native_or_host.h"
#include "aten/ops/optional_tensor.h"
#include "aten/ops/transformed_tensor.h"

namespace mydev {
namespace {

using at::Tensor;
using AttentionResults = std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;
using AttentionGradients = std::tuple<Tensor, Tensor, Tensor, Tensor>;
using FlashForward = HostOp<at::_ops::_scaled_dot_product_flash_attention_for_cpu>;
using FlashBackward = HostOp<at::_ops::_scaled_dot_product_flash_attention_for_cpu_backward>;

KernelRef attention_kernel("mydev.attention", policy::kDraws);
KernelRef attention_backward_kernel("mydev.attention_backward", policy::kDraws);
KernelRef dropout_mask_kernel("mydev.random_bernoulli", policy::kDraws);

// --- choice ----------------------------------------------------------------------------------------------------------

bool takes_dropout(const sdp::sdp_params& call) {
  const c10::DeviceIndex device = call.query.device().index();
  const auto is_plain = [](const Tensor& tensor) {
    return !is_transformed(tensor) && !has_tangent(tensor) && !tensor.key_set().has(c10::DispatchKey::Python);
  };
  return call.dropout > 0 && call.dropout <= 1 && device >= 0 && is_plain(call.query) && is_plain(call.key) &&
         is_plain(call.value) && attention_kernel.on(device) != nullptr &&
         attention_backward_kernel.on(device) != nullptr && dropout_mask_kernel.on(device) != nullptr;
}

bool fused_kernel_takes(const sdp::sdp_params& call) {
  const Tensor &query = call.query, &key = call.key, &value = call.value;
  const auto fits = [&](const Tensor& t) {
    return !t.is_nested() && t.scalar_type() == query.scalar_type() && t.dim() == 4 && t.size(-1) == query.size(-1) &&
           t.size(-2) > 0 && t.stride(-1) == 1;
  };
  return at::globalContext().userEnabledFlashSDP() && is_real_float(query.scalar_type()) && fits(query) && fits(key) &&
         fits(value) && query.size(-1) > 0 && (call.dropout == 0.0 || takes_dropout(call)) &&
         sdp::check_batch_size_and_num_heads_dense</*supports_gqa=*/true>(call, /*debug=*/false) &&
         sdp::check_attn_mask_shape(call, /*debug=*/false);
}

int64_t choose_attention(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask,
                         double dropout, bool is_causal, std::optional<double> /*scale*/, bool enable_gqa) {
  const sdp::sdp_params call{query, key, value, mask, dropout, is_causal, enable_gqa};
  return static_cast<int64_t>(fused_kernel_takes(call) ? sdp::SDPBackend::overrideable : sdp::SDPBackend::math);
}

// --- dropout ---------------------------------------------------------------------------------------------------------

// The beginning of the random numbers of dropout, as tensors of the device. Without dropout nothing reads them, but the
// schema wants them all the same.
struct RandomState {
  Tensor seed, offset;
  RandomDraw draw;  // the same, where it was reserved just now
};

int64_t blocks_per_row(int64_t keys) {
  return (keys + 3) / 4;
}

RandomState random_state(const Tensor& query, int64_t keys, double dropout) {
  const auto options = query.options().dtype(at::kLong);
  if (dropout == 0) {
    const Tensor none = at::empty({}, options);
    return {none, none, {}};
  }
  const int64_t rows = query.size(0) * query.size(1) * query.size(2);
  RandomDraw draw =
      reserve_random(std::nullopt, query.device().index(), static_cast<uint64_t>(rows * blocks_per_row(keys)));
  const auto first_offset = static_cast<int64_t>(draw.first.offset);
  if (draw.state.defined()) {
    Tensor seed = draw.state.select(0, 0).clone(), offset = draw.state.select(0, 1).add(first_offset);
    return {std::move(seed), std::move(offset), std::move(draw)};
  }
  return {at::full({}, static_cast<int64_t>(draw.first.seed), options), at::full({}, first_offset, options),
          std::move(draw)};
}

// Returns the factors that the kernel multiplies the weights by: 0 or 1 / (1 - dropout).
Tensor dropout_factors(const Tensor& query, int64_t keys, double dropout, const RandomState& state) {
  const Launchable* kernel = dropout_mask_kernel.on(query.device().index());
  TORCH_CHECK_NOT_IMPLEMENTED(kernel != nullptr, "attention with dropout needs the kernel ", dropout_mask_kernel.name(),
                              ", which device ", query.device(), " does not have");
  const Tensor kept = empty_dense({query.size(0), query.size(1), query.size(2), 4 * blocks_per_row(keys)},
                                  query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat, query.device());
  const Tensor first = at::stack({state.seed, state.offset});
  OpFrame<2> frame;
  frame.add(kept)
      .add(first)
      .attribute(int_attribute("seed", 0))
      .attribute(int_attribute("offset", 0))
      .attribute(float_attribute("p", 1 - dropout))
      .attribute(float_attribute("unused", 0));
  frame.launch(*kernel, 1);
  return kept.narrow(-1, 0, keys) * (dropout < 1 ? 1 / (1 - dropout) : 0.0);
}

// --- launches --------------------------------------------------------------------------------------------------------

double scale_of(const Tensor& query, std::optional<double> scale) {
  return scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1))));
}

// Returns a tensor [batch, heads, rows, width] in which the heads of a row lie side by side, as the CPU lays gradients
// out.
Tensor empty_rows_of_heads(c10::IntArrayRef sizes, c10::ScalarType dtype, c10::Device device) {
  const int64_t heads = sizes[1], rows = sizes[2], width = sizes.size() > 3 ? sizes[3] : 1;
  const std::array<int64_t, 4> strides = {rows * heads * width, width, heads * width, 1};
  return empty_strided_on(sizes, c10::IntArrayRef(strides.data(), sizes.size()), dtype, device);
}

bool can_launch(const Tensor& query, const Tensor& key, const Tensor& value) {
  const auto fits = [&](const Tensor& tensor, int64_t heads) {
    return on_device(tensor) && tensor.device() == query.device() && tensor.scalar_type() == query.scalar_type() &&
           tensor.dim() == 4 && tensor.numel() > 0 && tensor.size(0) == query.size(0) && tensor.size(1) == heads;
  };
  return query.dim() == 4 && fits(query, query.size(1)) && key.dim() == 4 && fits(key, key.size(1)) &&
         fits(value, key.size(1)) && key.size(2) == value.size(2) && key.size(3) == query.size(3) &&
         query.size(1) % key.size(1) == 0;
}

// The mask for each head and query, undefined for none; empty: the kernels do not take it.
std::optional<Tensor> whole_mask(const OptionalTensor& mask, const Tensor& query, const Tensor& key) {
  if (!given(mask)) return Tensor();
  const c10::ScalarType dtype = mask->scalar_type();
  const bool known = dtype == query.scalar_type() || dtype == at::kFloat || dtype == at::kBool;
  const std::array<int64_t, 4> sizes = {query.size(0), query.size(1), query.size(2), key.size(2)};
  if (!on_device(*mask) || mask->device() != query.device() || !known || !at::is_expandable_to(mask->sizes(), sizes)) {
    return std::nullopt;
  }
  return mask->expand(sizes);
}

std::optional<std::tuple<Tensor, Tensor>> launch_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                                           const OptionalTensor& bias, double dropout, bool is_causal,
                                                           std::optional<double> scale, const RandomState& state) {
  if (!can_launch(query, key, value)) return std::nullopt;
  const Launchable* kernel = attention_kernel.for_operand(query);
  const std::optional<Tensor> mask = whole_mask(bias, query, key);
  if (kernel == nullptr || !mask.has_value()) return std::nullopt;
  const c10::ScalarType wide = query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  Tensor out = value.size(3) == query.size(3)
                   ? empty_laid_out_as(query, query.scalar_type())
                   : empty_dense({query.size(0), query.size(1), query.size(2), value.size(3)}, query);
  Tensor logsumexp = empty_dense(query.sizes().slice(0, 3), wide, query.device());  // as compilers are told
  OpFrame<7, 5> frame;
  frame.add(out)
      .add(logsumexp)
      .add(query)
      .add(key)
      .add(value)
      .add_optional(*mask, to_frame_dtype(query.scalar_type()))
      .attribute(bool_attribute("is_causal", is_causal))
      .attribute(float_attribute("scale", scale_of(query, scale)))
      .attribute(float_attribute("dropout", dropout))
      .attribute(int_attribute("seed", static_cast<int64_t>(state.draw.first.seed)))
      .attribute(int_attribute("offset", static_cast<int64_t>(state.draw.first.offset)));
  if (state.draw.state.defined()) frame.add(state.draw.state);
  frame.launch(*kernel, 2);
  return std::tuple(std::move(out), std::move(logsumexp));
}

using KernelGradients = std::tuple<Tensor, Tensor, Tensor>;

// Returns gradients laid out as those of the CPU's fused kernel; with dropout, as those of the CPU's composition, in
// which the gradient of the key is that of a transposed operand.
KernelGradients empty_gradients(const Tensor& query, const Tensor& key, const Tensor& value, double dropout) {
  const auto by_rows = [](const Tensor& tensor) {
    return empty_rows_of_heads(tensor.sizes(), tensor.scalar_type(), tensor.device());
  };
  if (dropout == 0) return {by_rows(query), by_rows(key), by_rows(value)};
  const int64_t rows = key.size(2), width = key.size(3);
  const std::array<int64_t, 4> strides = {key.size(1) * rows * width, rows * width, 1, rows};
  return {empty_dense(query.sizes(), query), empty_strided_on(key.sizes(), strides, key.scalar_type(), key.device()),
          empty_dense(value.sizes(), value)};
}

std::optional<KernelGradients> launch_backward(const Tensor& grad, const Tensor& query, const Tensor& key,
                                               const Tensor& value, const OptionalTensor& bias, const Tensor& output,
                                               const Tensor& logsumexp, double dropout, bool is_causal,
                                               std::optional<double> scale, const RandomState& state) {
  if (!can_launch(query, key, value) || grad.sizes() != output.sizes() || output.scalar_type() != query.scalar_type() ||
      grad.scalar_type() != query.scalar_type()) {
    return std::nullopt;
  }
  const Launchable* kernel = attention_backward_kernel.for_operand(query);
  const std::optional<Tensor> mask = whole_mask(bias, query, key);
  if (kernel == nullptr || !mask.has_value()) return std::nullopt;
  KernelGradients gradients = empty_gradients(query, key, value, dropout);
  OpFrame<12, 3> frame;
  frame.add(std::get<0>(gradients)).add(std::get<1>(gradients)).add(std::get<2>(gradients));
  frame.add(grad).add(query).add(key).add(value).add(output).add(logsumexp);
  frame.add_optional(*mask, to_frame_dtype(query.scalar_type()));
  for (const Tensor* number : {&state.seed, &state.offset}) {
    dropout > 0 ? frame.add(*number) : frame.add_absent(MYDEV_S64);
  }
  frame.attribute(bool_attribute("is_causal", is_causal))
      .attribute(float_attribute("scale", scale_of(query, scale)))
      .attribute(float_attribute("dropout", dropout));
  frame.launch(*kernel, 3);
  return gradients;
}

// --- composed --------------------------------------------------------------------------------------------------------

// The tensors that attention is made of, in f32 for low precision, as the fused kernel computes it.
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

Composition compose_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& bias,
                              bool is_causal, std::optional<double> scale) {
  const c10::ScalarType dtype = query.scalar_type();
  const c10::ScalarType wide = dtype == at::kDouble ? at::kDouble : at::kFloat;
  Composition made{.dtype = dtype,
                   .scale = scale_of(query, scale),
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
                                    const OptionalTensor& bias, double dropout, bool is_causal,
                                    bool /*return_debug_mask*/, std::optional<double> scale) {
  const Composition made = compose_attention(query, key, value, bias.value_or(Tensor()), is_causal, scale);
  const RandomState state = random_state(query, key.size(2), dropout);
  const Tensor weights =
      dropout > 0 ? made.weights * dropout_factors(query, key.size(2), dropout, state) : made.weights;
  return {at::matmul(weights, made.value).to(made.dtype),
          at::logsumexp(made.scores, -1),
          Tensor(),
          Tensor(),
          query.size(2),
          key.size(2),
          state.seed,
          state.offset,
          Tensor()};
}

AttentionGradients composed_attention_backward(const Tensor& given_grad, const Tensor& query, const Tensor& key,
                                               const Tensor& value, const Tensor& bias, std::array<bool, 4> /*wanted*/,
                                               const Tensor& /*output*/, const Tensor& /*logsumexp*/,
                                               const Tensor& /*cum_seq_q*/, const Tensor& /*cum_seq_k*/,
                                               c10::SymInt /*max_q*/, c10::SymInt /*max_k*/, double dropout,
                                               bool is_causal, const Tensor& philox_seed, const Tensor& philox_offset,
                                               std::optional<double> scale) {
  const Composition made = compose_attention(query, key, value, bias, is_causal, scale);
  const Tensor &weights = made.weights, grad = given_grad.to(weights.scalar_type());
  const Tensor factors =
      dropout > 0 ? dropout_factors(query, key.size(2), dropout, {philox_seed, philox_offset, {}}) : Tensor();
  const auto dropped = [&](const Tensor& tensor) { return factors.defined() ? tensor * factors : tensor; };
  const Tensor grad_weights = dropped(at::matmul(grad, made.value.transpose(-2, -1)));
  const Tensor centred = grad_weights - (grad_weights * weights).sum(-1, /*keepdim=*/true);
  const Tensor grad_scores = weights * centred * made.scale;
  // With dropout it is laid out as by the CPU's composition.
  const Tensor grad_key = dropout > 0 ? at::matmul(made.query.transpose(-2, -1), grad_scores).transpose(-2, -1)
                                      : at::matmul(grad_scores.transpose(-2, -1), made.query);
  const Tensor grad_value = at::matmul(dropped(weights).transpose(-2, -1), grad);
  return {at::matmul(grad_scores, made.key).to(made.dtype), sum_over_groups(grad_key, key.size(1)).to(made.dtype),
          sum_over_groups(grad_value, value.size(1)).to(made.dtype), Tensor()};
}

TORCH_LIBRARY_IMPL(aten, FuncTorchBatchedDecomposition, m) {
  m.impl("_scaled_dot_product_fused_attention_overrideable", TORCH_FN(composed_attention));
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", TORCH_FN(composed_attention_backward));
}

// --- operators -------------------------------------------------------------------------------------------------------

AttentionResults attention(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& bias,
                           double dropout, bool is_causal, bool return_debug_mask, std::optional<double> scale) {
  const RandomState state = random_state(query, key.size(2), dropout);
  auto launched = try_kernels<at::_ops::_scaled_dot_product_fused_attention_overrideable>(
      [&] { return launch_attention(query, key, value, bias, dropout, is_causal, scale, state); });
  if (!launched.has_value() && dropout > 0) {
    return composed_attention(query, key, value, bias, dropout, is_causal, return_debug_mask, scale);
  }
  auto [output, logsumexp] = launched.has_value()
                                 ? *std::move(launched)
                                 : FlashForward::call(query, key, value, dropout, is_causal, bias, scale);
  return {std::move(output), logsumexp.contiguous(), Tensor(), Tensor(), query.size(2), key.size(2),
          state.seed,        state.offset,           Tensor()};
}

AttentionGradients attention_backward(const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value,
                                      const Tensor& bias, std::array<bool, 4> wanted, const Tensor& output,
                                      const Tensor& logsumexp, const Tensor& cum_seq_q, const Tensor& cum_seq_k,
                                      c10::SymInt max_q, c10::SymInt max_k, double dropout, bool is_causal,
                                      const Tensor& philox_seed, const Tensor& philox_offset,
                                      std::optional<double> scale) {
  const OptionalTensor mask = bias.defined() ? OptionalTensor(bias) : std::nullopt;
  auto launched = try_kernels<at::_ops::_scaled_dot_product_fused_attention_overrideable_backward>([&] {
    return launch_backward(grad, query, key, value, mask, output, logsumexp, dropout, is_causal, scale,
                           {philox_seed, philox_offset, {}});
  });
  if (!launched.has_value() && dropout > 0) {
    return composed_attention_backward(grad, query, key, value, bias, wanted, output, logsumexp, cum_seq_q, cum_seq_k,
                                       std::move(max_q), std::move(max_k), dropout, is_causal, philox_seed,
                                       philox_offset, scale);
  }
  auto [grad_query, grad_key, grad_value] =
      launched.has_value()
          ? *std::move(launched)
          : FlashBackward::call(grad, query, key, value, output, logsumexp, dropout, is_causal, mask, scale);
  return {std::move(grad_query), std::move(grad_key), std::move(grad_value), Tensor()};
}

// --- autograd --------------------------------------------------------------------------------------------------------

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
  if (!grad.defined()) return {};
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
