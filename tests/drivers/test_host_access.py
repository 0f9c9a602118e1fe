"""Memory that the host reaches slowly, and copies of views that a driver declines."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from support.checkout import DRIVERS

pytestmark = pytest.mark.any_driver

Run = Callable[..., subprocess.CompletedProcess[str]]
BROKEN = str(DRIVERS / "broken_driver.so")

EAGER = """
import torch, torch_mydev

properties = torch.mydev.get_device_properties(0)
print(properties.host_accessible, properties.host_access_slow)
torch.manual_seed(0)
x = torch.randn(6, 6)
with torch_mydev.fallback_census() as census:
    actual = (x.to("mydev") @ x.to("mydev")).relu()
    waves = torch.fft.rfft(x.to("mydev"))
torch.testing.assert_close(actual.cpu(), (x @ x).relu())
torch.testing.assert_close(waves.cpu(), torch.fft.rfft(x))
rows = {row.op: row.bytes_copied for row in census.rows}
print("aten::_fft_r2c" in rows, "aten::mm" in rows, sum(rows.values()))
"""

GRAPH = """
import torch, torch_mydev

x = torch.arange(1, 7, device="mydev")
graph = torch.mydev.MyDevGraph()
with torch.mydev.graph(graph):
    y = x // 0  # the only quotient that is not portable
with torch_mydev.fallback_census() as census:
    try:
        graph.replay()
        torch.mydev.synchronize()
    except RuntimeError as error:
        print("ZeroDivisionError" in str(error), census.staged_calls > 0)

run = torch.compile(lambda x: x.sin() * 2)
torch.testing.assert_close(run(x / 2).cpu(), (x.cpu() / 2).sin() * 2)
print({graph.route for graph in torch_mydev.compile_report().graphs})
"""

COPIES = """
import torch, torch_mydev

x = torch.arange(24.0).reshape(4, 6)
on_device = x.to("mydev")
print(torch.equal(on_device.t().contiguous().cpu(), x.t().contiguous()))
print(torch.equal(on_device[:, ::2].cpu(), x[:, ::2]))
on_device[:, 1::2] = x[:, 1::2] * 2
print(torch.equal(on_device[:, 1::2].cpu(), x[:, 1::2] * 2))
graph = torch.mydev.MyDevGraph()
out = torch.empty(6, 4, device="mydev")
with torch.mydev.graph(graph):
    out.copy_(on_device.t())
graph.replay()
print(torch.equal(out.cpu(), on_device.cpu().t()))
"""


@pytest.mark.parametrize("mode", ["", ":async,guarded"])
def test_host_kernels_do_not_work_on_slow_memory(run_python: Run, mode: str) -> None:
    result = run_python(EAGER, MYDEV_DRIVER=BROKEN + mode, BROKEN_DRIVER_DEFECT="slow_access")
    assert result.stdout.splitlines() == ["True True", "True False 0"], result.stderr  # the product is portable


@pytest.mark.parametrize("mode", ["", ":async,guarded"])
def test_programs_run_them_on_copies(run_python: Run, mode: str) -> None:
    result = run_python(GRAPH, MYDEV_DRIVER=BROKEN + mode, BROKEN_DRIVER_DEFECT="slow_access")
    assert result.stdout.splitlines() == ["True True", "{'program'}"], result.stderr


@pytest.mark.parametrize("mode", ["remote", "remote,kernels=none", "remote,async,guarded,kernels=none"])
def test_views_that_the_driver_does_not_copy_are_copied_all_the_same(run_python: Run, mode: str) -> None:
    result = run_python(COPIES, MYDEV_DRIVER=f"{BROKEN}:{mode},fail=copy_strided,decline=1")
    assert result.stdout.splitlines() == ["True"] * 4, result.stderr
