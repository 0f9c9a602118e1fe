"""Operators without a kernel of ours: the CPU's answer on the device's memory, counted, or refused."""

from __future__ import annotations

import json
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import torch_mydev
from support.checkout import ROOT

CPU_SCALAR = torch.tensor(2.0)


@pytest.fixture(autouse=True)
def modes_as_before() -> Iterator[None]:
    before = torch_mydev.get_fallback_mode()
    yield
    torch_mydev.fallback_mode(before)  # type: ignore[arg-type]


def test_result_and_operands_stay_on_the_device(device: torch.device) -> None:
    values = torch.tensor([3.0, 1.0, 2.0], device=device)
    highest, indices = torch.cummax(values, 0)
    assert highest.device == indices.device == values.device
    assert highest.tolist() == [3, 3, 3]
    assert indices.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "call",
    [
        lambda t: torch.cumsum(t, 0),  # functional
        lambda t: t.clone().erfinv_(),  # in place
        lambda t: torch.lgamma(t, out=torch.empty(0, device=t.device)),  # out= that is resized
        lambda t: torch.cumsum(t, 0, out=torch.zeros(8, 3, device=t.device)[::2]),  # out= with strides
        lambda t: torch.topk(t, 2),  # several results
        lambda t: torch.block_diag(t, t),  # Tensor[]
        lambda t: t[[0, 2], [1, 0]],  # Tensor?[]
        lambda t: t.index_put((torch.tensor([1], device=t.device),), torch.zeros(3, device=t.device)),
        lambda t: torch.bucketize(t, torch.tensor([0.1, 0.2], device=t.device)),
        lambda t: torch.searchsorted(t.flatten(), 0.3),  # Scalar
        lambda t: torch.logcumsumexp(t.double(), 1),
        lambda t: torch.linalg.svdvals(t),
        lambda t: torch.floor_divide(2, t),  # a Python number on the left
        lambda t: torch.nanmedian(t),  # 0-dim result
        lambda t: torch.special.zeta(CPU_SCALAR, t + 1),  # 0-dim CPU operand
        lambda t: torch.combinations(t[:, 0]),
    ],
)
def test_agrees_with_cpu(device: torch.device, call: Callable[[torch.Tensor], Any]) -> None:
    values = torch.linspace(-0.9, 0.9, 12).reshape(4, 3)
    results, expected = call(values.to(device)), call(values)
    for result, reference in zip(
        results if isinstance(results, tuple) else [results],
        expected if isinstance(expected, tuple) else [expected],
        strict=True,
    ):
        assert result.device.type == device.type
        torch.testing.assert_close(result.cpu(), reference)


def test_views_made_by_the_cpu_kernel_are_views(device: torch.device) -> None:
    base = torch.arange(6.0, device=device)
    parts = torch.split_with_sizes(base, [2, 4])
    parts[1].zero_()
    assert base.tolist() == [0, 1, 0, 0, 0, 0]
    assert all(part.untyped_storage().data_ptr() == base.untyped_storage().data_ptr() for part in parts)


def test_in_place_on_a_view_changes_the_base_and_its_gradient(device: torch.device) -> None:
    leaf = torch.full((4,), 0.5, device=device, requires_grad=True)
    base = leaf * 1
    base[1:3].erfinv_()
    base.sum().backward()
    expected = torch.full((4,), 0.5, requires_grad=True)
    on_cpu = expected * 1
    on_cpu[1:3].erfinv_()
    on_cpu.sum().backward()
    torch.testing.assert_close(base.detach().cpu(), on_cpu.detach())
    torch.testing.assert_close(leaf.grad.cpu(), expected.grad)


def test_resized_output_keeps_its_identity(device: torch.device) -> None:
    out = torch.empty(1, device=device)
    alias = out
    torch.cumsum(torch.ones(1000, device=device), 0, out=out.resize_(0))
    assert alias.shape == (1000,)
    assert alias[-1].item() == 1000


def test_generator_argument_is_reproducible(device: torch.device) -> None:
    generator = torch.Generator(device=device).manual_seed(3)
    first = torch.multinomial(torch.ones(50, device=device), 20, generator=generator)
    second = torch.multinomial(torch.ones(50, device=device), 20, generator=generator)
    generator.manual_seed(3)
    again = torch.multinomial(torch.ones(50, device=device), 20, generator=generator)
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


def test_default_generator_follows_manual_seed(device: torch.device) -> None:
    torch.manual_seed(5)
    first = torch.poisson(torch.full((100,), 4.0, device=device))
    torch.manual_seed(5)
    assert torch.equal(first, torch.poisson(torch.full((100,), 4.0, device=device)))


def test_alias_outlives_its_tensor(device: torch.device) -> None:
    values = torch.rand(1000, device=device)
    expected = values.cpu().cummax(0).values
    highest = values.cummax(0).values
    del values
    for _ in range(10):
        torch.full((1000,), -1.0, device=device)
    torch.testing.assert_close(highest.cpu(), expected)


def test_memory_of_results_is_the_devices(device: torch.device) -> None:
    values = torch.rand(100_000, device=device)
    before = torch.accelerator.memory_allocated()
    result = torch.cumsum(values, 0)
    assert torch.accelerator.memory_allocated() - before >= result.nbytes
    del result
    assert torch.accelerator.memory_allocated() == before


def test_cpu_tensors_are_left_alone(device: torch.device) -> None:
    before = torch.accelerator.memory_allocated()
    on_cpu = torch.cumsum(torch.rand(100_000), 0)
    assert on_cpu.device.type == "cpu"
    assert torch.accelerator.memory_allocated() == before


def test_no_memory_is_lost(device: torch.device) -> None:
    values = torch.rand(64, 64, device=device)
    torch.linalg.svd(values)
    before = torch.accelerator.memory_allocated()
    for _ in range(20):
        torch.linalg.svd(values)
        torch.cummax(values, 0)
        values.clone().erfinv_()
    assert torch.accelerator.memory_allocated() == before


@pytest.mark.parametrize(
    "call",
    [
        lambda d, c: torch.cumsum(d, 0, out=c),
        lambda d, c: torch.cumsum(d, 0, out=c.new_empty(())),  # a number, but no operand
        lambda d, c: torch.nonzero(d, out=c.new_empty((), dtype=torch.long)),
        lambda d, c: torch.sum(d, 0, out=c.new_empty(())),
        lambda d, c: torch.bucketize(d, c),
        lambda d, c: d.gather(0, c.long()),
        lambda d, c: torch.linalg.solve(torch.eye(3).to(d.device), c),
        lambda d, c: d + c,
        lambda d, c: torch.mm(d.expand(3, 3), c.expand(3, 3)),
    ],
)
def test_mixed_devices_are_refused_with_both_named(
    device: torch.device, call: Callable[[torch.Tensor, torch.Tensor], object]
) -> None:
    with pytest.raises(RuntimeError, match=r"device|devices") as caught:
        call(torch.ones(3, device=device), torch.ones(3))
    assert "cpu" in str(caught.value)
    assert torch.ones(3, device=device).sum().item() == 3


@pytest.mark.devices(2)
def test_two_devices_are_refused(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match=f"{device.type}:0.*{device.type}:1|{device.type}:1.*{device.type}:0"):
        torch.bucketize(torch.ones(3, device=f"{device.type}:0"), torch.ones(3, device=f"{device.type}:1"))


def test_errors_of_the_cpu_kernel_pass_through(device: torch.device) -> None:
    with pytest.raises(IndexError, match="out of range"):
        torch.cumsum(torch.ones(3, device=device), 5)
    with pytest.raises(RuntimeError, match=r"k not in range|out of range"):
        torch.topk(torch.ones(3, device=device), 7)
    assert torch.cumsum(torch.ones(3, device=device), 0).tolist() == [1, 2, 3]


# --- the census ------------------------------------------------------------------------------------------------------


def fall_back(device: torch.device) -> None:
    torch.special.zeta(torch.full((3,), 2.0, device=device), torch.ones(3, device=device))


def test_census_counts_calls_inside_its_block(device: torch.device) -> None:
    fall_back(device)
    with torch_mydev.fallback_census() as census:
        fall_back(device)
        fall_back(device)
    fall_back(device)
    (row,) = [row for row in census.rows if row.op.startswith("aten::special_zeta")]
    assert row.calls == 2
    assert row.seconds > 0
    assert census.total_calls >= 2


def test_census_names_the_first_python_frame(device: torch.device) -> None:
    torch_mydev.fallback_census().reset()
    fall_back(device)
    (row,) = [row for row in torch_mydev.fallback_census().rows if "zeta" in row.op]
    assert "test_fallback.py" in row.first_frame
    assert "fall_back" in row.first_frame


def test_census_as_table_and_json(device: torch.device) -> None:
    with torch_mydev.fallback_census() as census:
        fall_back(device)
    assert "aten::special_zeta" in str(census)
    assert "calls" in str(census)
    assert any("zeta" in row["op"] for row in json.loads(census.to_json()))


def test_census_is_empty_without_fallbacks(device: torch.device) -> None:
    with torch_mydev.fallback_census() as census:
        torch.empty(3, device=device)
    assert census.rows == []
    assert "no operator" in str(census)


def test_census_counts_all_threads(device: torch.device) -> None:
    with torch_mydev.fallback_census() as census:
        threads = [threading.Thread(target=fall_back, args=(device,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(row.calls for row in census.rows if "zeta" in row.op) == 4


# --- modes -----------------------------------------------------------------------------------------------------------


def test_error_mode_refuses_and_names_the_op(device: torch.device) -> None:
    with (
        torch_mydev.fallback_mode("error"),
        pytest.raises(NotImplementedError, match=r"aten::special_zeta.*fallback_mode"),
    ):
        fall_back(device)
    fall_back(device)


def test_error_mode_for_one_op_only(device: torch.device) -> None:
    with torch_mydev.fallback_mode("error", op="aten::special_zeta"):
        with pytest.raises(NotImplementedError, match="special_zeta"):
            fall_back(device)
        assert torch.special.bessel_j0(torch.zeros(1, device=device)).item() == 1
    fall_back(device)


def test_one_op_may_be_allowed_where_others_are_refused(device: torch.device) -> None:
    with torch_mydev.fallback_mode("error"), torch_mydev.fallback_mode("allow", op="aten::special_zeta"):
        fall_back(device)


def test_warn_mode_warns_once_per_op(device: torch.device) -> None:
    torch_mydev.fallback_census().reset()
    with torch_mydev.fallback_mode("warn"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fall_back(device)
        fall_back(device)
    messages = [str(w.message) for w in caught if "zeta" in str(w.message)]
    assert len(messages) == 1
    assert "runs on the CPU" in messages[0]


def test_a_name_without_an_overload_means_all_overloads(device: torch.device) -> None:
    x = torch.ones(2, 3, device=device)
    with torch_mydev.fallback_mode("error", op="aten::median"):
        for call in (lambda: x.median(), lambda: x.median(0)):
            with pytest.raises(NotImplementedError, match="aten::median"):
                call()
        assert torch_mydev.get_fallback_mode("aten::median") == "error"
    with torch_mydev.fallback_mode("error", op="aten::median.default"):
        x.median(0)
        assert torch_mydev.get_fallback_mode("aten::median.dim_values") == "allow"
        assert torch_mydev.get_fallback_mode("aten::median") == "error"  # the strictest
    assert torch_mydev.get_fallback_mode("aten::median") == "allow"


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ("aten::srot", "no operator aten::srot; did you mean aten::sort"),
        ("aten::sort.stabel", r"no operator aten::sort.stabel; did you mean aten::sort\.stable"),
        ("sort", "no operator sort; did you mean aten::sort"),
        ("aten::", "no operator aten::; "),
    ],
)
def test_unknown_operators_are_refused(op: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        torch_mydev.fallback_mode("error", op=op)


def test_operators_of_other_libraries_may_still_come() -> None:
    with torch_mydev.fallback_mode("error", op="some_library::operator"):
        assert torch_mydev.get_fallback_mode("some_library::operator") == "error"


def test_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match='"allow", "warn" or "error"'):
        torch_mydev.fallback_mode("loud")  # type: ignore[arg-type]


def test_environment_sets_the_modes(run_python: Callable[..., Any]) -> None:
    code = """
import torch, torch_mydev
x = torch.ones(2, device=torch_mydev.device_name)
torch.special.bessel_j0(x)
try:
    torch.special.zeta(x, x)
except NotImplementedError as error:
    print("refused", torch_mydev.get_fallback_mode("aten::special_zeta"), torch_mydev.get_fallback_mode())
"""
    result = run_python(code, MYDEV_FALLBACK="allow", MYDEV_FALLBACK_OPS="aten::special_zeta=error")
    assert result.stdout.split() == ["refused", "error", "allow"], result.stderr


def typed_fallbacks() -> list[str]:
    """The operators with a row in operator_policy.h, by their names in the dispatcher."""
    source = (ROOT / "csrc/aten/core/operator_policy.h").read_text()
    operators = {
        name.removeprefix("aten::").replace(".", "_"): name
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("aten::")
    }
    return [operators[row] for row in re.findall(r"\bX\((\w+)\)", source)]


@pytest.mark.parametrize("operator", typed_fallbacks())
def test_each_typed_fallback_takes_effect(operator: str) -> None:
    kernels = torch._C._dispatch_dump(operator)
    assert re.search(r"^CPU:", kernels, re.MULTILINE), "it decomposes, and the row would hide that"
    assert re.search(r"^PrivateUse1: .*/host/fallback\.cpp", kernels, re.MULTILINE), (
        "it has a kernel, and the row does nothing"
    )
