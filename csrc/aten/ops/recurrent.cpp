// LSTM and GRU: whole layers where the CPU has a kernel for these, else cells, forward and backward.
//
// An LSTM of f32 without projections is one call of the CPU's kernel per layer and direction, as on the CPU. PyTorch
// sends every other LSTM and GRU of an accelerator to fused cells, which its CPU does not have; here they are
// compositions of native ops. Gates are stored side by side along dimension 1: an LSTM's as input, forget, cell,
// output; a GRU's as reset, update, new. The workspace that forward hands to backward holds the activated gates (of a
// GRU also the previous state and the hidden part of the new gate).
#include <ATen/Functions.h>
#include <ATen/ops/lstm_native.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "aten/host/census.h"
#include "aten/launch/native_launch.h"

namespace mydev {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

bool given(const OptionalTensor& tensor) {
  return tensor.has_value() && tensor->defined();
}

Tensor with_bias(const Tensor& gates, const OptionalTensor& bias) {
  return given(bias) ? gates + *bias : gates;
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                             const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  const Tensor workspace = with_bias(input_gates, input_bias) + with_bias(hidden_gates, hidden_bias);
  const std::vector<Tensor> gates = workspace.unsafe_chunk(4, 1);
  gates[0].sigmoid_();
  gates[1].sigmoid_();
  gates[2].tanh_();
  gates[3].sigmoid_();
  Tensor cy = at::addcmul(gates[1] * cx, gates[0], gates[2]);
  Tensor hy = gates[3] * cy.tanh();
  return {std::move(hy), std::move(cy), workspace};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const OptionalTensor& grad_hy, const OptionalTensor& grad_cy,
                                                      const Tensor& cx, const Tensor& cy, const Tensor& workspace,
                                                      bool has_bias) {
  if (!given(grad_hy) && !given(grad_cy)) return {};
  const std::vector<Tensor> gates = workspace.unsafe_chunk(4, 1);
  const Tensor &input = gates[0], &forget = gates[1], &cell = gates[2], &output = gates[3];
  Tensor grad_gates = at::empty_like(workspace);
  std::vector<Tensor> grads = grad_gates.unsafe_chunk(4, 1);

  const Tensor tanh_cy = cy.tanh();
  Tensor grad_c;  // of the cell state, through hy and directly
  if (given(grad_hy)) {
    grad_c = at::tanh_backward(*grad_hy * output, tanh_cy);
    if (given(grad_cy)) grad_c = grad_c + *grad_cy;
    at::sigmoid_backward_out(grads[3], *grad_hy * tanh_cy, output);
  } else {
    grad_c = *grad_cy;
    grads[3].zero_();
  }
  at::sigmoid_backward_out(grads[0], grad_c * cell, input);
  at::sigmoid_backward_out(grads[1], grad_c * cx, forget);
  at::tanh_backward_out(grads[2], grad_c * input, cell);
  Tensor grad_bias = has_bias ? grad_gates.sum(0) : Tensor();
  return {std::move(grad_gates), grad_c * forget, std::move(grad_bias)};
}

std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
                                    const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  const std::vector<Tensor> from_input = with_bias(input_gates, input_bias).unsafe_chunk(3, 1);
  const std::vector<Tensor> from_hidden = with_bias(hidden_gates, hidden_bias).unsafe_chunk(3, 1);
  const Tensor reset = (from_input[0] + from_hidden[0]).sigmoid_();
  const Tensor update = (from_input[1] + from_hidden[1]).sigmoid_();
  const Tensor fresh = at::addcmul(from_input[2], reset, from_hidden[2]).tanh_();
  Tensor hy = at::addcmul(fresh, update, hx - fresh);
  return {std::move(hy), at::cat({reset, update, fresh, hx, from_hidden[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy, const Tensor& workspace,
                                                                     bool has_bias) {
  const std::vector<Tensor> saved = workspace.unsafe_chunk(5, 1);
  const Tensor &reset = saved[0], &update = saved[1], &fresh = saved[2], &hx = saved[3], &hidden_new = saved[4];
  const Tensor grad_hx = grad_hy * update;
  const Tensor grad_new = at::tanh_backward(grad_hy - grad_hx, fresh);
  const Tensor grad_update = at::sigmoid_backward(grad_hy * (hx - fresh), update);
  const Tensor grad_reset = at::sigmoid_backward(grad_new * hidden_new, reset);
  Tensor grad_input = at::cat({grad_reset, grad_update, grad_new}, 1);
  Tensor grad_hidden = at::cat({grad_reset, grad_update, grad_new * reset}, 1);
  Tensor grad_input_bias = has_bias ? grad_input.sum(0) : Tensor();
  Tensor grad_hidden_bias = has_bias ? grad_hidden.sum(0) : Tensor();
  return {std::move(grad_input), std::move(grad_hidden), grad_hx, std::move(grad_input_bias),
          std::move(grad_hidden_bias)};
}

// --- whole layers ----------------------------------------------------------------------------------------------------

constexpr int64_t kLstmMode = 2;  // of mkldnn_rnn_layer

bool is_plain_f32(const Tensor& tensor) {
  // No subclass, transformation or tangent: these see the operators that the layer is made of.
  constexpr c10::DispatchKeySet kPlain({kDispatchKey, c10::DispatchKey::AutogradPrivateUse1,
                                        c10::DispatchKey::ADInplaceOrView, c10::DispatchKey::AutocastPrivateUse1});
  return on_device(tensor) && tensor.scalar_type() == at::kFloat && tensor.numel() > 0 &&
         (tensor.key_set().raw_repr() & ~kPlain.raw_repr()) == 0 && !tensor._fw_grad(/*level=*/0).defined();
}

// Where the CPU's kernels are forbidden, or would be warned of, cells do without.
bool has_layer_kernel(const Tensor& input, at::TensorList hx, at::TensorList params) {
  if (fallback_mode() != FallbackMode::kAllow) return false;
  if (input.dim() != 3 || hx.size() != 2 || hx[0].sizes() != hx[1].sizes()) return false;  // others: projections
  const auto fits = [&](const Tensor& tensor) { return is_plain_f32(tensor) && tensor.device() == input.device(); };
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

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("lstm.input", lstm);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("lstm.input", lstm);
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(lstm_cell));
  m.impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(lstm_cell_backward));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell));
  m.impl("_thnn_fused_gru_cell_backward", TORCH_FN(gru_cell_backward));
}

}  // namespace
}  // namespace mydev
