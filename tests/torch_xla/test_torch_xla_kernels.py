"""Kernels of the example library in programs of PyTorch/XLA, by torch_xla's custom call.

Runs as test_torch_xla.py does. Builds the library with the project's own interpreter, which has CMake.
"""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path

import pytest
from processes import output, run

_ROOT = Path(__file__).parents[2]

_START = """
import torch, torch_xla
from torch_xla.experimental.stablehlo_custom_call import stablehlo_custom_call
d = torch_xla.device()
def call(name, operands, results=1, **options):
    operands = [operand.to(d) for operand in operands]
    shape, dtype = operands[-1].shape, operands[-1].dtype
    return stablehlo_custom_call(operands, "example." + name, [shape] * results, [dtype] * results, **options)
x, y = torch.linspace(-3, 3, 8), torch.arange(8.0)
count, scale = torch.tensor(8), torch.tensor(2.5)
"""

#: Calls of XLA's versions of the interface, and their expected results.
_CALLS = {
    "strided, with attributes": (
        'call("softcap", [x], api_version=4, backend_config="{cap = 2.0 : f32}")',
        "2 * torch.tanh(x / 2)",
    ),
    "original": ('call("original_axpy", [count, scale, x, y], api_version=1)', "2.5 * x + y"),
    "status-returning": ('call("status_sqrt", [count, y], api_version=2)', "y.sqrt()"),
    "unified, two results": (
        'torch.stack(call("unified_polynomial", [count, x], 2, api_version=3, backend_config="1 0 0.5"))',
        "torch.stack([1 + 0.5 * x * x, x])",
    ),
    "in a larger program": (
        'call("softcap", [x.to(d) * 2], api_version=4, backend_config="{cap = 2.0 : f32}") + y.to(d)',
        "2 * torch.tanh(x) + y",
    ),
}


@cache
def _library() -> str:
    build = [str(_ROOT / ".venv/bin/python"), str(_ROOT / "examples/custom_calls/build_library.py")]
    return subprocess.run(build, check=True, capture_output=True, text=True).stdout.strip()


@cache
def _differences(driver: str) -> dict[str, str]:
    """Returns what assert_close says of each call, "" if it passes. All share a process: it takes long to start."""
    checks = "".join(
        f"""
try:
    torch.testing.assert_close(({actual}).cpu(), {expected})
    found[{name!r}] = ""
except Exception as error:
    found[{name!r}] = str(error)
"""
        for name, (actual, expected) in _CALLS.items()
    )
    code = f"{_START}import json\nfound = {{}}{checks}print(json.dumps(found))"
    loaded = json.loads(output(code, driver=driver, MYDEV_CUSTOM_CALLS=_library()))
    assert isinstance(loaded, dict)
    return loaded


@pytest.mark.parametrize("driver", ["host", "host:remote,async,guarded"])
@pytest.mark.parametrize("name", _CALLS)
def test_kernel_computes_as_its_composition(name: str, driver: str) -> None:
    assert _differences(driver)[name] == ""


def test_what_a_kernel_refuses_is_an_error_and_the_next_call_works() -> None:
    code = f"""{_START}
try:
    print(call("status_sqrt", [count, x], api_version=2).cpu())
except (RuntimeError, ValueError) as error:
    print("error:", error)
print(call("status_sqrt", [count, y * y], api_version=2).tolist())
"""
    lines = output(code, MYDEV_CUSTOM_CALLS=_library()).splitlines()
    assert "square root of a negative number" in lines[0]
    assert lines[-1] == str([float(i) for i in range(8)])


def test_a_kernel_that_is_not_there_is_an_error() -> None:
    result = run(["-c", f"{_START}print(call('absent', [x], api_version=4).cpu())"], "MYDEV")
    assert result.returncode == 1
    assert "example.absent" in result.stderr
