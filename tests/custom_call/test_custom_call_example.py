"""The library of examples/custom_calls, built outside of the project with the header alone: its kernels against
PyTorch's operators on the CPU, their gradients, and the model that trains with them.
"""

from __future__ import annotations

import importlib.util
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.library import opcheck

import torch_mydev
from support.checkout import ROOT

EXAMPLE = ROOT / "examples" / "custom_calls"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"custom_call_{name}", EXAMPLE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


model = load("model")


@pytest.fixture(scope="module")
def ops() -> object:
    """torch.ops.mydev_cc with the library loaded."""
    library = torch_mydev.load_custom_calls(load("build_library").build())
    assert len(library.kernels) == 11
    return torch.ops.mydev_cc


def values(*sizes: int, dtype: torch.dtype = torch.float32, seed: int = 3) -> Tensor:
    return torch.randn(sizes, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def gradients(function: Callable[..., Tensor], *operands: Tensor) -> list[Tensor]:
    """Gradients of a result that every element of every floating operand matters to."""
    leaves = [operand.detach().requires_grad_(operand.is_floating_point()) for operand in operands]
    result = function(*leaves)
    weights = values(*result.shape, dtype=result.dtype, seed=5).to(result.device)
    return [g.cpu() for g in torch.autograd.grad((result * weights).sum(), [x for x in leaves if x.requires_grad])]


def waited(call: Callable[[], object]) -> object:
    result = call()
    torch.accelerator.synchronize()
    return result


# --- softcap ---------------------------------------------------------------------------------------------------------


def softcap(x: Tensor, cap: float = 30.0) -> Tensor:
    return cap * torch.tanh(x / cap)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sizes", [(), (7,), (3, 5), (100, 200), (0, 4)], ids=str)
def test_softcap_matches_its_composition(ops: object, sizes: tuple[int, ...], dtype: torch.dtype) -> None:
    x = values(*sizes, dtype=dtype) * 40
    torch.testing.assert_close(ops.example_softcap(x.to("mydev")).cpu(), softcap(x))
    torch.testing.assert_close(ops.example_softcap(x.to("mydev"), cap=5.0).cpu(), softcap(x, 5.0))


def test_softcap_of_a_view_is_that_of_its_elements(ops: object) -> None:
    x = values(6, 4)
    torch.testing.assert_close(ops.example_softcap(x.to("mydev").t()[1:, ::2]).cpu(), softcap(x.t()[1:, ::2]))


def test_softcap_gradient(ops: object) -> None:
    x = (values(3, 4, dtype=torch.float64) * 20).to("mydev").requires_grad_()
    assert gradcheck(lambda x: ops.example_softcap(x, cap=9.0), (x,))


def test_softcap_is_batched_in_one_call(ops: object) -> None:
    x = values(5, 3, 4)
    actual = torch.vmap(lambda x: ops.example_softcap(x, cap=2.0))(x.to("mydev"))
    torch.testing.assert_close(actual.cpu(), softcap(x, 2.0))


def test_softcap_refuses_a_cap_that_is_not_positive(ops: object) -> None:
    with pytest.raises(ValueError, match="cap must be positive"):
        waited(lambda: ops.example_softcap(values(3).to("mydev"), cap=0.0))


# --- rms_norm_rope ---------------------------------------------------------------------------------------------------


def norm_rope_operands(*sizes: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    rotation = model.rotation_table(*sizes[-2:]).to(dtype)
    return values(*sizes, dtype=dtype), values(sizes[-1], dtype=dtype, seed=4) + 2, rotation


# [docs: load-and-call]
def capped_scores(library: Path, scores: Tensor) -> Tensor:
    torch_mydev.load_custom_calls(library)
    return torch.ops.mydev_cc.example_softcap(scores, cap=50.0)  # differentiable, and under torch.compile


# [docs: end]


def test_guide_loads_and_calls(ops: object) -> None:
    scores = values(4) * 100
    actual = capped_scores(load("build_library").build(), scores.to("mydev"))
    torch.testing.assert_close(actual.cpu(), softcap(scores, 50.0))


def on_device(operands: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(operand.to("mydev") for operand in operands)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sizes", [(5, 8), (2, 3, 7, 16), (4, 4, 33, 64), (1, 2), (0, 3, 4), (2, 0, 4)], ids=str)
def test_norm_rope_matches_its_composition(ops: object, sizes: tuple[int, ...], dtype: torch.dtype) -> None:
    operands = norm_rope_operands(*sizes, dtype=dtype)
    actual = model.fused_norm_rope(*on_device(operands))
    torch.testing.assert_close(actual.cpu(), model.composed_norm_rope(*operands))


@pytest.mark.parametrize("sizes", [(5, 8), (2, 3, 7, 16), (3, 2, 33, 64)], ids=str)
def test_norm_rope_gradients_match_those_of_its_composition(ops: object, sizes: tuple[int, ...]) -> None:
    x, weight, rotation = norm_rope_operands(*sizes)
    table = rotation.to("mydev")
    actual = gradients(lambda x, w: model.fused_norm_rope(x, w, table), x.to("mydev"), weight.to("mydev"))
    expected = gradients(lambda x, w: model.composed_norm_rope(x, w, rotation), x, weight)
    for of_device, of_cpu in zip(actual, expected, strict=True):
        torch.testing.assert_close(of_device, of_cpu)


@pytest.mark.parametrize(
    "view",
    [lambda x: x.transpose(0, 1), lambda x: x[:, ::2], lambda x: x.transpose(1, 2), lambda x: x[:, :, ::2]],
    ids=["heads", "every second row", "strided rows", "every second element"],
)
def test_norm_rope_reads_strides_without_a_copy(ops: object, view: Callable[[Tensor], Tensor]) -> None:
    base = values(6, 8, 8)
    x = view(base)
    _, weight, rotation = norm_rope_operands(*x.shape)
    actual = model.fused_norm_rope(view(base.to("mydev")), weight.to("mydev"), rotation.to("mydev"))
    torch.testing.assert_close(actual.cpu(), model.composed_norm_rope(x, weight, rotation))
    assert torch_mydev.kernel_info("example.rms_norm_rope")["dense_copies"] == 0


def test_norm_rope_gradient(ops: object) -> None:
    x, weight, rotation = on_device(norm_rope_operands(2, 3, 4, dtype=torch.float64))
    assert gradcheck(ops.example_rms_norm_rope, (x.requires_grad_(), weight.requires_grad_(), rotation))


def test_norm_rope_gradient_of_a_view(ops: object) -> None:
    x, weight, rotation = on_device(norm_rope_operands(2, 3, 4, dtype=torch.float64))
    transposed = x.transpose(0, 1).contiguous().requires_grad_()
    assert gradcheck(lambda x: ops.example_rms_norm_rope(x.transpose(0, 1), weight, rotation), (transposed,))


def test_norm_rope_is_batched(ops: object) -> None:
    x, weight, rotation = norm_rope_operands(5, 3, 4)
    actual = torch.vmap(ops.example_rms_norm_rope, in_dims=(0, None, None))(*on_device((x, weight, rotation)))
    torch.testing.assert_close(actual.cpu(), model.composed_norm_rope(x, weight, rotation, eps=1e-6))


def test_norm_rope_compiles(ops: object) -> None:
    operands = norm_rope_operands(2, 3, 4)

    @torch.compile(backend="aot_eager", fullgraph=True)
    def function(x: Tensor, weight: Tensor, rotation: Tensor) -> Tensor:
        return model.fused_norm_rope(x, weight, rotation).sin()

    x, weight, rotation = on_device(operands)
    actual = gradients(lambda x, w: function(x, w, rotation), x, weight)
    expected = gradients(lambda x, w: model.composed_norm_rope(x, w, operands[2]).sin(), *operands[:2])
    for of_device, of_cpu in zip(actual, expected, strict=True):
        torch.testing.assert_close(of_device, of_cpu)


def test_norm_rope_refuses_odd_rows(ops: object) -> None:
    x, weight, rotation = values(2, 3), values(3), values(2, 3)
    with pytest.raises(ValueError, match="must be even"):
        waited(lambda: ops.example_rms_norm_rope(*on_device((x, weight, rotation))))


def test_norm_rope_refuses_a_table_of_other_size(ops: object) -> None:
    with pytest.raises(ValueError, match="rotation"):
        ops.example_rms_norm_rope(*on_device((values(2, 4), values(4), values(3, 4))))


# --- csr_matmul ------------------------------------------------------------------------------------------------------


def sparse_operands(
    m: int, k: int, n: int, dtype: torch.dtype = torch.float32, index: torch.dtype = torch.int64
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Row starts, columns and values of an m x k matrix of which a third is there; a k x n matrix."""
    generator = torch.Generator().manual_seed(7)
    matrix = values(m, k, dtype=dtype) * (torch.rand(m, k, generator=generator) < 0.3)
    csr = matrix.to_sparse_csr()
    return csr.crow_indices().to(index), csr.col_indices().to(index), csr.values(), values(k, n, dtype=dtype, seed=8)


def composed_matmul(row_starts: Tensor, columns: Tensor, entries: Tensor, dense: Tensor) -> Tensor:
    rows = torch.repeat_interleave(torch.arange(len(row_starts) - 1), row_starts.long().diff())
    matrix = torch.zeros(len(row_starts) - 1, len(dense), dtype=dense.dtype)
    return matrix.index_put((rows, columns.long()), entries) @ dense


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sizes", [(5, 6, 7), (60, 40, 130), (1, 1, 1), (4, 6, 0)], ids=str)
def test_sparse_product_matches_the_dense_one(
    ops: object, sizes: tuple[int, int, int], dtype: torch.dtype, index: torch.dtype
) -> None:
    operands = sparse_operands(*sizes, dtype=dtype, index=index)
    torch.testing.assert_close(ops.example_csr_matmul(*on_device(operands)).cpu(), composed_matmul(*operands))


def test_sparse_product_gradients_match_those_of_the_dense_one(ops: object) -> None:
    operands = sparse_operands(30, 20, 90)
    actual = gradients(ops.example_csr_matmul, *on_device(operands))
    for of_device, of_cpu in zip(actual, gradients(composed_matmul, *operands), strict=True):
        torch.testing.assert_close(of_device, of_cpu)


def test_sparse_product_gradient(ops: object) -> None:
    row_starts, columns, entries, dense = on_device(sparse_operands(3, 4, 2, dtype=torch.float64))
    operands = (row_starts, columns, entries.requires_grad_(), dense.requires_grad_())
    assert gradcheck(ops.example_csr_matmul, operands)


@pytest.mark.parametrize(
    ("row_starts", "columns", "message"),
    [
        ([0, 1, 2], [0, 4], "columns must lie in the rows of dense; this one does not: 4"),
        ([0, 1, 2], [-1, 0], "columns must lie in the rows of dense"),
        ([0, 2, 1, 2], [0, 1], "row_starts must not fall"),
        ([0, 1, 1], [0, 1], "must begin with 0 and end with the number of values"),
    ],
    ids=["column too large", "negative column", "rows fall", "end is wrong"],
)
def test_sparse_product_checks_its_indices(
    ops: object, row_starts: list[int], columns: list[int], message: str
) -> None:
    operands = (torch.tensor(row_starts), torch.tensor(columns), torch.ones(2), torch.ones(4, 3))
    with pytest.raises(ValueError, match=message):
        waited(lambda: ops.example_csr_matmul(*on_device(operands)))


def test_sparse_product_infers_its_shape_or_says_why_not(ops: object) -> None:
    starts, columns = torch.tensor([0, 1], device="mydev"), torch.tensor([0, 0], device="mydev")
    with pytest.raises(ValueError, match=r"'values' of sizes \[1\] does not fit the others"):
        ops.example_csr_matmul(starts, columns, torch.ones(1, device="mydev"), torch.ones(2, 2, device="mydev"))


# --- legacy kinds ----------------------------------------------------------------------------------------------------


def scalar(value: float, dtype: torch.dtype) -> Tensor:
    return torch.tensor(value, dtype=dtype, device="mydev")


# [docs: call-operator]
def axpy_by_operator(scale: float, x: Tensor, y: Tensor) -> Tensor:
    """A legacy kernel with a signature is an operator."""
    count = torch.tensor(x.numel(), device="mydev")
    return torch.ops.mydev_cc.example_original_axpy(count, torch.tensor(scale, device="mydev"), x, y)


# [docs: end]


# [docs: call-by-name]
def axpy_by_name(scale: float, x: Tensor, y: Tensor) -> Tensor:
    """Without one it is called by name, in the terms of jax.ffi.ffi_call."""
    call = torch_mydev.ffi_call(
        "example.original_axpy_device",
        x,  # the result is like this tensor
        custom_call_api_version=1,
        legacy_backend_config=struct.pack("@qf0q", x.numel(), scale),  # AxpyOptions
    )
    return call(x, y)


# [docs: end]


@pytest.mark.parametrize("axpy", [axpy_by_operator, pytest.param(axpy_by_name, marks=pytest.mark.host_access)])
def test_original_kind(ops: object, axpy: Callable[[float, Tensor, Tensor], Tensor]) -> None:
    x, y = values(5), values(5, seed=4)
    torch.testing.assert_close(axpy(2.5, x.to("mydev"), y.to("mydev")).cpu(), 2.5 * x + y)


def sqrt_by_operator(x: Tensor) -> Tensor:
    return torch.ops.mydev_cc.example_status_sqrt(scalar(x.numel(), torch.int64), x)


def sqrt_by_name(x: Tensor) -> Tensor:
    count = struct.pack("@q", x.numel())
    name = "example.status_sqrt_device"
    return torch_mydev.ffi_call(name, x, custom_call_api_version=2, legacy_backend_config=count)(x)


@pytest.mark.parametrize("sqrt", [sqrt_by_operator, pytest.param(sqrt_by_name, marks=pytest.mark.host_access)])
def test_status_kind(ops: object, sqrt: Callable[[Tensor], Tensor]) -> None:
    x = values(5).abs()
    torch.testing.assert_close(sqrt(x.to("mydev")).cpu(), x.sqrt())
    with pytest.raises(RuntimeError, match="square root of a negative number"):
        waited(lambda: sqrt(-x.to("mydev")))


def polynomial_by_operator(x: Tensor, text: str) -> tuple[Tensor, Tensor]:
    return torch.ops.mydev_cc.example_unified_polynomial(scalar(x.numel(), torch.int64), x, opaque=text)


def polynomial_by_name(x: Tensor, text: str) -> tuple[Tensor, Tensor]:
    return torch_mydev.ffi_call(
        "example.unified_polynomial_device",
        (x, x),
        custom_call_api_version=3,
        legacy_backend_config=struct.pack("@q", x.numel()) + text.encode(),
    )(x)


@pytest.mark.parametrize(
    "polynomial", [polynomial_by_operator, pytest.param(polynomial_by_name, marks=pytest.mark.host_access)]
)
def test_unified_kind(ops: object, polynomial: Callable[[Tensor, str], tuple[Tensor, Tensor]]) -> None:
    x = values(5)
    value, slope = polynomial(x.to("mydev"), "1 0 0.5")
    torch.testing.assert_close(value.cpu(), 1 + 0.5 * x * x)
    torch.testing.assert_close(slope.cpu(), x)
    with pytest.raises(RuntimeError, match="coefficients are numbers"):
        waited(lambda: polynomial(x.to("mydev"), "1 two"))


# --- PyTorch's checks ------------------------------------------------------------------------------------------------


def count_and_values() -> tuple[Tensor, ...]:
    return torch.tensor(5), values(5).abs()


# For each operator: its operands, those of them that may need a gradient, and attributes.
OPERATORS: dict[str, tuple[Callable[[], tuple[Tensor, ...]], tuple[int, ...], dict[str, object]]] = {
    "example_softcap": (lambda: (values(3, 5),), (0,), {}),
    "example_rms_norm_rope": (lambda: norm_rope_operands(2, 3, 4), (0, 1), {}),
    "example_rms_norm_rope_grad": (lambda: (*norm_rope_operands(2, 3, 4), values(2, 3, 4)), (), {}),
    "example_csr_matmul": (lambda: sparse_operands(5, 6, 7), (2, 3), {}),
    "example_csr_matmul_grad": (lambda: (*sparse_operands(5, 6, 7), values(5, 7)), (), {}),
    "example_original_axpy": (lambda: (torch.tensor(5), torch.tensor(2.0), values(5), values(5)), (), {}),
    "example_status_sqrt": (count_and_values, (), {}),
    "example_unified_polynomial": (count_and_values, (), {"opaque": "1 0 0.5"}),
}


def test_every_kernel_with_a_signature_is_checked(ops: object) -> None:
    kernels = [torch_mydev.kernel_info(name) for name in torch_mydev.kernels() if name.startswith("example.")]
    assert {kernel["operator"] for kernel in kernels if kernel["operator"]} == set(OPERATORS)


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_passes_opcheck(ops: object, name: str) -> None:
    operands, _, attributes = OPERATORS[name]
    opcheck(getattr(ops, name), on_device(operands()), attributes)


@pytest.mark.parametrize("name", [name for name, (_, leaves, _) in OPERATORS.items() if leaves])
def test_differentiable_operator_passes_opcheck(ops: object, name: str) -> None:
    operands, leaves, attributes = OPERATORS[name]
    on_cpu = tuple(x.requires_grad_(i in leaves) for i, x in enumerate(operands()))
    given = tuple(x.requires_grad_(i in leaves) for i, x in enumerate(on_device(tuple(x.detach() for x in on_cpu))))
    tests = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    opcheck(getattr(ops, name), given, attributes, test_utils=tests)
    # The registration is the same for all devices; opcheck knows CPU, CUDA and XPU.
    opcheck(getattr(ops, name), on_cpu, attributes, test_utils="test_autograd_registration")


# --- handlers for JAX -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ffi_targets() -> ModuleType:
    """The module, with its targets registered."""
    spec = importlib.util.find_spec("jaxlib")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("needs jaxlib, for its headers and handlers")
    include = Path(spec.submodule_search_locations[0]) / "include"
    build = load("build_library")
    library = build.build(build.DEFAULT.with_name("example_ffi_handler"), f"-DXLA_INCLUDE_DIR={include}")
    module = load("ffi_targets")
    module.register_clamp_rows(library.with_name("libexample_ffi_handler.so"))
    module.register_jaxlib_cholesky()
    return module


def test_handler_for_jax_runs(ffi_targets: ModuleType) -> None:
    x, limits = values(3, 4), torch.tensor([0.1, 0.5, 9.0])
    actual = ffi_targets.clamp_rows(x.to("mydev"), limits.to("mydev"), 2.0)
    torch.testing.assert_close(actual.cpu(), torch.minimum(torch.maximum(x, -2 * limits[:, None]), 2 * limits[:, None]))


def test_handler_for_jax_reports_its_error(ffi_targets: ModuleType) -> None:
    with pytest.raises(ValueError, match="limits have an entry per row"):
        waited(lambda: ffi_targets.clamp_rows(values(3, 4).to("mydev"), values(2).to("mydev"), 2.0))


def test_handler_of_jaxlib_agrees_with_torch_linalg(ffi_targets: ModuleType) -> None:
    x = values(6, 6)
    matrix = x @ x.T + torch.eye(6)
    torch.testing.assert_close(ffi_targets.cholesky(matrix.to("mydev")).cpu(), torch.linalg.cholesky(matrix))


# --- the model -------------------------------------------------------------------------------------------------------


def test_models_agree_and_have_the_same_gradients(ops: object) -> None:
    torch.manual_seed(0)
    fused, composed = (model.Transformer(11, 16, width=32, fused=fused).double() for fused in (True, False))
    composed.load_state_dict(fused.state_dict())
    tokens = torch.randint(0, 11, (2, 16), generator=torch.Generator().manual_seed(1))
    scores = fused.to("mydev")(tokens.to("mydev"))
    expected = composed(tokens)
    torch.testing.assert_close(scores.cpu(), expected)
    scores.logsumexp(-1).sum().backward()
    expected.logsumexp(-1).sum().backward()
    for of_device, of_cpu in zip(fused.parameters(), composed.parameters(), strict=True):
        torch.testing.assert_close(of_device.grad.cpu(), of_cpu.grad)


@pytest.mark.slow
def test_training_reaches_its_goal(run_python: Callable[..., Any]) -> None:
    code = f"import sys, runpy, torch_mydev; sys.path.insert(0, {str(EXAMPLE)!r}); sys.argv = ['train.py']; "
    code += f"runpy.run_path({str(EXAMPLE / 'train.py')!r}, run_name='__main__')"
    result = run_python(code)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "sorted right" in result.stdout
