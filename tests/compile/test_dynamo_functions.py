"""Functions of torch.mydev inside compiled functions: no graph breaks, and what they mean outside."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

m = torch.mydev
Function = Callable[[torch.Tensor], torch.Tensor]


def waits(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    m.synchronize()
    return y * 2


def waits_for_device(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    m.synchronize("mydev:0")
    return y * 2


def asks_for_stream(x: torch.Tensor) -> torch.Tensor:
    m.current_stream()
    return x + 1


def enters_stream(x: torch.Tensor) -> torch.Tensor:
    with m.stream(SIDE):
        return x + 1


def enters_device(x: torch.Tensor) -> torch.Tensor:
    with m.device(0):
        return x + torch.ones(4, device="mydev")


def enters_device_by_name(x: torch.Tensor) -> torch.Tensor:
    with m.device("mydev:0"):
        return x + 1


SIDE = m.Stream()
FUNCTIONS: dict[str, Function] = {
    "is_available": lambda x: x + 1 if m.is_available() else x,
    "device_count": lambda x: x + m.device_count(),
    "current_device": lambda x: x + m.current_device(),
    "is_initialized": lambda x: x + int(m.is_initialized()),
    "name": lambda x: x + len(m.get_device_name()),
    "capability": lambda x: x + m.get_device_capability()[0],
    "is_bf16_supported": lambda x: x + int(m.is_bf16_supported()),
    "capturing": lambda x: x + int(m.is_current_stream_capturing()),
    "synchronize": waits,
    "synchronize a device": waits_for_device,
    "current_stream": asks_for_stream,
    "stream": enters_stream,
    "device": enters_device,
    "device by name": enters_device_by_name,
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_does_not_break_the_graph(function: Function, backend: str) -> None:
    torch._dynamo.reset()
    x = torch.ones(4, device="mydev")
    result = torch.compile(function, backend=backend, fullgraph=True)(x)
    torch.mydev.synchronize()
    torch.testing.assert_close(result, function(x))


@pytest.mark.devices(2)
def test_current_device_is_guarded() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(FUNCTIONS["current_device"], backend="eager", fullgraph=True)
    x = torch.zeros(2, device="mydev:0")
    assert compiled(x).tolist() == [0, 0]
    with m.device(1):
        assert compiled(x).tolist() == [1, 1]


def on_device_1(x: torch.Tensor) -> torch.Tensor:
    with m.device(1):
        return torch.ones(2, device="mydev") + 1


@pytest.mark.devices(2)
def test_device_context_that_changes_the_device_breaks_the_graph() -> None:
    torch._dynamo.reset()
    x = torch.zeros(2, device="mydev:0")
    with pytest.raises(torch._dynamo.exc.Unsupported, match="changes the current device"):
        torch.compile(on_device_1, backend="aot_eager", fullgraph=True)(x)
    result = torch.compile(on_device_1, backend="aot_eager")(x)
    assert result.device == torch.device("mydev:1")
    assert m.current_device() == 0


def draws_from(seed: int) -> Function:
    def function(x: torch.Tensor) -> torch.Tensor:
        m.manual_seed(seed)
        return x + torch.rand_like(x)

    return function


RANDOM_STATE: dict[str, Function] = {
    "manual_seed": draws_from(3),
    "manual_seed_all": lambda x: x if m.manual_seed_all(3) else x + 1,
    "get_rng_state": lambda x: x + len(m.get_rng_state()),
    "set_rng_state": lambda x: x if m.set_rng_state(STATE) else x + 1,
}
STATE = m.get_rng_state()


@pytest.mark.parametrize("name", RANDOM_STATE)
def test_random_state_breaks_the_graph_as_cudas_does(name: str) -> None:
    torch._dynamo.reset()
    x = torch.zeros(8, device="mydev")
    with pytest.raises(
        torch._dynamo.exc.Unsupported, match=f"Attempted to call function marked as skipped.*\n.*{name}"
    ):
        torch.compile(RANDOM_STATE[name], backend="eager", fullgraph=True)(x)
    result = torch.compile(RANDOM_STATE[name], backend="aot_eager")(x)
    torch.testing.assert_close(result, RANDOM_STATE[name](x), rtol=0, atol=0)


def test_checkpoint_with_dropout_draws_the_same_numbers_again() -> None:
    torch._dynamo.reset()

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.utils.checkpoint.checkpoint(
            lambda y: torch.nn.functional.dropout(y.sin(), 0.5), x, use_reentrant=False
        )

    x = torch.ones(1000, device="mydev", requires_grad=True)
    result = torch.compile(function, backend="aot_eager")(x)
    result.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad != 0, result != 0)
