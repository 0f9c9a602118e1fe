"""Extending the backend: the six ways of PyTorch's accelerator guide in C++ and in Python, and the guide's own text."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.library import opcheck

import torch_mydev
from support.checkout import BUILD, ROOT
from torch_mydev import dispatch_trace, fallback_census, fallback_mode

# All of opcheck but the check of the autograd registration, which knows no devices but CPU, CUDA and XPU.
CHECKS = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
LIBRARY = BUILD / "examples" / "extending" / "libmydev_extending_example.so"


def load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def cpp() -> object:
    """torch.ops.example, with the C++ example loaded."""
    torch.ops.load_library(str(LIBRARY))
    return torch.ops.example


@pytest.fixture(scope="module")
def python() -> ModuleType:
    return load("extending_example", ROOT / "examples" / "extending" / "extending.py")


def values(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*sizes, dtype=dtype, generator=torch.Generator().manual_seed(3))


def traced(call: Callable[[], object]) -> str:
    lines: list[str] = []
    with dispatch_trace(lines):
        call()
    return "\n".join(lines)


# --- 1: operators for the device -------------------------------------------------------------------------------------


def test_kernel_of_the_example_is_launched(cpp: object) -> None:
    x = values(3, 4)
    on_device = x.to("mydev")
    torch.testing.assert_close(cpp.squared_relu(on_device).cpu(), x.relu().square())
    assert "[launch] kernel=[example.squared_relu]" in traced(lambda: cpp.squared_relu(on_device))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_kernel_hands_on_what_it_does_not_take(cpp: object, dtype: torch.dtype) -> None:
    x = values(3, 4, dtype=dtype)
    torch.testing.assert_close(cpp.squared_relu(x.to("mydev")).cpu(), x.relu().square())


def test_operator_of_pytorch_runs_the_examples_kernel(cpp: object) -> None:
    x = probabilities(3, 5)
    on_device = x.to("mydev")
    with fallback_mode("error", op="aten::logit"):
        actual = torch.logit(on_device, 0.1)
    torch.testing.assert_close(actual.cpu(), torch.logit(x, 0.1))
    with pytest.raises(TypeError, match="expected a floating dtype"):
        torch.logit(torch.ones(2, dtype=torch.int64, device="mydev"))


# --- 2: stubs --------------------------------------------------------------------------------------------------------

UNARY_STUBS = [
    "digamma",
    "lgamma",
    "erfinv",
    "sinc",
    "i0",
    "special.i0e",
    "special.i1",
    "special.i1e",
    "special.entr",
    "special.erfcx",
    "special.ndtri",
    "special.log_ndtr",
    "special.airy_ai",
    "special.bessel_j0",
    "special.bessel_j1",
    "special.bessel_y0",
    "special.bessel_y1",
    "special.modified_bessel_i0",
    "special.modified_bessel_i1",
    "special.modified_bessel_k0",
    "special.modified_bessel_k1",
    "special.scaled_modified_bessel_k0",
    "special.scaled_modified_bessel_k1",
    "special.spherical_bessel_j0",
]
BINARY_STUBS = ["special.zeta", "special.xlog1py", "igamma", "igammac", "hypot", "nextafter"]
IN_PLACE_STUBS = ["digamma_", "lgamma_", "erfinv_", "sinc_", "i0_", "igamma_", "igammac_", "hypot_", "nextafter_"]


def function(name: str) -> Callable[..., torch.Tensor]:
    owner, _, last = name.rpartition(".")
    return getattr(torch.special if owner else torch, last)


def probabilities(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.rand(*sizes, dtype=dtype, generator=torch.Generator().manual_seed(3)) * 0.9 + 0.05


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", UNARY_STUBS)
def test_unary_stub(name: str, dtype: torch.dtype) -> None:
    x = probabilities(3, 5, dtype=dtype)
    torch.testing.assert_close(function(name)(x.to("mydev")).cpu(), function(name)(x), equal_nan=True)


@pytest.mark.parametrize("name", BINARY_STUBS)
def test_binary_stub_broadcasts(name: str) -> None:
    a, b = probabilities(3, 1) + 1.5, probabilities(5)
    torch.testing.assert_close(function(name)(a.to("mydev"), b.to("mydev")).cpu(), function(name)(a, b))


@pytest.mark.parametrize("name", IN_PLACE_STUBS)
def test_in_place_stub(name: str) -> None:
    x = probabilities(3, 5)
    others = (probabilities(5),) if name.removesuffix("_") in BINARY_STUBS else ()
    on_device = x.to("mydev")
    result = getattr(on_device, name)(*(other.to("mydev") for other in others))
    assert result is on_device
    torch.testing.assert_close(on_device.cpu(), getattr(x.clone(), name)(*others))


def test_stub_writes_to_out_and_resizes_it() -> None:
    x = probabilities(3, 5)
    out = torch.empty(0, device="mydev")
    assert torch.digamma(x.to("mydev"), out=out) is out
    torch.testing.assert_close(out.cpu(), x.digamma())
    strided = torch.zeros(5, 3, device="mydev").t()
    torch.digamma(x.to("mydev"), out=strided)
    torch.testing.assert_close(strided.cpu(), x.digamma())


def test_stub_on_views_and_empty_tensors() -> None:
    x = probabilities(6, 5)
    torch.testing.assert_close(x.to("mydev").t()[1:, ::2].lgamma().cpu(), x.t()[1:, ::2].lgamma())
    assert torch.empty(0, 3, device="mydev").lgamma().shape == (0, 3)


def test_stub_refuses_overlapping_output() -> None:
    x = torch.ones(3, device="mydev").expand(2, 3)
    with pytest.raises(RuntimeError, match="single memory location"):
        x.digamma_()


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.bfloat16])
def test_stub_op_takes_other_dtypes(dtype: torch.dtype) -> None:
    x = torch.tensor([1, 1, 0, 1]).to(dtype)
    torch.testing.assert_close(x.to("mydev").i0().cpu(), x.i0())


def test_stub_op_mixes_dtypes() -> None:
    a, b = probabilities(4) + 1.5, probabilities(4, dtype=torch.float64)
    torch.testing.assert_close(torch.hypot(a.to("mydev"), b.to("mydev")).cpu(), torch.hypot(a, b))


def test_stub_op_has_gradients() -> None:
    x = probabilities(4, dtype=torch.float64).to("mydev").requires_grad_()
    assert gradcheck(torch.special.i0e, (x,))
    assert gradcheck(torch.lgamma, (x,))


def test_stub_op_is_counted_and_can_be_refused() -> None:
    x = torch.ones(3, device="mydev")
    with fallback_census() as census:
        x.digamma()
    assert {row.op: row.calls for row in census.rows} == {"aten::digamma": 1}
    with fallback_mode("error", op="aten::digamma"), pytest.raises(NotImplementedError, match="aten::digamma"):
        x.digamma()


def test_list_of_stubs_has_those_of_this_project() -> None:
    listing: str = load("list_stubs", ROOT / "tools" / "list_stubs.py").listing()
    count, *lines = listing.splitlines()
    assert int(count.split()[0]) == len(lines) > 400
    assert re.search(r"^CPU  here  ATen/native/UnaryOps\.h  digamma_stub  unary_fn$", listing, re.MULTILINE)
    assert re.search(r"^CPU        ATen/native/UnaryOps\.h  exp_stub  unary_fn$", listing, re.MULTILINE)
    source = (ROOT / "csrc/aten/core/operator_policy.h").read_text(encoding="utf-8")
    registered = re.findall(r"\bX\(\w+, (\w+_stub)\)", source)
    assert [stub for stub in registered if not re.search(rf"^CPU  here .* {stub} ", listing, re.MULTILINE)] == []


# --- 3: custom operators ---------------------------------------------------------------------------------------------


def swiglu_reference(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.silu(gate) * up


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_swiglu_matches_its_composition(dtype: torch.dtype) -> None:
    gate, up = values(3, 5).to(dtype), values(3, 5).flip(0).to(dtype)
    actual = torch.ops.mydev.swiglu(gate.to("mydev"), up.to("mydev"))
    torch.testing.assert_close(actual.cpu(), swiglu_reference(gate, up))


def test_swiglu_runs_its_kernels_both_ways() -> None:
    gate, up = (values(3, 5).to("mydev").requires_grad_() for _ in range(2))
    lines = traced(lambda: torch.ops.mydev.swiglu(gate, up).sum().backward())
    assert "[launch] kernel=[mydev.swiglu]" in lines
    assert "[launch] kernel=[mydev.swiglu_backward]" in lines


def test_swiglu_on_views_and_large_and_empty_tensors() -> None:
    base = values(7, 40_000)
    gate, up = base.t()[::3], base.t()[1::3]
    gate = gate[: up.shape[0]]
    device_base = base.to("mydev")
    actual = torch.ops.mydev.swiglu(device_base.t()[::3][: up.shape[0]], device_base.t()[1::3])
    torch.testing.assert_close(actual.cpu(), swiglu_reference(gate, up))
    assert torch.ops.mydev.swiglu(*[torch.empty(0, 2, device="mydev")] * 2).shape == (0, 2)


def test_swiglu_on_the_cpu() -> None:
    gate, up = (values(3, dtype=torch.float64).requires_grad_() for _ in range(2))
    torch.testing.assert_close(torch.ops.mydev.swiglu(gate, up), swiglu_reference(gate, up))
    assert gradcheck(torch.ops.mydev.swiglu, (gate, up))


def test_swiglu_gradients_of_every_order() -> None:
    gate, up = (values(2, 3, dtype=torch.float64).to("mydev").requires_grad_() for _ in range(2))
    assert gradcheck(torch.ops.mydev.swiglu, (gate, up))
    assert gradgradcheck(torch.ops.mydev.swiglu, (gate, up))


def _swiglu_loss(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return torch.ops.mydev.swiglu(gate, up).square().sum()


SWIGLU_TRANSFORMED: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "vmap": lambda g, u: torch.vmap(torch.ops.mydev.swiglu)(g, u),
    "vmap of the backward": lambda g, u: torch.vmap(torch.ops.mydev.swiglu_backward)(g, g, u),
    "jvp": lambda g, u: torch.func.jvp(torch.ops.mydev.swiglu, (g, u), (u, g)),
    "vmap of jvp": lambda g, u: torch.vmap(lambda g, u: torch.func.jvp(torch.ops.mydev.swiglu, (g, u), (u, g)))(g, u),
    "vjp": lambda g, u: torch.func.vjp(torch.ops.mydev.swiglu, g, u)[1](u),
    "vmap of vjp": lambda g, u: torch.vmap(lambda g, u: torch.func.vjp(torch.ops.mydev.swiglu, g, u)[1](u))(g, u),
    "grad": lambda g, u: torch.func.grad(_swiglu_loss, argnums=(0, 1))(g, u),
    "forward over reverse": lambda g, u: torch.func.jvp(torch.func.grad(_swiglu_loss), (g, u), (u, g)),
    "jacobian": lambda g, u: torch.func.jacrev(torch.ops.mydev.swiglu)(g, u),
}


@pytest.mark.filterwarnings("error:There is a performance drop")
@pytest.mark.parametrize("name", SWIGLU_TRANSFORMED)
def test_swiglu_under_transformations(name: str) -> None:
    gate, up = values(3, 5), values(3, 5).flip(0) + 1
    transformed = SWIGLU_TRANSFORMED[name]
    torch.testing.assert_close(transformed(gate.to("mydev"), up.to("mydev")), transformed(gate, up), check_device=False)


def test_swiglu_of_dual_tensors() -> None:
    def tangent(device: str) -> torch.Tensor:
        gate, up = values(3, 5).to(device), values(3, 5).flip(0).to(device)
        with torch.autograd.forward_ad.dual_level():
            result = torch.ops.mydev.swiglu(torch.autograd.forward_ad.make_dual(gate, up), up)
            return torch.autograd.forward_ad.unpack_dual(result).tangent

    torch.testing.assert_close(tangent("mydev").cpu(), tangent("cpu"))


def test_swiglu_registration_is_consistent() -> None:
    gate, up = (values(3, 5).to("mydev").requires_grad_() for _ in range(2))
    opcheck(torch.ops.mydev.swiglu.default, (gate, up), test_utils=CHECKS)
    backward_operands = (gate.detach(), gate.detach(), up.detach())
    opcheck(torch.ops.mydev.swiglu_backward.default, backward_operands, test_utils=CHECKS)


@pytest.mark.parametrize(
    ("up", "error", "message"),
    [
        (torch.ones(3), ValueError, "one shape"),
        (torch.ones(2, dtype=torch.float64), TypeError, "one dtype"),
    ],
    ids=["shape", "dtype"],
)
def test_swiglu_refuses_bad_operands(up: torch.Tensor, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        torch.ops.mydev.swiglu(torch.ones(2, device="mydev"), up.to("mydev"))


def test_swiglu_refuses_mixed_devices() -> None:
    with pytest.raises(RuntimeError, match=r"mydev::swiglu.*device"):
        torch.ops.mydev.swiglu(torch.ones(2, device="mydev"), torch.ones(2))


def test_operator_in_an_existing_namespace(cpp: object) -> None:
    gate, up = values(3, 4), values(3, 4).flip(0)
    actual = torch.ops.mydev.geglu(gate.to("mydev"), up.to("mydev"))
    torch.testing.assert_close(actual.cpu(), torch.nn.functional.gelu(gate) * up)
    assert gradcheck(torch.ops.mydev.geglu, [values(3, dtype=torch.float64).to("mydev").requires_grad_()] * 2)


# --- 4: gradients ----------------------------------------------------------------------------------------------------


def test_gradient_of_the_example(cpp: object) -> None:
    x = (values(5, dtype=torch.float64) + 0.1).to("mydev").requires_grad_()
    assert gradcheck(cpp.squared_relu, (x,))
    assert gradgradcheck(cpp.squared_relu, (x,))


def test_example_registration_is_consistent(cpp: object) -> None:
    opcheck(cpp.squared_relu.default, (values(3, 4).to("mydev").requires_grad_(),), test_utils=CHECKS)


# --- 5: fallbacks and refusals ---------------------------------------------------------------------------------------


def test_global_fallback_takes_an_operator_that_only_the_cpu_has(cpp: object) -> None:
    x = torch.tensor([3.0, 1.0, 2.0])
    with fallback_census() as census:
        result = cpp.count_inversions(x.to("mydev"))
    assert (result.device.type, result.item()) == ("mydev", 2)
    assert "example::count_inversions" in {row.op for row in census.rows}


def test_fallback_of_one_operator_wins_over_its_composite(cpp: object) -> None:
    x = values(5)
    with fallback_census() as census:
        result = cpp.sum_of_squares(x.to("mydev"))
    torch.testing.assert_close(result.cpu(), x.dot(x))
    assert "example::sum_of_squares" in {row.op for row in census.rows}


def test_refusal_of_one_operator(cpp: object) -> None:
    x = torch.ones(3, device="mydev")
    refused = fallback_mode("error", op="example::count_inversions")
    with refused, pytest.raises(NotImplementedError, match="example::count_inversions"):
        cpp.count_inversions(x)
    assert cpp.count_inversions(x).item() == 0


def test_refusals_of_the_python_example(python: ModuleType) -> None:
    x = torch.ones(3, device="mydev")
    assert "aten::digamma" in python.what_fell_back(lambda: x.digamma())
    with pytest.raises(NotImplementedError, match="aten::digamma"):
        python.everything_native(lambda: x.digamma())
    with pytest.raises(NotImplementedError, match="aten::median"):
        python.median_without_fallback(x)


# --- 6: shapes, composites, fallthrough ------------------------------------------------------------------------------


def test_meta_kernel(cpp: object) -> None:
    assert cpp.squared_relu(torch.empty(2, 3, device="meta")).shape == (2, 3)
    assert torch.ops.mydev.swiglu(*[torch.empty(2, 3, device="meta")] * 2).shape == (2, 3)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_custom_operators_compile(cpp: object, backend: str) -> None:
    @torch.compile(backend=backend, fullgraph=True)
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.mydev.swiglu(torch.ops.example.squared_relu(x), x).sum()

    x = values(4, 4).to("mydev").requires_grad_()
    model(x).backward()
    reference = values(4, 4).requires_grad_()
    swiglu_reference(reference.relu().square(), reference).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad.cpu(), reference.grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(4,), (3, 4)], ids=str)
def test_overridden_composite_matches_cpu(dtype: torch.dtype, weighted: bool, shape: tuple[int, ...]) -> None:
    x = values(2, 3, 4).to(dtype)
    weight = values(*shape).to(dtype) if weighted else None
    actual = torch.nn.functional.rms_norm(x.to("mydev"), shape, None if weight is None else weight.to("mydev"), 1e-5)
    torch.testing.assert_close(actual.cpu(), torch.nn.functional.rms_norm(x, shape, weight, 1e-5))


def test_overridden_composite_runs_one_kernel_each_way() -> None:
    x, weight = (values(4, 4).to("mydev").requires_grad_() for _ in range(2))
    lines = traced(lambda: torch.nn.functional.rms_norm(x, (4, 4), weight).sum().backward())
    assert "[launch] kernel=[mydev.rms_norm]" in lines
    assert "[launch] kernel=[mydev.rms_norm_backward]" in lines
    assert "aten::pow" not in lines


@pytest.mark.parametrize("weighted", [False, True])
def test_overridden_composite_gradients_match_cpu(weighted: bool) -> None:
    def gradients(device: str) -> list[torch.Tensor]:
        x = values(50, 200).to(device).requires_grad_()
        weight = values(200).to(device).requires_grad_()
        output = torch.nn.functional.rms_norm(x, (200,), weight if weighted else None, 1e-5)
        inputs = [x, weight] if weighted else [x]
        return [g.cpu() for g in torch.autograd.grad(output.sin().sum(), inputs)]

    for actual, expected in zip(gradients("mydev"), gradients("cpu"), strict=True):
        torch.testing.assert_close(actual, expected)


def test_overridden_composite_on_empty_rows() -> None:
    assert torch.nn.functional.rms_norm(torch.empty(0, 4, device="mydev"), (4,)).shape == (0, 4)


def test_overridden_composite_default_eps_is_that_of_the_cpu() -> None:
    x = torch.full((1, 4), 1e-4)
    actual = torch.nn.functional.rms_norm(x.to("mydev"), (4,))
    torch.testing.assert_close(actual.cpu(), torch.nn.functional.rms_norm(x, (4,)))


def test_fallthrough_keeps_autograd_out(cpp: object) -> None:
    x = torch.ones(3, device="mydev", requires_grad=True)
    assert "AutogradPrivateUse1" not in traced(lambda: cpp.count_inversions(x)).split("\n")[0]
    assert not cpp.count_inversions(x).requires_grad


# --- from Python -----------------------------------------------------------------------------------------------------


def test_python_custom_operator(python: ModuleType) -> None:
    x = values(5)
    torch.testing.assert_close(python.softclip(x.to("mydev"), 2.0).cpu(), python.softclip(x, 2.0))
    opcheck(python.softclip, (x.to("mydev").requires_grad_(), 2.0), test_utils=CHECKS)


def test_python_custom_gradient(python: ModuleType) -> None:
    x = values(5, dtype=torch.float64).to("mydev").requires_grad_()
    assert gradcheck(lambda x: python.softclip(x, 2.0), (x,))


def test_python_library(python: ModuleType) -> None:
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], device="mydev")
    assert torch.ops.example_py.rotate_pairs(x).tolist() == [-2.0, 1.0, -4.0, 3.0]
    assert torch.ops.example_py.rotate_pairs(torch.empty(4, device="meta")).shape == (4,)


def test_python_autograd_function(python: ModuleType) -> None:
    x = values(2, 4, dtype=torch.float64).to("mydev").requires_grad_()
    assert gradcheck(torch.ops.example_py.rotate_pairs, (x,))
    assert gradgradcheck(torch.ops.example_py.rotate_pairs, (x,))


def test_python_override_of_a_composite(python: ModuleType) -> None:
    x = values(5)
    python.override_celu()
    lines = traced(lambda: torch.celu(x.to("mydev"), 1.5))
    assert "op=[aten::expm1]" in lines
    torch.testing.assert_close(torch.celu(x.to("mydev"), 1.5).cpu(), torch.celu(x, 1.5))


def test_python_fallthrough(python: ModuleType) -> None:
    x = torch.tensor([1.0, -1.0, 2.0], device="mydev", requires_grad=True)
    result = torch.ops.example_py.count_positive(x)
    assert result.item() == 2
    assert not result.requires_grad


# --- the guide -------------------------------------------------------------------------------------------------------


def test_every_block_of_the_guide_comes_from_a_tested_source() -> None:
    text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^```(?:cpp|python)$", text, re.M)) == len(re.findall(r"^<!-- code: ", text, re.M)) > 15


def test_package_offers_what_the_guide_uses() -> None:
    assert {"dispatch_trace", "fallback_census", "fallback_mode"} <= set(torch_mydev.__all__)
