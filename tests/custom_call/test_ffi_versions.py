"""Handlers built with the headers of several versions of XLA's FFI: layouts, registration, and what a call can ask."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import mydev
import torch_mydev
from support.checkout import ROOT
from support.sample_kernels import values
from support.xla_headers import xla_headers
from torch_mydev import ffi_call, register_ffi_target

INVALID_ARGUMENT = 3


@dataclass(frozen=True)
class Handlers:
    """The handlers of tests/kernels/ffi_of_version.cpp, built with the headers of one jaxlib, and loaded."""

    minor: int  # of the FFI
    prefix: str
    library: Path

    def __getattr__(self, name: str) -> str:
        return f"{self.prefix}.{name}"


#: The minor versions of the FFI, and a jaxlib with its headers.
JAXLIBS = {3: "0.11.0", 4: "0.11.2", 5: "0.12.0.1"}


def since(minor: int) -> pytest.MarkDecorator:
    """With the handlers of this minor version, and of those after it."""
    return pytest.mark.parametrize("handlers", [x for x in JAXLIBS if x >= minor], indirect=True, ids="v0.{}".format)


@pytest.fixture(scope="module", params=JAXLIBS, ids="v0.{}".format)
def handlers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Handlers:
    minor = request.param
    jaxlib = JAXLIBS[minor]
    headers = xla_headers(jaxlib)
    library = tmp_path_factory.mktemp("ffi_of_version") / "handlers.so"
    prefix, ours = f"jaxlib_{jaxlib}", mydev.library_dir()
    command = ["c++", "-std=c++17", "-shared", "-fPIC", f'-DPREFIX="{prefix}"', "-isystem", str(headers)]
    command += [f"-I{ROOT / 'csrc'}", str(ROOT / "tests" / "kernels" / "ffi_of_version.cpp"), "-o", str(library)]
    command += [f"-L{ours}", "-lmydev_xla_ffi", f"-Wl,-rpath,{ours}"]
    subprocess.run(command, check=True)  # the layouts are compared while it is compiled
    torch_mydev.load_custom_calls(library)
    return Handlers(minor, prefix, library)


def test_registration_has_the_traits_of_the_handler(handlers: Handlers) -> None:
    info = torch_mydev.kernel_info(handlers.scale)
    assert info["traits"] == ["command_buffer_compatible"]
    assert info["stages"] == ["execute"]
    assert torch_mydev.kernel_info(handlers.details)["traits"] == []


def test_handler_runs_and_fails_with_its_own_code(handlers: Handlers) -> None:
    x = values(5).to("mydev")
    scale = ffi_call(handlers.scale, x)
    torch.testing.assert_close(scale(x, factor=np.float32(3)), 3 * x)
    with pytest.raises(RuntimeError, match="factor is negative.*OUT_OF_RANGE"):
        scale(x, factor=np.float32(-1))
        torch.accelerator.synchronize()


def test_error_of_the_host_tells_its_code_and_message(handlers: Handlers) -> None:
    code, length = ffi_call(handlers.details, ((2,), torch.float32))().tolist()
    assert code == (INVALID_ARGUMENT if handlers.minor >= 4 else 0)
    assert length == len("the arguments of Stream_Get need a struct_size of at least 32")


@since(4)
def test_extension_that_is_absent_is_an_error_of_the_call(handlers: Handlers) -> None:
    with pytest.raises(ValueError, match="Extension Unknown not found in context"):
        ffi_call(handlers.extend, ((1,), torch.float32))()
        torch.accelerator.synchronize()


@since(5)
def test_custom_options_are_empty(handlers: Handlers) -> None:
    assert ffi_call(handlers.options, ((1,), torch.float32))().tolist() == [0]


@since(4)
def test_bundle_with_the_stage_record_is_taken(handlers: Handlers) -> None:
    functions = ctypes.CDLL(str(handlers.library))
    execute, record = (ctypes.c_void_p.in_dll(functions, f"{stage}_handler").value for stage in ("scale", "record"))
    name = f"{handlers.prefix}.with_record"
    register_ffi_target(name, {"execute": execute, "record": record})
    x = values(5).to("mydev")
    torch.testing.assert_close(ffi_call(name, x)(x, factor=np.float32(2)), 2 * x)
    with pytest.raises(ValueError, match="there is no code"):
        register_ffi_target(f"{name}_bad", {"execute": execute, "record": 4096})
