// Cells of LSTM and GRU, forward and backward.
//
// PyTorch sends every LSTM and GRU of an accelerator to these fused cells, which its CPU does not have; here they are
// compositions of native ops. Gates are stored side by side along dimension 1: an LSTM's as input, forget, cell,
// output; a GRU's as reset, update, new. The workspace that forward hands to backward holds the activated gates (of a
// GRU also the previous state and the hidden part of the new gate).
#include <ATen/Functions.h>
#include <torch/library.h>

#include <tuple>
#include <vector>

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

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(lstm_cell));
  m.impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(lstm_cell_backward));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell));
  m.impl("_thnn_fused_gru_cell_backward", TORCH_FN(gru_cell_backward));
}

}  // namespace
}  // namespace mydev
