"""LSTM, GRU and RNN on the device against the CPU: outputs, states and every gradient."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import torch_mydev

CONFIGURATIONS = {
    "default": {},
    "two_layers": {"num_layers": 2},
    "bidirectional": {"bidirectional": True},
    "two_layers_bidirectional": {"num_layers": 2, "bidirectional": True},
    "no_bias": {"bias": False},
    "batch_first": {"batch_first": True},
}
KINDS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn_tanh": nn.RNN, "rnn_relu": nn.RNN}


def make(kind: str, **options: object) -> nn.RNNBase:
    torch.manual_seed(0)
    if kind == "rnn_relu":
        options["nonlinearity"] = "relu"
    return KINDS[kind](5, 4, **options)


def tensors(result: object) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, PackedSequence):
        return [result.data]
    assert isinstance(result, tuple)
    return [tensor for part in result for tensor in tensors(part)]


def check(module: nn.Module, *inputs: torch.Tensor) -> None:
    """Runs both devices forward and backward and compares all results and gradients."""
    on_device = copy.deepcopy(module).to("mydev")
    expected_inputs = [x.clone().requires_grad_() for x in inputs]
    actual_inputs = [x.to("mydev").requires_grad_() for x in inputs]
    expected, actual = tensors(module(*expected_inputs)), tensors(on_device(*actual_inputs))
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a.cpu(), e)
    sum((e * (i + 1)).sin().sum() for i, e in enumerate(expected)).backward()
    sum((a * (i + 1)).sin().sum() for i, a in enumerate(actual)).backward()
    for a, e in zip(actual_inputs, expected_inputs, strict=True):
        assert a.grad is not None
        torch.testing.assert_close(a.grad.cpu(), e.grad)
    for (name, a), e in zip(on_device.named_parameters(), module.parameters(), strict=True):
        assert a.grad is not None, name
        torch.testing.assert_close(a.grad.cpu(), e.grad, msg=lambda message, name=name: f"{name}: {message}")


@pytest.mark.parametrize("options", CONFIGURATIONS.values(), ids=CONFIGURATIONS.keys())
@pytest.mark.parametrize("kind", KINDS)
def test_matches_cpu(kind: str, options: dict[str, object]) -> None:
    check(make(kind, **options), torch.randn(3, 2, 5))


def test_lstm_has_gradients_in_eval_mode() -> None:
    check(make("lstm", num_layers=2, dropout=0.5).eval(), torch.randn(3, 2, 5))


def test_lstm_of_frozen_weights_has_gradients_of_its_input() -> None:
    module, x = make("lstm").requires_grad_(False), torch.randn(3, 2, 5)
    gradients = []
    for device in ("cpu", "mydev"):
        leaf = x.clone().to(device).requires_grad_()
        gradients += [g.cpu() for g in torch.autograd.grad(module.to(device)(leaf)[0].sin().sum(), leaf)]
    torch.testing.assert_close(gradients[1], gradients[0])


def test_second_derivatives_of_an_lstm_agree_with_cpu() -> None:
    module, x = make("lstm"), torch.randn(3, 2, 5)
    results = []
    for device in ("cpu", "mydev"):
        leaf = x.clone().to(device).requires_grad_()
        (gradient,) = torch.autograd.grad(module.to(device)(leaf)[0].sin().sum(), leaf, create_graph=True)
        results.append(torch.autograd.grad(gradient.square().sum(), leaf)[0].cpu())
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize(("mode", "layers"), [("allow", 2), ("error", 0)])
def test_lstm_is_one_kernel_of_the_cpu_per_layer_where_that_may_run(mode: str, layers: int) -> None:
    module, x = make("lstm", num_layers=2).to("mydev"), torch.randn(3, 2, 5).to("mydev")
    with torch_mydev.fallback_mode(mode), torch.profiler.profile() as profile:
        module(x)
    counts = {event.key: event.count for event in profile.key_averages()}
    assert counts.get("aten::mkldnn_rnn_layer", 0) == layers
    assert ("aten::_thnn_fused_lstm_cell" in counts) == (layers == 0)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_lstm_with_projection(bidirectional: bool) -> None:
    check(make("lstm", proj_size=3, num_layers=2, bidirectional=bidirectional), torch.randn(3, 2, 5))


@pytest.mark.parametrize("kind", KINDS)
def test_unbatched(kind: str) -> None:
    check(make(kind), torch.randn(3, 5))


@pytest.mark.parametrize("kind", ["gru", "rnn_tanh"])
def test_initial_state(kind: str) -> None:
    check(make(kind), torch.randn(3, 2, 5), torch.randn(1, 2, 4))


def test_lstm_initial_state() -> None:
    class WithState(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = make("lstm")

        def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> object:
            return self.lstm(x, (h, c))

    check(WithState(), torch.randn(3, 2, 5), torch.randn(1, 2, 4), torch.randn(1, 2, 4))


class Packed(nn.Module):
    def __init__(self, kind: str, bidirectional: bool) -> None:
        super().__init__()
        self.rnn = make(kind, bidirectional=bidirectional)

    def forward(self, x: torch.Tensor) -> object:
        output, state = self.rnn(pack_padded_sequence(x, torch.tensor([4, 1, 3]), enforce_sorted=False))
        return pad_packed_sequence(output)[0], state


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_packed_sequence(kind: str, bidirectional: bool) -> None:
    check(Packed(kind, bidirectional), torch.randn(4, 3, 5))


@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell, nn.RNNCell], ids=lambda cell: cell.__name__)
def test_cells(cell: type[nn.Module]) -> None:
    torch.manual_seed(0)
    check(cell(5, 4), torch.randn(2, 5))


@pytest.mark.parametrize("returned", [0, 1], ids=["only_output", "only_cell_state"])
def test_lstm_gradient_of_one_result(returned: int) -> None:
    class OneResult(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.LSTMCell(5, 4)

        def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
            return self.cell(x, (h, c))[returned]

    torch.manual_seed(0)
    check(OneResult(), torch.randn(2, 5), torch.randn(2, 4), torch.randn(2, 4))


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn_tanh"])
def test_gradcheck_of_first_and_second_order(kind: str) -> None:
    module = make(kind).double().to("mydev")
    x = torch.randn(2, 1, 5, dtype=torch.float64).to("mydev").requires_grad_()

    def output(x: torch.Tensor) -> torch.Tensor:
        return module(x)[0]

    assert torch.autograd.gradcheck(output, (x,))
    assert torch.autograd.gradgradcheck(output, (x,))


@pytest.mark.parametrize("kind", KINDS)
def test_inference_mode(kind: str) -> None:
    module, x = make(kind), torch.randn(3, 2, 5)
    with torch.inference_mode():
        expected = module(x)[0]
        actual = module.to("mydev")(x.to("mydev"))[0]
    torch.testing.assert_close(actual.cpu(), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_between_layers_draws_from_the_device(kind: str) -> None:
    module = make(kind, num_layers=2, dropout=0.5).to("mydev")
    x = torch.randn(3, 2, 5).to("mydev")
    torch.manual_seed(1)
    first = module(x)[0]
    second = module(x)[0]
    torch.manual_seed(1)
    torch.testing.assert_close(module(x)[0].cpu(), first.cpu())
    assert not torch.equal(first.cpu(), second.cpu())
