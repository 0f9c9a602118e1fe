// Scaled dot-product attention through PyTorch's fused attention of the CPU.
//
// Once a backend answers "overrideable" it owns every shape. So it is chosen exactly where the CPU chooses its own
// fused kernel: 4-D operands of one floating dtype and head size, no dropout, a mask that needs no gradient and
// broadcasts, no grouped heads. Everything else takes PyTorch's composition of matmul and softmax, as on the CPU.
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward_ops.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_ops.h>
#include <torch/library.h>

#include <algorithm>
#include <array>

#include "aten/host/host_op.h"
#include "aten/launch/native_launch.h"
#include "aten/ops/optional_tensor.h"

namespace mydev {
namespace {

using at::Tensor;
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
         sdp::check_batch_size_and_num_heads_dense</*supports_gqa=*/false>(call, /*debug=*/false) &&
         sdp::check_attn_mask_shape(call, /*debug=*/false);
}

int64_t choose_attention(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask,
                         double dropout, bool is_causal, std::optional<double> /*scale*/, bool enable_gqa) {
  const sdp::sdp_params call{query, key, value, mask, dropout, is_causal, enable_gqa};
  return static_cast<int64_t>(fused_kernel_takes(call) ? sdp::SDPBackend::overrideable : sdp::SDPBackend::math);
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> attention(
    const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& bias, double dropout,
    bool is_causal, bool /*return_debug_mask*/, std::optional<double> scale) {
  auto [output, logsumexp] = FlashForward::call(query, key, value, dropout, is_causal, bias, scale);
  // There is no dropout, so no random state either; the schema wants tensors all the same.
  const Tensor no_state = empty_dense({}, at::kLong, query.device());
  return {std::move(output), std::move(logsumexp), Tensor(), Tensor(), query.size(2), key.size(2), no_state, no_state,
          Tensor()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> attention_backward(
    const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& bias,
    std::array<bool, 4> /*wanted*/, const Tensor& output, const Tensor& logsumexp, const Tensor& /*cum_seq_q*/,
    const Tensor& /*cum_seq_k*/, c10::SymInt /*max_q*/, c10::SymInt /*max_k*/, double dropout, bool is_causal,
    const Tensor& /*philox_seed*/, const Tensor& /*philox_offset*/, std::optional<double> scale) {
  auto [grad_query, grad_key, grad_value] =
      FlashBackward::call(grad, query, key, value, output, logsumexp, dropout, is_causal,
                          bias.defined() ? OptionalTensor(bias) : std::nullopt, scale);
  return {std::move(grad_query), std::move(grad_key), std::move(grad_value), Tensor()};
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
