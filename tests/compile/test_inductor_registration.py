"""Inductor's questions to the device from torch 2.15 on: to its module, its interface and its code generator."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.device_interface import get_interface_for_device

from support.like_eager import X, graphs
from support.torch_version import needs_torch
from torch_mydev.compile.decompositions import code_version

Run = Callable[..., "subprocess.CompletedProcess[str]"]
mydev: Any = torch.mydev
interface: Any = get_interface_for_device("mydev")


def overrides() -> Any:
    from torch._inductor.codegen.common import get_device_op_overrides

    mydev._inductor_backend_init()
    return get_device_op_overrides("mydev")


FIRST_COMPILATION = """
import sys, torch
from torch._inductor.codegen import common
print(common.get_scheduling_for_device("mydev"), "torch_mydev.compile.kernels.scheduling" in sys.modules)
torch.compile(lambda x: x + 1)(torch.ones(3))
print(common.get_scheduling_for_device("mydev").__name__)
"""


@needs_torch("2.15")
def test_inductor_registers_the_device_when_it_first_compiles(run_python: Run) -> None:
    result = run_python(FIRST_COMPILATION, fresh=True)
    assert result.stdout.splitlines() == ["None False", "KernelScheduling"], result.stderr


def test_registering_again_keeps_what_is_registered() -> None:
    from torch._inductor.codegen import common

    mydev._inductor_backend_init()
    first = common.device_codegens["mydev"]
    mydev._inductor_backend_init()
    assert common.device_codegens["mydev"] is first


@needs_torch("2.15")
def test_the_device_is_not_taken_for_a_gpu() -> None:
    from torch._inductor.utils import GPU_TYPES, device_need_guard

    assert interface.exposes_streams()
    assert not interface.is_gpu()
    assert "mydev" not in GPU_TYPES
    assert not device_need_guard("mydev")


@needs_torch("2.15")
def test_the_interface_counts_processors_as_the_device_does() -> None:
    assert interface.get_multi_processor_count() == torch.mydev.get_device_properties().multi_processor_count


@needs_torch("2.15")
def test_the_cache_of_code_is_of_this_packages_version() -> None:
    from torch._inductor.codecache import CacheBase

    info: Any = CacheBase.get_system()
    assert info["device_interfaces"]["mydev"] == {"code": code_version()}


@needs_torch("2.15")
def test_cpp_for_the_device_is_compiled_without_more_options() -> None:
    from torch._inductor import cpp_builder

    assert cpp_builder.get_cpp_torch_device_options("mydev") == ([], [], [], [], [], [], [])


def test_generated_code_names_the_device() -> None:
    operations = overrides()
    assert operations.aten_device_type() == "at::kPrivateUse1"
    assert eval(operations.current_device_idx_expr(), {"torch": torch}) == torch.mydev.current_device()


@needs_torch("2.15")
def test_the_wrapper_of_generated_code_is_not_that_of_gpus() -> None:
    assert not overrides().uses_gpu_cpp_wrapper()


# --- options of torch.compile -----------------------------------------------------------------------------------------


def compiled(value: Any) -> Callable[..., Any]:
    return torch.compile(lambda x: x * 3 - 13, backend="mydev_kernels", options={"mydev.kernel_generation": value})


@pytest.fixture
def no_kernels(fresh_compiler: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_mydev.compile.kernels import backend

    def fail(*arguments: Any) -> None:
        raise NotImplementedError("no kernels today")

    monkeypatch.setattr(backend, "_leave_to_the_device", fail)


@needs_torch("2.15")
@pytest.mark.usefixtures("no_kernels")
def test_an_option_of_the_device_overrides_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    x = X.to("mydev")
    monkeypatch.setenv("MYDEV_KERNEL_GENERATION", "raise")
    torch.testing.assert_close(compiled("programs")(x), x * 3 - 13)
    assert [graph.route for graph in graphs()] == ["program"]
    torch._dynamo.reset()
    monkeypatch.setenv("MYDEV_KERNEL_GENERATION", "programs")
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="no kernels today"):
        compiled("raise")(x)


@needs_torch("2.15")
@pytest.mark.usefixtures("fresh_compiler")
def test_an_unknown_value_of_an_option_is_named() -> None:
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="not 'sometimes'"):
        compiled("sometimes")(X.to("mydev"))


def test_words_for_generated_python_do_what_they_say() -> None:
    words, names = overrides(), {"torch": torch}
    exec(words.import_get_raw_stream_as("get_raw_stream"), names)
    assert "get_raw_stream" in names
    with eval(words.device_guard(torch.mydev.device_count() - 1), names):
        assert torch.mydev.current_device() == torch.mydev.device_count() - 1
        eval(words.set_device(0), names)
        assert torch.mydev.current_device() == 0
        assert eval(words.current_stream(), names) == torch.mydev.current_stream()
        torch.mydev._sleep(1_000_000)
        eval(words.synchronize(), names)
        assert torch.mydev.current_stream().query()
