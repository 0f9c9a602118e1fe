"""Kernels that the device's driver compiles of source at run time: modules, launches, errors, captured launches."""

from __future__ import annotations

import gc
import re
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from support.graphs import capture
from torch_mydev import _C

RunPython = Callable[..., subprocess.CompletedProcess[str]]

SOURCE = """
// [docs: kernels]
MYDEV_KERNEL(scale, float* out, const float* in, int64_t count, double factor) {
  MYDEV_FOR_THREADS(i, count) out[i] = float(factor) * in[i];
}
MYDEV_KERNEL(add_to, float* sum, const float* in, int64_t count) {
  MYDEV_FOR_THREADS(i, count) sum[i] += in[i];
}
MYDEV_KERNEL(row_sums, float* __restrict__ out, const float* in, int64_t columns) {
  MYDEV_FOR_GROUPS(row) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t column = 0; column < columns; ++column) sum += in[row.x * columns + column];
    out[row.x] = sum;
  }
}
// [docs: end]
"""

COUNT = 1000
GRID, GROUP = (4, 1, 1), (256, 1, 1)


def compiled(source: str = SOURCE, language: str = "c++", options: str = "", index: int = 0) -> Any:
    return _C.compile_kernels(index, language, source, options)


@pytest.fixture(scope="module")
def module() -> Any:
    return compiled()


@pytest.fixture
def scale(module: Any) -> Callable[[torch.Tensor, torch.Tensor, float], None]:
    kernel = module.kernel("scale", results=1, operands=1, numbers="if")

    def launch(out: torch.Tensor, x: torch.Tensor, factor: float) -> None:
        kernel.launch([out, x], [x.numel(), factor], GRID, GROUP)

    return launch


Scale = Callable[[torch.Tensor, torch.Tensor, float], None]


def numbers(device: torch.device, count: int = COUNT) -> torch.Tensor:
    return torch.arange(count, dtype=torch.float32, device=device)


# --- launches ---------------------------------------------------------------------------------------------------------


def test_host_driver_compiles_cpp() -> None:
    assert _C.compiler_languages(0) == ["c++"]


def test_launch_reads_operands_and_writes_results(device: torch.device, scale: Scale) -> None:
    x = numbers(device)
    out = torch.empty_like(x)
    scale(out, x, 2.5)
    assert torch.equal(out.cpu(), torch.arange(COUNT) * 2.5)


def test_operands_begin_where_their_views_begin(device: torch.device, scale: Scale) -> None:
    x = numbers(device, 2 * COUNT)
    out = torch.zeros_like(x)
    scale(out[10 : 10 + COUNT], x[COUNT:], 2)
    expected = torch.zeros(2 * COUNT)
    expected[10 : 10 + COUNT] = torch.arange(COUNT, 2 * COUNT) * 2
    assert torch.equal(out.cpu(), expected)


def test_launches_and_operators_run_in_order(device: torch.device, scale: Scale) -> None:
    x = numbers(device)
    for _ in range(5):
        scale(x, x, 2)
        x.add_(1)
    assert torch.equal(x.cpu(), torch.arange(COUNT) * 32.0 + 31)


def test_group_per_row(device: torch.device, module: Any) -> None:
    x = torch.arange(64 * 48, dtype=torch.float32, device=device).view(64, 48)
    out = torch.empty(64, device=device)
    module.kernel("row_sums", results=1, operands=1, numbers="i").launch((out, x), (48,), (64, 1, 1))
    assert torch.equal(out.cpu(), x.cpu().sum(1))


def test_launch_is_on_the_current_stream(device: torch.device, scale: Scale) -> None:
    x = numbers(device)
    side = torch.mydev.Stream()
    side.wait_stream(torch.mydev.current_stream())
    with torch.mydev.stream(side):
        scale(x, x, 2)
        scale(x, x, 2)
    side.synchronize()
    assert torch.equal(x.cpu(), torch.arange(COUNT) * 4.0)


def test_memory_shared_until_written_stays_as_it_was(device: torch.device, scale: Scale) -> None:
    x = numbers(device)
    lazy = torch._lazy_clone(x)
    scale(lazy, lazy, 2)
    assert torch.equal(x.cpu(), torch.arange(COUNT, dtype=torch.float32))
    assert torch.equal(lazy.cpu(), torch.arange(COUNT) * 2.0)


def test_module_goes_while_its_launches_are_pending(device: torch.device) -> None:
    x = numbers(device)
    module = compiled()
    kernel = module.kernel("scale", results=1, operands=1, numbers="if")
    for _ in range(10):
        kernel.launch([x, x], [COUNT, 2.0], GRID, GROUP)
    del module, kernel
    gc.collect()
    assert torch.equal(x.cpu(), torch.arange(COUNT) * 1024.0)


def test_kernels_of_a_binary(device: torch.device, module: Any) -> None:
    loaded = _C.compile_kernels(0, "binary", module.binary())
    x = numbers(device)
    loaded.kernel("scale", results=1, operands=1, numbers="if").launch([x, x], [COUNT, 3], GRID, GROUP)
    assert torch.equal(x.cpu(), torch.arange(COUNT) * 3.0)


def test_options_are_the_compilers(device: torch.device) -> None:
    source = "MYDEV_KERNEL(write, float* out) { out[0] = VALUE; }"
    out = torch.zeros(1, device=device)
    for value in (1, 2):
        module = compiled(source, options=f"-DVALUE={value} -DOTHER")
        module.kernel("write", results=1).launch([out], [], (1, 1, 1))
        assert out.item() == value


# --- what one sees of them --------------------------------------------------------------------------------------------


def test_statistics_and_errors_call_a_kernel_by_its_name(device: torch.device, module: Any) -> None:
    kernel = module.kernel("scale", results=1, operands=1, numbers="if")
    x = numbers(device)
    with torch.mydev.launch_statistics() as statistics:
        kernel.launch([x, x], [COUNT, 2], GRID, GROUP)
        torch.mydev.synchronize()
    assert [(row.kind, row.name, row.calls, row.bytes) for row in statistics.rows] == [
        ("launch", "compiled.scale", 1, 8 * COUNT)
    ]
    assert kernel.name == "compiled.scale"


def test_failure_names_kernel_operands_and_line(run_python: RunPython) -> None:
    code = f"""
import torch, torch_mydev
from torch_mydev import _C
kernel = _C.compile_kernels(0, "c++", {SOURCE!r}).kernel("scale", results=1, operands=1, numbers="if")
x = torch.empty(10, device="mydev")
kernel.launch([x, x], [10, 2], (1, 1, 1))  # the line
torch.mydev.synchronize()
"""
    result = run_python(code, MYDEV_DRIVER="host:async,faults=launch@1")
    message = result.stderr
    assert "injected fault in launch number 1" in message
    assert "compiled.scale(out f32[10], f32[10]; i0=10, f1=2)" in message
    assert re.search(r"launched at .*:6", message), message


# --- what is refused --------------------------------------------------------------------------------------------------


def test_bad_source_raises_what_the_compiler_says() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)kernel\.cpp:2:.*missing"):
        compiled("\nMYDEV_KERNEL(f, float* out) { out[0] = missing; }")


@pytest.mark.parametrize(
    ("tensors", "scalars", "message"),
    [
        (["x"], [COUNT, 2.0], "compiled.scale takes 2 tensors, got 1"),
        (["x", "x"], [COUNT], "compiled.scale takes 2 numbers, got 1"),
        (["x", 3], [COUNT, 2.0], "argument 1 is a int, not a tensor"),
        (["x", "cpu"], [COUNT, 2.0], "argument 1 is on cpu, the kernel was compiled for mydev:0"),
        (["x", "x"], ["many", 2.0], "Unable to cast"),
        (["x", "x"], [COUNT, "twice"], "must be real number"),
    ],
)
def test_launch_refuses_other_arguments(
    device: torch.device, module: Any, tensors: Sequence[Any], scalars: Sequence[Any], message: str
) -> None:
    x = numbers(device)
    known = {"x": x, "cpu": torch.ones(1)}
    kernel = module.kernel("scale", results=1, operands=1, numbers="if")
    given = [known.get(each, each) for each in tensors]
    with pytest.raises((ValueError, TypeError, RuntimeError), match=message):
        kernel.launch(given, scalars, GRID, GROUP)


def test_a_kernel_makes_its_launch_fail_and_the_next_one_works(device: torch.device) -> None:
    source = """MYDEV_KERNEL(check, float* out, int64_t bad) {
      MYDEV_FOR_THREADS(i, 8) { out[i] = i; if (i == bad) mydev_call.fail("number is bad"); }
    }"""
    kernel = compiled(source).kernel("check", results=1, numbers="i")
    out = torch.empty(8, device=device)
    with pytest.raises(IndexError, match="number is bad"):
        kernel.launch([out], [3], (8, 1, 1))
        torch.mydev.synchronize()
    kernel.launch([out], [-1], (8, 1, 1))
    assert out.tolist() == list(range(8))


def test_what_operands_may_not_be(device: torch.device, scale: Scale) -> None:
    x = numbers(device)
    short = torch.empty_like(x)
    short.untyped_storage().resize_(8)
    with pytest.raises(ValueError, match="argument 1 reaches beyond its storage, which has 8 bytes"):
        scale(x, short, 2)
    negated = torch._neg_view(numbers(device))
    scale(x, negated, 1)
    assert torch.equal(x.cpu(), -torch.arange(COUNT, dtype=torch.float32))
    with pytest.raises(RuntimeError, match="argument 0 is a negated view"):
        scale(negated, x, 2)


def test_unknown_kernels_languages_and_devices_are_refused(module: Any) -> None:
    with pytest.raises(RuntimeError, match="no kernel 'missing'"):
        module.kernel("missing", results=1)
    with pytest.raises((RuntimeError, ValueError), match=r"compiles no 'fortran'; it takes 'c\+\+' and 'binary'"):
        compiled(language="fortran")
    with pytest.raises((RuntimeError, ValueError), match="invalid device index 99"):
        compiled(index=99)


def test_device_without_a_compiler_says_so(run_python: RunPython) -> None:
    code = """
import torch, torch_mydev
from torch_mydev import _C
print(_C.compiler_languages(0), "compiler" in [name for name, *_ in _C.driver_extensions()])
try:
    _C.compile_kernels(0, "c++", "")
except (RuntimeError, NotImplementedError) as error:
    print(error)
"""
    result = run_python(code, CXX="/nowhere/c++")
    assert result.stdout.splitlines()[0] == "[] False"
    assert "driver 'host' has no extension 'compiler'" in result.stdout


# --- captured launches ------------------------------------------------------------------------------------------------


def test_captured_launches_are_steps_of_the_program(device: torch.device, scale: Scale, tmp_path: Path) -> None:
    x = numbers(device)

    def work() -> torch.Tensor:
        out = torch.empty_like(x)
        scale(out, x, 2)
        return out + 1

    graph, result = capture(work)
    x.fill_(5)
    graph.replay()
    assert torch.equal(result.cpu(), torch.full((COUNT,), 11.0))


def test_captured_launch_keeps_its_module(device: torch.device) -> None:
    x = numbers(device)
    module = compiled()
    kernel = module.kernel("scale", results=1, operands=1, numbers="if")
    graph, _ = capture(partial(kernel.launch, [x, x], [COUNT, 2.0], GRID, GROUP), warm_up=0)
    del module, kernel
    gc.collect()
    for _ in range(3):
        graph.replay()
    assert torch.equal(x.cpu(), torch.arange(COUNT) * 8.0)


def test_what_a_captured_kernel_updates_is_read_too(device: torch.device, module: Any) -> None:
    add = module.kernel("add_to", results=0, updated=1, operands=1, numbers="i")
    x = torch.ones(COUNT, device=device)

    def work() -> torch.Tensor:
        total = x * 2
        add.launch([total, x], [COUNT], GRID, GROUP)
        add.launch([total, total], [COUNT], GRID, GROUP)
        return total

    graph, total = capture(work)
    x.fill_(3)
    graph.replay()
    assert torch.equal(total.cpu(), torch.full((COUNT,), 18.0))


def test_printed_graph_shows_kernel_geometry_and_numbers(device: torch.device, scale: Scale, tmp_path: Path) -> None:
    x = numbers(device)
    graph = torch.mydev.MyDevGraph()
    graph.enable_debug_mode()
    side = torch.mydev.Stream()
    with torch.mydev.graph(graph, stream=side):
        scale(x, x, 2)
    graph.debug_dump(str(tmp_path / "graph"))
    texts = "\n".join(path.read_text() for path in tmp_path.iterdir())
    assert "compiled.scale(" in texts
    assert "i0=1000, f1=2.0, grid=[4,1,1], group=[256,1,1], local_memory=0" in texts
