"""``torch.mydev.amp``: the names of ``torch.cuda.amp``, with the device filled in."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch

from torch_mydev.device import amp


@pytest.mark.parametrize("name", ["GradScaler", "autocast", "custom_fwd", "custom_bwd"])
def test_parameters_are_those_of_cuda(name: str) -> None:
    def defaults(function: object) -> list[tuple[str, Any]]:
        assert callable(function)
        return [(p.name, p.default) for p in inspect.signature(function).parameters.values()]

    assert defaults(getattr(torch.mydev.amp, name)) == defaults(getattr(torch.cuda.amp, name))


def test_module_is_imported_by_its_name() -> None:
    from torch.mydev.amp import GradScaler  # type: ignore[import-not-found]

    assert GradScaler is amp.GradScaler


def test_training_as_with_torch_amp() -> None:
    def train(scaler: torch.amp.GradScaler, autocast: Any) -> torch.Tensor:
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2).to("mydev")
        steps = torch.optim.SGD(model.parameters(), lr=0.1)
        data = torch.randn(8, 4).to("mydev")
        for _ in range(3):
            steps.zero_grad()
            with autocast:
                loss = model(data).float().square().mean()
            scaler.scale(loss).backward()
            scaler.step(steps)
            scaler.update()
        return model.weight.detach()

    ours = train(torch.mydev.amp.GradScaler(init_scale=128.0), torch.mydev.amp.autocast())
    theirs = train(torch.amp.GradScaler("mydev", init_scale=128.0), torch.autocast("mydev", dtype=torch.float16))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_scaler_keeps_its_state() -> None:
    scaler = amp.GradScaler(init_scale=64.0, growth_interval=7)
    again = amp.GradScaler()
    again.load_state_dict(scaler.state_dict())
    assert again.get_scale() == 64.0
    assert again.get_growth_interval() == 7
    assert not amp.GradScaler(enabled=False).is_enabled()


def test_autocast_is_a_decorator_and_its_dtype_can_be_chosen() -> None:
    x = torch.ones(3, 3, device="mydev")
    assert amp.autocast()(torch.mm)(x, x).dtype == torch.float16
    with amp.autocast(dtype=torch.bfloat16):
        assert torch.mm(x, x).dtype == torch.bfloat16
        with amp.autocast(enabled=False):
            assert torch.mm(x, x).dtype == torch.float32


class Product(torch.autograd.Function):
    """Notes the dtypes that its two methods see."""

    seen: list[torch.dtype]

    @staticmethod
    @amp.custom_fwd(cast_inputs=torch.float32)
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        Product.seen = [x.dtype, torch.mm(x, x).dtype]
        ctx.save_for_backward(x)
        return torch.mm(x, x)

    @staticmethod
    @amp.custom_bwd
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        Product.seen.append(torch.mm(grad, x.t()).dtype)
        return torch.mm(grad, x.t()) + torch.mm(x.t(), grad)


def test_autograd_functions_choose_their_own_precision() -> None:
    x = torch.ones(3, 3, device="mydev", requires_grad=True)
    with amp.autocast():
        y = Product.apply(x.half())
    y.sum().backward()
    assert Product.seen == [torch.float32] * 3


def test_forward_without_casting_runs_with_autocasting() -> None:
    @amp.custom_fwd
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, x)

    class Context:
        pass

    with amp.autocast():
        assert forward(Context(), torch.ones(2, 2, device="mydev")).dtype == torch.float16
