"""torch.mydev.set_sync_debug_mode: telling where the host waits for the device."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

X = torch.arange(4.0)


@pytest.fixture(autouse=True)
def _mode_ends() -> Iterator[None]:
    yield
    torch.mydev.set_sync_debug_mode(0)


def device_tensor() -> torch.Tensor:
    return X.to("mydev")


WAITS: dict[str, Callable[[torch.Tensor], object]] = {
    "item": lambda x: x[0].item(),
    "cpu": lambda x: x.cpu(),
    "strided copy": lambda x: x[::2].cpu(),
    "bool": lambda x: bool(x.sum() > 0),
    "tolist": lambda x: x.tolist(),
    "from the host": lambda x: x.copy_(X),
    "fallback": lambda x: x.cumsum(0).logcumsumexp(0),
    "stream": lambda x: torch.mydev.current_stream().synchronize(),
}
NO_WAITS: dict[str, Callable[[torch.Tensor], object]] = {
    "kernel": lambda x: x + 1,
    "copy on the device": lambda x: x.clone(),
    "device": lambda x: torch.mydev.synchronize(),
    "new tensor": lambda x: torch.zeros(3, device="mydev"),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_errors_where_the_host_waits(wait: Callable[[torch.Tensor], object]) -> None:
    x = device_tensor()
    torch.mydev.set_sync_debug_mode("error")
    with pytest.raises(RuntimeError, match="the host waits for mydev in"):
        wait(x)
    torch.mydev.set_sync_debug_mode("default")
    wait(x)


@pytest.mark.parametrize("work", NO_WAITS.values(), ids=NO_WAITS)
def test_lets_work_that_does_not_wait_be(work: Callable[[torch.Tensor], object]) -> None:
    x = device_tensor()
    torch.mydev.set_sync_debug_mode("error")
    work(x)


def test_copies_that_need_not_wait_are_let_be() -> None:
    x = device_tensor()
    pinned = X.pin_memory("mydev")
    torch.mydev.set_sync_debug_mode("error")
    x.copy_(pinned, non_blocking=True)
    torch.mydev.synchronize()


def test_warns_with_the_line() -> None:
    x = device_tensor()
    torch.mydev.set_sync_debug_mode("warn")
    with pytest.warns(
        UserWarning, match=r"the host waits for mydev in a copy to the host, called at .*test_sync_debug"
    ):
        x.cpu()


def test_names_the_operator_that_runs_on_the_host() -> None:
    x = device_tensor()
    torch.mydev.set_sync_debug_mode("error")
    with pytest.raises(RuntimeError, match="logcumsumexp|runs on copies|copy to the host"):
        x.logcumsumexp(0)


@pytest.mark.parametrize(("mode", "number"), [("default", 0), ("warn", 1), ("error", 2), (0, 0), (1, 1), (2, 2)])
def test_mode_is_reported(mode: Any, number: int) -> None:
    torch.mydev.set_sync_debug_mode(mode)
    assert torch.mydev.get_sync_debug_mode() == number


@pytest.mark.parametrize("mode", ["loud", 3, -1])
def test_wrong_modes_are_refused(mode: Any) -> None:
    with pytest.raises(ValueError, match="mode must be one of"):
        torch.mydev.set_sync_debug_mode(mode)


def test_is_silent_by_default() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        device_tensor().cpu()
