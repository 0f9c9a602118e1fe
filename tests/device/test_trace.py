"""The dispatch trace: what it tells, to whom, and that it costs and leaves nothing."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_mydev
from support.checkout import ROOT, environment
from support.fork_server import ForkServer
from torch_mydev import dispatch_trace

LINE = re.compile(
    r"^ +\[(call|redispatch)\] op=\[[\w:]+(\.\w+)*\], key=\[\w+\]$|^ +\[launch\] kernel=\[[\w.:-]+\]$"
    r"|^ +\[(copy|fill)\] what=\[[a-z ]+\], bytes=\[\d+\]$"
)


def ops(lines: list[str]) -> list[tuple[int, str, str, str]]:
    """(nesting, label, op, key) of each line that tells of an op."""
    found = [re.match(r"^( +)\[(\w+)\] op=\[([^\]]+)\], key=\[([^\]]+)\]$", line) for line in lines]
    return [(len(m[1]), m[2], m[3], m[4]) for m in found if m]


def outermost(lines: list[str]) -> list[str]:
    return [op for nesting, _, op, _ in ops(lines) if nesting == 1]


@pytest.fixture
def tensor() -> torch.Tensor:
    return torch.ones(4, 4, device="mydev")


def test_call_and_redispatch_of_an_op(tensor: torch.Tensor) -> None:
    lines: list[str] = []
    with dispatch_trace(lines):
        tensor + tensor
    assert ops(lines)[:2] == [
        (1, "call", "aten::add.Tensor", "AutogradPrivateUse1"),
        (2, "redispatch", "aten::add.Tensor", "PrivateUse1"),
    ]


def test_trace_of_the_guide_is_what_its_lines_give(tensor: torch.Tensor) -> None:
    page = (ROOT / "docs" / "debugging.md").read_text(encoding="utf-8")
    shown = re.search(r"^```text\n( \[call\].*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert shown is not None
    lines: list[str] = []
    with dispatch_trace(lines):
        (tensor + 1).mul_(2)
    assert lines == shown[1].splitlines()


def test_lines_have_the_format_of_pytorch(tensor: torch.Tensor) -> None:
    lines: list[str] = []
    with dispatch_trace(lines):
        torch.nn.functional.layer_norm(tensor @ tensor, (4,)).sum().item()
    assert lines
    assert all(LINE.match(line) for line in lines), lines


def test_keys_below_autograd_in_no_grad_and_inference_mode(tensor: torch.Tensor) -> None:
    lines: list[str] = []
    with torch.inference_mode(), dispatch_trace(lines):
        torch.ones(2, device="mydev").relu()
    assert ("aten::relu", "PrivateUse1") in [(op, key) for _, _, op, key in ops(lines)]
    assert "Autograd" not in "".join(lines)


def test_view_passes_through_the_in_place_or_view_key(tensor: torch.Tensor) -> None:
    lines: list[str] = []
    with dispatch_trace(lines):
        tensor.view(16)
    assert ops(lines)[:3] == [
        (1, "call", "aten::view", "AutogradPrivateUse1"),
        (2, "redispatch", "aten::view", "ADInplaceOrView"),
        (3, "redispatch", "aten::view", "PrivateUse1"),
    ]


def test_factory_shows_the_backend_that_was_selected() -> None:
    lines: list[str] = []
    with dispatch_trace(lines):
        torch.empty(3, device="mydev")
    assert ops(lines) == [
        (1, "call", "aten::empty.memory_format", "BackendSelect"),
        (2, "redispatch", "aten::empty.memory_format", "PrivateUse1"),
    ]


def test_composite_op_nests_what_it_calls(tensor: torch.Tensor) -> None:
    lines: list[str] = []
    with dispatch_trace(lines):
        torch.nn.functional.linear(tensor, tensor)
    traced = ops(lines)
    assert traced[0][:3] == (1, "call", "aten::linear")
    assert all(nesting > 1 for nesting, *_ in traced[1:])


def test_launch_is_traced_below_its_op(tensor: torch.Tensor) -> None:
    lines: list[str] = []
    with dispatch_trace(lines):
        torch.ops.mydev.swiglu(tensor, tensor)
    launches = [line for line in lines if "[launch]" in line]
    assert [line.strip() for line in launches] == ["[launch] kernel=[mydev.swiglu]"]
    assert len(launches[0]) - len(launches[0].lstrip()) > 2


def test_fallback_tells_the_cpu_kernel(tensor: torch.Tensor) -> None:
    lines: list[str] = []
    with dispatch_trace(lines):
        torch.linalg.eigvals(tensor)
    assert "CPU" in [key for _, label, _, key in ops(lines) if label == "redispatch"]


def test_backward_is_traced() -> None:
    leaf = torch.ones(3, device="mydev", requires_grad=True)
    loss = (leaf * leaf).sum()
    lines: list[str] = []
    with dispatch_trace(lines):
        loss.backward()
    assert any(op.startswith("aten::mul") for _, _, op, _ in ops(lines))


def test_copies_from_the_host_are_work_on_the_device() -> None:
    lines: list[str] = []
    with dispatch_trace(lines):
        torch.ones(3).to("mydev")
    assert "aten::copy_" in [op for _, _, op, _ in ops(lines)]


def test_cpu_work_is_traced_only_on_request() -> None:
    host = torch.ones(3)
    quiet: list[str] = []
    everything: list[str] = []
    with dispatch_trace(quiet):
        host + host
    with dispatch_trace(everything, all_devices=True):
        host + host
    assert quiet == []
    assert ops(everything)[0] == (1, "call", "aten::add.Tensor", "AutogradCPU")


def test_nothing_is_traced_after_the_block(tensor: torch.Tensor) -> None:
    lines: list[str] = []
    with dispatch_trace(lines):
        pass
    tensor + tensor
    assert lines == []


def test_inner_block_takes_the_lines_and_gives_them_back(tensor: torch.Tensor) -> None:
    outer: list[str] = []
    inner: list[str] = []
    with dispatch_trace(outer):
        with dispatch_trace(inner):
            tensor.sin()
        tensor.cos()
    assert outermost(inner) == ["aten::sin"]
    assert outermost(outer) == ["aten::cos"]


def test_profiler_that_outlives_the_block_does_no_harm(tensor: torch.Tensor) -> None:
    outer: list[str] = []
    with dispatch_trace(outer):
        block = dispatch_trace([])
        block.__enter__()
        profiler = torch.autograd.profiler.profile()
        profiler.__enter__()
        block.__exit__(None, None, None)
        tensor.cos()
        profiler.__exit__(None, None, None)
    assert "aten::cos" in [op for _, _, op, _ in ops(outer)]


def test_nesting_is_right_after_an_op_that_raises(tensor: torch.Tensor) -> None:
    lines: list[str] = []
    with dispatch_trace(lines):
        with pytest.raises(RuntimeError):
            tensor @ torch.ones(3, 3, device="mydev")
        lines.clear()
        tensor.sin()
    assert ops(lines)[0][0] == 1


def test_block_left_by_an_exception_ends(tensor: torch.Tensor) -> None:
    lines: list[str] = []
    with pytest.raises(KeyError), dispatch_trace(lines):
        raise KeyError
    tensor.sin()
    assert lines == []


def test_writes_to_a_path(tensor: torch.Tensor, tmp_path: Path) -> None:
    path = tmp_path / "trace.txt"
    with dispatch_trace(path):
        tensor.sin()
    assert path.read_text().startswith(" [call] op=[aten::sin], key=[AutogradPrivateUse1]\n")


def test_writes_to_a_file_object(tensor: torch.Tensor) -> None:
    file = io.StringIO()
    with dispatch_trace(file):
        tensor.sin()
    assert file.getvalue().startswith(" [call] op=[aten::sin], key=[AutogradPrivateUse1]\n")


def test_writes_to_stderr_by_default(tensor: torch.Tensor, capsys: pytest.CaptureFixture[str]) -> None:
    with dispatch_trace():
        tensor.sin()
    assert capsys.readouterr().err.startswith(" [call] op=[aten::sin]")


def test_writer_that_fails_does_not_fail_the_op(tensor: torch.Tensor) -> None:
    class Broken:
        def write(self, text: str) -> None:
            raise OSError("no space")

    reported: list[object] = []
    previous, sys.unraisablehook = sys.unraisablehook, reported.append
    try:
        with dispatch_trace(Broken()):
            result = tensor.sin()
    finally:
        sys.unraisablehook = previous
    assert reported
    torch.testing.assert_close(result.cpu(), torch.ones(4, 4).sin())


def test_writer_that_works_on_the_device_is_not_traced_itself(tensor: torch.Tensor) -> None:
    class Counting:
        lines = 0

        def write(self, text: str) -> None:
            self.lines += int(tensor.cos().numel() > 0)

    counting = Counting()
    with dispatch_trace(counting):
        tensor.sin()
    assert counting.lines >= 2


def test_threads_started_in_the_block_are_traced(tensor: torch.Tensor) -> None:
    lines: list[str] = []
    with dispatch_trace(lines):
        thread = threading.Thread(target=tensor.sin)
        thread.start()
        thread.join()
    assert outermost(lines) == ["aten::sin"]
    assert threading.getprofile() is None


def test_threads_have_their_own_blocks(tensor: torch.Tensor) -> None:
    mine: list[str] = []
    others: list[str] = []

    def work() -> None:
        with dispatch_trace(others):
            tensor.cos()

    thread = threading.Thread(target=work)
    with dispatch_trace(mine):
        tensor.sin()
        thread.start()
        thread.join()
    assert outermost(mine) == ["aten::sin"]
    assert outermost(others) == ["aten::cos"]


def test_lines_of_many_threads_are_whole(tensor: torch.Tensor, tmp_path: Path) -> None:
    path = tmp_path / "trace.txt"

    def work() -> None:
        for _ in range(50):
            torch.nn.functional.linear(tensor, tensor)

    with dispatch_trace(path):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lines = path.read_text().splitlines()
    assert sum("op=[aten::linear]" in line for line in lines) == 200
    assert all(LINE.match(line) for line in lines)


Run = Callable[[str, "str | None"], "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(fork_server: ForkServer) -> Run:
    """Runs code in a process of its own with this value of TORCH_SHOW_DISPATCH_TRACE, or without the variable."""

    def run(code: str, value: str | None) -> subprocess.CompletedProcess[str]:
        variables = environment(**({} if value is None else {"TORCH_SHOW_DISPATCH_TRACE": value}))
        if value is None:
            variables.pop("TORCH_SHOW_DISPATCH_TRACE", None)
        done = fork_server.run("import torch, torch_mydev\n" + textwrap.dedent(code), variables)
        assert done.returncode == 0, done.stderr
        return done

    return run


def test_environment_variable_traces_the_process(run: Run) -> None:
    done = run("a = torch.ones(2, device='mydev')\nb = a + a\n", "1")
    assert " [call] op=[aten::add.Tensor], key=[AutogradPrivateUse1]\n" in done.stderr
    assert "  [redispatch] op=[aten::add.Tensor], key=[PrivateUse1]\n" in done.stderr


def test_environment_variable_traces_threads_started_later(run: Run) -> None:
    code = """
        import threading
        a = torch.ones(2, device="mydev")
        thread = threading.Thread(target=a.erfinv)
        thread.start()
        thread.join()
    """
    assert "op=[aten::erfinv]" in run(code, "1").stderr


@pytest.mark.parametrize("value", [None, "0"])
def test_environment_variable_off(run: Run, value: str | None) -> None:
    done = run("a = torch.ones(2, device='mydev') + 1\n", value)
    assert "[call]" not in done.stderr


def test_environment_variable_with_another_value_is_named(run: Run) -> None:
    assert "TORCH_SHOW_DISPATCH_TRACE=yes is ignored" in run("", "yes").stderr


def test_is_exported() -> None:
    assert torch_mydev.dispatch_trace is dispatch_trace


def test_trace_that_outlives_the_interpreter_does_no_harm(run_python: Callable[..., Any]) -> None:
    code = """
        import torch, torch_mydev
        block = torch_mydev.dispatch_trace([])
        block.__enter__()
        profiler = torch.autograd.profiler.profile()
        profiler.__enter__()
        block.__exit__(None, None, None)
        profiler.__exit__(None, None, None)
    """
    done = run_python(textwrap.dedent(code), fresh=True)
    assert done.returncode == 0, done.stderr
    own = ("USDT:", "gpuGetDeviceCount failed")  # the profiler's, the latter of a torch for CUDA where there is none
    assert [line for line in done.stderr.splitlines() if not any(text in line for text in own)] == []
