// LSTM and GRU: whole layers if the CPU has a kernel for these, else cells (recurrent_cells.h).
//
// An LSTM of f32 without projections is one call of the CPU's kernel per layer and direction, as on the CPU. PyTorch
// sends every other LSTM and GRU of an accelerator to fused cells, which its CPU does not have; here they are
// compositions of native ops. If an operand has a tangent, forward-mode differentiation sees these ops themselves.
#include <ATen/ops/_thnn_fused_gru_cell_ops.h>
#include <ATen/ops/_thnn_fused_lstm_cell_ops.h>
#include <ATen/ops/lstm_native.h>
#include <torch/library.h>

#include <algorithm>

#include "aten/host/census.h"
#include "aten/launch/native_launch.h"
#include "aten/ops/linear/recurrent_cells.h"
#include "aten/ops/transformed_tensor.h"

namespace mydev {
namespace {

using at::Tensor;

constexpr int64_t kLstmMode = 2;  // mkldnn_rnn_layer's code for LSTM

bool is_unwrapped_f32(const Tensor& tensor) {
  // No subclass, transformation or tangent: these see the operators that the layer is made of.
  constexpr c10::DispatchKeySet kOrdinary({kDispatchKey, c10::DispatchKey::AutogradPrivateUse1,
                                           c10::DispatchKey::ADInplaceOrView, c10::DispatchKey::AutocastPrivateUse1});
  return on_device(tensor) && tensor.scalar_type() == at::kFloat && tensor.numel() > 0 &&
         (tensor.key_set().raw_repr() & ~kOrdinary.raw_repr()) == 0 && !has_tangent(tensor);
}

// If the CPU's kernels are forbidden, or would cause a warning, cells are used, which need none.
bool has_layer_kernel(const Tensor& input, at::TensorList hx, at::TensorList params) {
  if (fallback_mode() != FallbackMode::kAllow) return false;
  if (input.dim() != 3 || hx.size() != 2 || hx[0].sizes() != hx[1].sizes()) return false;  // others: projections
  const auto fits = [&](const Tensor& tensor) { return is_unwrapped_f32(tensor) && tensor.device() == input.device(); };
  return fits(input) && std::all_of(hx.begin(), hx.end(), fits) && std::all_of(params.begin(), params.end(), fits);
}

std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor& input, at::TensorList hx, at::TensorList params, bool has_biases,
                                        int64_t layers, double dropout, bool train, bool bidirectional,
                                        bool batch_first) {
  const size_t directions = bidirectional ? 2 : 1, per_layer = has_biases ? 4 : 2;
  if (!has_layer_kernel(input, hx, params) || params.size() != static_cast<size_t>(layers) * directions * per_layer) {
    return at::native::lstm(input, hx, params, has_biases, layers, dropout, train, bidirectional, batch_first);
  }
  Tensor sequence = (batch_first ? input.transpose(0, 1) : input).contiguous();
  const Tensor no_bias = has_biases ? Tensor() : at::zeros({params[0].size(0)}, params[0].options());
  std::vector<Tensor> hy, cy;
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<Tensor> outputs;
    for (size_t direction = 0; direction < directions; ++direction) {
      const int64_t index = static_cast<int64_t>(hy.size());
      const Tensor* weights = &params[static_cast<size_t>(index) * per_layer];
      const Tensor &input_bias = has_biases ? weights[2] : no_bias, &hidden_bias = has_biases ? weights[3] : no_bias;
      auto [output, h, c, workspace] = at::mkldnn_rnn_layer(
          sequence, weights[0], weights[1], input_bias, hidden_bias, hx[0][index].contiguous(),
          hx[1][index].contiguous(), /*reverse=*/direction == 1, /*batch_sizes=*/{}, kLstmMode, hx[0].size(2), layers,
          has_biases, bidirectional, batch_first, train || c10::GradMode::is_enabled());
      outputs.push_back(std::move(output));
      hy.push_back(std::move(h));
      cy.push_back(std::move(c));
    }
    sequence = directions == 1 ? outputs[0] : at::cat(outputs, -1);
    if (dropout != 0 && train && layer + 1 < layers) sequence = at::dropout(sequence, dropout, /*train=*/true);
  }
  return {batch_first ? sequence.transpose(0, 1) : sequence, at::stack(hy), at::stack(cy)};
}

// --- cells -----------------------------------------------------------------------------------------------------------

template <typename... Tensors>
bool any_tangent(const OptionalTensor& input_bias, const OptionalTensor& hidden_bias, const Tensors&... tensors) {
  return (has_tangent(tensors) || ...) || (given(input_bias) && has_tangent(*input_bias)) ||
         (given(hidden_bias) && has_tangent(*hidden_bias));
}

std::tuple<Tensor, Tensor, Tensor> differentiable_lstm_cell(c10::DispatchKeySet keys, const Tensor& input_gates,
                                                            const Tensor& hidden_gates, const Tensor& cx,
                                                            const OptionalTensor& input_bias,
                                                            const OptionalTensor& hidden_bias) {
  if (any_tangent(input_bias, hidden_bias, input_gates, hidden_gates, cx)) {
    return lstm_cell<CellForm::kFunctional>(input_gates, hidden_gates, cx, input_bias, hidden_bias);
  }
  return at::_ops::_thnn_fused_lstm_cell::redispatch(with_core_autograd(keys), input_gates, hidden_gates, cx,
                                                     input_bias, hidden_bias);
}

std::tuple<Tensor, Tensor> differentiable_gru_cell(c10::DispatchKeySet keys, const Tensor& input_gates,
                                                   const Tensor& hidden_gates, const Tensor& hx,
                                                   const OptionalTensor& input_bias,
                                                   const OptionalTensor& hidden_bias) {
  if (any_tangent(input_bias, hidden_bias, input_gates, hidden_gates, hx)) {
    return gru_cell<CellForm::kFunctional>(input_gates, hidden_gates, hx, input_bias, hidden_bias);
  }
  return at::_ops::_thnn_fused_gru_cell::redispatch(with_core_autograd(keys), input_gates, hidden_gates, hx, input_bias,
                                                    hidden_bias);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("lstm.input", lstm);
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(differentiable_lstm_cell));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(differentiable_gru_cell));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("lstm.input", lstm);
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(lstm_cell<CellForm::kInPlace>));
  m.impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(lstm_cell_backward<CellForm::kInPlace>));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell<CellForm::kInPlace>));
  m.impl("_thnn_fused_gru_cell_backward", TORCH_FN(gru_cell_backward<CellForm::kInPlace>));
}

}  // namespace
}  // namespace mydev
