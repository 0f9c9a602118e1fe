"""Modules and parameters on the device: moving them, sharing them, and the methods that carry the device's name."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence


class Tied(nn.Module):
    """An embedding whose weight is also the output layer's, as in many language models."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.output = nn.Linear(3, 5, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.output(self.embedding(tokens))


@pytest.mark.parametrize("move", [lambda m: m.to("mydev"), lambda m: m.mydev()], ids=["to", "method"])
def test_tied_weights_stay_tied(move: object) -> None:
    model = move(Tied())
    assert model.output.weight is model.embedding.weight
    assert len(list(model.parameters())) == 1
    model(torch.tensor([0, 1], device="mydev")).sum().backward()
    assert model.embedding.weight.grad is not None


def test_tied_weights_stay_tied_on_the_way_back() -> None:
    model = Tied().to("mydev").cpu()
    assert model.output.weight is model.embedding.weight
    assert model.output.weight.device.type == "cpu"


def test_tied_weights_get_the_gradient_of_both_uses() -> None:
    torch.manual_seed(0)
    model, tokens = Tied(), torch.tensor([0, 1, 1])
    model(tokens).sin().sum().backward()
    expected = model.embedding.weight.grad
    model.zero_grad()
    model.to("mydev")(tokens.to("mydev")).sin().sum().backward()
    assert model.embedding.weight.grad is not None
    assert expected is not None
    torch.testing.assert_close(model.embedding.weight.grad.cpu(), expected)


@pytest.mark.parametrize("optimizer_type", [torch.optim.SGD, torch.optim.AdamW])
def test_optimizer_made_before_the_move_trains_the_model(optimizer_type: type[torch.optim.Optimizer]) -> None:
    model = nn.Linear(2, 1)
    optimizer = optimizer_type(model.parameters(), lr=0.1)
    model.to("mydev")
    before = model.weight.detach().cpu().clone()
    model(torch.ones(1, 2, device="mydev")).sum().backward()
    optimizer.step()
    assert not torch.equal(model.weight.detach().cpu(), before)
    assert optimizer.param_groups[0]["params"][0] is model.weight


def test_parameters_keep_their_identity_gradients_and_flags() -> None:
    model = nn.Linear(2, 2)
    model.bias.requires_grad_(False)
    model.weight.grad = torch.ones(2, 2)
    weight = model.weight
    model.to("mydev")
    assert model.weight is weight
    assert weight.device.type == "mydev"
    assert weight.grad is not None
    assert weight.grad.device.type == "mydev"
    assert not model.bias.requires_grad
    assert isinstance(weight, nn.Parameter)


def test_references_from_outside_follow() -> None:
    model = nn.Linear(2, 2)
    outside = [model.weight]
    model.to("mydev")
    assert outside[0].device.type == "mydev"


def test_buffers_move() -> None:
    model = nn.BatchNorm1d(3).to("mydev")
    assert {b.device.type for b in model.buffers()} == {"mydev"}


def test_running_statistics_are_updated_as_on_the_cpu() -> None:
    torch.manual_seed(0)
    cpu, x = nn.BatchNorm1d(3), torch.randn(8, 3)
    device = nn.BatchNorm1d(3).to("mydev")
    cpu(x)
    device(x.to("mydev"))
    torch.testing.assert_close(device.running_mean.cpu(), cpu.running_mean)
    torch.testing.assert_close(device.running_var.cpu(), cpu.running_var)
    assert device.num_batches_tracked.item() == 1


def test_moving_with_a_dtype() -> None:
    model = nn.Linear(2, 2).to("mydev", torch.bfloat16)
    assert (model.weight.device.type, model.weight.dtype) == ("mydev", torch.bfloat16)


def test_to_empty_and_meta() -> None:
    with torch.device("meta"):
        model = nn.Linear(2, 2)
    assert model.to_empty(device="mydev").weight.device.type == "mydev"


def test_construction_on_the_device() -> None:
    assert nn.Linear(2, 2, device="mydev").weight.device.type == "mydev"
    with torch.device("mydev"):
        assert nn.Linear(2, 2).weight.device.type == "mydev"


def test_moving_to_the_cpu_device_is_as_before() -> None:
    model = nn.Linear(2, 2)
    weight = model.weight
    assert model.double().weight is weight
    assert model.cpu().weight is weight


def test_data_of_a_parameter_can_be_replaced() -> None:
    parameter = nn.Parameter(torch.ones(2))
    parameter.data = torch.zeros(3, device="mydev")
    assert parameter.device.type == "mydev"
    assert parameter.tolist() == [0.0, 0.0, 0.0]
    parameter.data = torch.ones(1)
    assert parameter.device.type == "cpu"


def test_data_of_a_parameter_on_the_device() -> None:
    parameter = nn.Parameter(torch.ones(2, device="mydev"))
    new = torch.zeros(3, device="mydev")
    parameter.data = new
    assert parameter.data_ptr() == new.data_ptr()


def test_gradient_on_another_device_is_refused() -> None:
    parameter = nn.Parameter(torch.ones(2, device="mydev"))
    with pytest.raises(RuntimeError, match="device"):
        parameter.grad = torch.ones(2)


def test_state_dict_round_trip() -> None:
    torch.manual_seed(0)
    source, target = nn.Linear(3, 2).to("mydev"), nn.Linear(3, 2)
    target.load_state_dict(source.state_dict())
    torch.testing.assert_close(target.weight, source.weight.cpu())
    source.load_state_dict(nn.Linear(3, 2).state_dict())
    assert source.weight.device.type == "mydev"


def test_tensor_methods_carry_the_name() -> None:
    tensor = torch.ones(2).mydev()
    assert tensor.is_mydev
    assert not tensor.cpu().is_mydev
    assert tensor.mydev() is tensor
    assert torch.ones(2).mydev(0).device == torch.device("mydev", 0)
    assert torch.ones(2).mydev(non_blocking=True).is_mydev


def test_storage_methods_carry_the_name() -> None:
    storage = torch.ones(2).untyped_storage().mydev()
    assert storage.is_mydev
    assert not torch.ones(2).untyped_storage().is_mydev
    assert torch.ones(2).storage().mydev().is_mydev


def test_packed_sequences_move() -> None:
    packed = pack_padded_sequence(torch.randn(3, 2, 4), torch.tensor([3, 1]))
    moved = packed.mydev()
    assert moved.is_mydev
    assert moved.data.device.type == "mydev"
    assert packed.to("mydev").is_mydev
    torch.testing.assert_close(moved.cpu().data, packed.data)


def test_type_strings() -> None:
    assert torch.ones(2, device="mydev").type() == "torch.mydev.FloatTensor"
    assert torch.ones(2, device="mydev", dtype=torch.int64).type() == "torch.mydev.LongTensor"


def test_parametrization_and_weight_norm() -> None:
    module = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)).to("mydev")
    module(torch.ones(1, 3, device="mydev")).sum().backward()
    assert {p.device.type for p in module.parameters()} == {"mydev"}


def test_lazy_modules_materialize_on_the_device() -> None:
    module = nn.LazyLinear(2).to("mydev")
    module(torch.ones(1, 3, device="mydev"))
    assert module.weight.device.type == "mydev"
