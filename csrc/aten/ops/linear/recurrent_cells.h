// Cells of LSTM and GRU, forward and backward, as compositions of other operators.
//
// Gates are stored side by side along dimension 1: an LSTM's as input, forget, cell, output; a GRU's as reset, update,
// new. The workspace that forward hands to backward holds the activated gates (a GRU's also the previous state and the
// hidden part of the new gate).
//
// Eager mode (recurrent.cpp) activates the gates where they lie, and writes gradients side by side. A compiler's trace
// (python/decomposition_bindings.cpp) may not write: there every value is a tensor of its own, concatenated at the end.
#pragma once

#include <ATen/Functions.h>

#include <tuple>
#include <vector>

#include "aten/ops/optional_tensor.h"

namespace mydev {

enum class CellForm { kInPlace, kFunctional };

namespace detail {

inline at::Tensor with_bias(const at::Tensor& gates, const OptionalTensor& bias) {
  return given(bias) ? gates + *bias : gates;
}

template <CellForm form>
std::vector<at::Tensor> side_by_side(const at::Tensor& packed, int64_t count) {
  return form == CellForm::kInPlace ? packed.unsafe_chunk(count, 1) : packed.chunk(count, 1);
}

// Functions of a value that is not used again.
template <CellForm form>
at::Tensor sigmoid(const at::Tensor& x) {
  return form == CellForm::kInPlace ? x.sigmoid_() : x.sigmoid();
}
template <CellForm form>
at::Tensor tanh(const at::Tensor& x) {
  return form == CellForm::kInPlace ? x.tanh_() : x.tanh();
}

// Gradients of gates. In place, the tensors are blocks of one.
template <CellForm form>
class GateGradients {
 public:
  GateGradients(const at::Tensor& gates, int64_t count) : grads_(static_cast<size_t>(count)) {
    if constexpr (form == CellForm::kInPlace) {
      packed_ = at::empty_like(gates);
      grads_ = packed_.unsafe_chunk(count, 1);
    }
  }
  void set_sigmoid(size_t gate, const at::Tensor& grad, const at::Tensor& activated) {
    if constexpr (form == CellForm::kInPlace) {
      at::sigmoid_backward_out(grads_[gate], grad, activated);
    } else {
      grads_[gate] = at::sigmoid_backward(grad, activated);
    }
  }
  void set_tanh(size_t gate, const at::Tensor& grad, const at::Tensor& activated) {
    if constexpr (form == CellForm::kInPlace) {
      at::tanh_backward_out(grads_[gate], grad, activated);
    } else {
      grads_[gate] = at::tanh_backward(grad, activated);
    }
  }
  void set_zero(size_t gate, const at::Tensor& activated) {
    if constexpr (form == CellForm::kInPlace) {
      grads_[gate].zero_();
    } else {
      grads_[gate] = at::zeros_like(activated);
    }
  }
  at::Tensor packed() const { return form == CellForm::kInPlace ? packed_ : at::cat(grads_, 1); }

 private:
  at::Tensor packed_;
  std::vector<at::Tensor> grads_;
};

}  // namespace detail

template <CellForm form>
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                                         const at::Tensor& cx, const OptionalTensor& input_bias,
                                                         const OptionalTensor& hidden_bias) {
  const at::Tensor packed = detail::with_bias(input_gates, input_bias) + detail::with_bias(hidden_gates, hidden_bias);
  const std::vector<at::Tensor> gates = detail::side_by_side<form>(packed, 4);
  const at::Tensor input = detail::sigmoid<form>(gates[0]), forget = detail::sigmoid<form>(gates[1]),
                   cell = detail::tanh<form>(gates[2]), output = detail::sigmoid<form>(gates[3]);
  at::Tensor cy = at::addcmul(forget * cx, input, cell);
  at::Tensor hy = output * cy.tanh();
  return {std::move(hy), std::move(cy),
          form == CellForm::kInPlace ? packed : at::cat({input, forget, cell, output}, 1)};
}

template <CellForm form>
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(const OptionalTensor& grad_hy,
                                                                  const OptionalTensor& grad_cy, const at::Tensor& cx,
                                                                  const at::Tensor& cy, const at::Tensor& workspace,
                                                                  bool has_bias) {
  if (!given(grad_hy) && !given(grad_cy)) return {};
  const std::vector<at::Tensor> gates = detail::side_by_side<form>(workspace, 4);
  const at::Tensor &input = gates[0], &forget = gates[1], &cell = gates[2], &output = gates[3];
  detail::GateGradients<form> grads(workspace, 4);

  const at::Tensor tanh_cy = cy.tanh();
  at::Tensor grad_c;  // with respect to the cell state, through hy and directly
  if (given(grad_hy)) {
    grad_c = at::tanh_backward(*grad_hy * output, tanh_cy);
    if (given(grad_cy)) grad_c = grad_c + *grad_cy;
    grads.set_sigmoid(3, *grad_hy * tanh_cy, output);
  } else {
    grad_c = *grad_cy;
    grads.set_zero(3, output);
  }
  grads.set_sigmoid(0, grad_c * cell, input);
  grads.set_sigmoid(1, grad_c * cx, forget);
  grads.set_tanh(2, grad_c * input, cell);
  at::Tensor grad_gates = grads.packed();
  at::Tensor grad_bias = has_bias ? grad_gates.sum(0) : at::Tensor();
  return {std::move(grad_gates), grad_c * forget, std::move(grad_bias)};
}

template <CellForm form>
std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                            const at::Tensor& hx, const OptionalTensor& input_bias,
                                            const OptionalTensor& hidden_bias) {
  const auto from_input = detail::side_by_side<form>(detail::with_bias(input_gates, input_bias), 3);
  const auto from_hidden = detail::side_by_side<form>(detail::with_bias(hidden_gates, hidden_bias), 3);
  const at::Tensor reset = detail::sigmoid<form>(from_input[0] + from_hidden[0]);
  const at::Tensor update = detail::sigmoid<form>(from_input[1] + from_hidden[1]);
  const at::Tensor fresh = detail::tanh<form>(at::addcmul(from_input[2], reset, from_hidden[2]));
  at::Tensor hy = at::addcmul(fresh, update, hx - fresh);
  return {std::move(hy), at::cat({reset, update, fresh, hx, from_hidden[2]}, 1)};
}

template <CellForm form>
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> gru_cell_backward(const at::Tensor& grad_hy,
                                                                                         const at::Tensor& workspace,
                                                                                         bool has_bias) {
  const std::vector<at::Tensor> saved = detail::side_by_side<form>(workspace, 5);
  const at::Tensor &reset = saved[0], &update = saved[1], &fresh = saved[2], &hx = saved[3], &hidden_new = saved[4];
  const at::Tensor grad_hx = grad_hy * update;
  const at::Tensor grad_new = at::tanh_backward(grad_hy - grad_hx, fresh);
  const at::Tensor grad_update = at::sigmoid_backward(grad_hy * (hx - fresh), update);
  const at::Tensor grad_reset = at::sigmoid_backward(grad_new * hidden_new, reset);
  at::Tensor grad_input = at::cat({grad_reset, grad_update, grad_new}, 1);
  at::Tensor grad_hidden = at::cat({grad_reset, grad_update, grad_new * reset}, 1);
  at::Tensor grad_input_bias = has_bias ? grad_input.sum(0) : at::Tensor();
  at::Tensor grad_hidden_bias = has_bias ? grad_hidden.sum(0) : at::Tensor();
  return {std::move(grad_input), std::move(grad_hidden), grad_hx, std::move(grad_input_bias),
          std::move(grad_hidden_bias)};
}

}  // namespace mydev
