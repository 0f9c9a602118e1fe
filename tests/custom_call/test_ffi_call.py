"""register_ffi_target and ffi_call: jax.ffi's terms, XLA's kinds of kernels, and jaxlib's own handlers."""

from __future__ import annotations

import ctypes
import datetime
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import mydev
import torch_mydev
from mydev.cli.kernels import check
from support.sample_kernels import XLA_LIBRARY, values
from torch_mydev import ffi_call, register_ffi_target

functions = ctypes.CDLL(str(XLA_LIBRARY))
register_ffi_target("xla.add", functions.typed_add)
register_ffi_target("xla.scale", {"execute": functions.typed_scale})
register_ffi_target("xla.original_add", functions.original_add, api_version=0, kind="original_host")
register_ffi_target("xla.original_tuple", functions.original_tuple, api_version=0, kind="original_host")
register_ffi_target("xla.unified", functions.unified_opaque, api_version=0, kind="unified_host")


# --- targets ---------------------------------------------------------------------------------------------------------


def test_every_form_of_a_function_is_taken() -> None:
    address = ctypes.cast(functions.typed_add, ctypes.c_void_p).value
    new_capsule = ctypes.pythonapi.PyCapsule_New
    new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    capsule = new_capsule(address, b"any name", None)
    x = values(3).to("mydev")
    for i, form in enumerate((capsule, functions.typed_add, address, {"execute": capsule})):
        register_ffi_target(f"xla.add_form_{i}", form)
        torch.testing.assert_close(ffi_call(f"xla.add_form_{i}", x)(x, x), x + x)


def test_same_function_again_is_accepted_and_another_refused() -> None:
    register_ffi_target("xla.add", functions.typed_add)
    with pytest.raises(RuntimeError, match=r"xla\.add.*register_ffi_target"):
        register_ffi_target("xla.add", functions.typed_scale)


@pytest.mark.parametrize(
    ("fn", "options", "error", "message"),
    [
        (1.5, {}, TypeError, "a float is no function"),
        (0, {}, ValueError, "0 is not the address"),
        ({"run": 1}, {}, ValueError, "no such stage: run"),
        ({"prepare": 1}, {}, ValueError, "'execute' is missing"),
        (1, {"api_version": 2}, ValueError, "api_version is 2"),
        (1, {"api_version": 0}, ValueError, "kind="),
        (1, {"kind": "original_host"}, ValueError, "is for api_version=0"),
        (1, {"platform": "CUDA"}, ValueError, "platform 'CUDA'"),
        (4096, {}, ValueError, "at 0x1000 there is no code"),
        (2**70, {}, ValueError, "there is no code"),
        (datetime.datetime_CAPI, {}, ValueError, "there is no code"),
        (functions.typed_add, {"traits": -1}, ValueError, "traits is -1"),
        (functions.typed_add, {"traits": "a"}, ValueError, "traits is 'a'"),
    ],
)
def test_bad_target_is_refused(fn: object, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        register_ffi_target("xla.bad", fn, **options)
    assert "xla.bad" not in torch_mydev.kernels()


# --- calls -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["tensor", "pair", "numpy"])
def test_forms_of_a_result(spec: str) -> None:
    x = values(2, 3).to("mydev")
    forms = {"tensor": x, "pair": ((2, 3), torch.float32), "numpy": ((2, 3), np.float32)}
    result = ffi_call("xla.add", forms[spec])(x, x)
    assert isinstance(result, torch.Tensor)
    torch.testing.assert_close(result, x + x)


def test_results_are_nested_as_described() -> None:
    x = values(2, 3).to("mydev")
    value, index = ((2,), torch.float32), ((2,), torch.int64)
    expected = x.cpu().min(-1)
    for spec, kind in ((((value, index)), tuple), ([value, index], list)):
        result = ffi_call("test.minimum", spec)(x)
        assert type(result) is kind
        torch.testing.assert_close([r.cpu() for r in result], [expected.values, expected.indices])
    nested = ffi_call("test.minimum", (value, [index]))(x)
    assert isinstance(nested, tuple)
    assert isinstance(nested[1], list)


def test_views_are_made_dense_and_counted() -> None:
    x = values(4, 6)
    before = torch_mydev.kernel_info("xla.add")["dense_copies"]
    view = x.to("mydev").t()
    torch.testing.assert_close(ffi_call("xla.add", view)(view, view).cpu(), (x + x).t())
    assert torch_mydev.kernel_info("xla.add")["dense_copies"] == before + 2


def test_layouts_are_orders_in_memory() -> None:
    x = values(2, 3)
    add = ffi_call("xla.add", x, input_layouts=[(1, 0), None], output_layouts=(1, 0))
    # The handler adds memory to memory: column-major x and row-major zeros give column-major x.
    result = add(x.to("mydev"), torch.zeros(2, 3, device="mydev"))
    torch.testing.assert_close(result.cpu(), x)
    assert result.stride() == (1, 2)


def test_alias_leaves_the_operand_alone() -> None:
    x, y = values(3).to("mydev"), values(3).to("mydev") + 1
    before = x.clone()
    result = ffi_call("xla.add", x, input_output_aliases={0: 0})(x, y)
    torch.testing.assert_close(result, before + y)
    torch.testing.assert_close(x, before)


def test_legacy_kinds() -> None:
    x = values(3).to("mydev")
    torch.testing.assert_close(ffi_call("xla.original_add", x, custom_call_api_version=1)(x, x), x + x)
    (result,) = ffi_call("xla.original_tuple", [x], custom_call_api_version=1)(x)
    torch.testing.assert_close(result, x)


@pytest.mark.parametrize("opaque", [b"", b"a\0b", "text"])
def test_opaque_bytes(opaque: str | bytes) -> None:
    call = ffi_call("xla.unified", ((8,), torch.uint8), custom_call_api_version=3, legacy_backend_config=opaque)
    expected = opaque.encode() if isinstance(opaque, str) else opaque
    result = bytes(call().tolist())
    assert (result[0], result[1 : 1 + len(expected)]) == (len(expected), expected)


def test_numpy_scalar_keeps_its_width() -> None:
    x = values(3).to("mydev")
    scale = ffi_call("xla.scale", x)
    torch.testing.assert_close(scale(x, scale=np.float32(2)), 2 * x)
    torch.testing.assert_close(scale(x, scale=np.array(3, np.float32)), 3 * x)


def test_wrong_width_is_explained() -> None:
    x = values(3).to("mydev")
    with pytest.raises(ValueError, match=r"(?s)xla\.scale.*a Python float is given as f64.*np\.float32"):
        ffi_call("xla.scale", x)(x, scale=2.0)
        torch.accelerator.synchronize()


def test_error_of_a_handler_is_raised_at_the_latest_by_a_wait() -> None:
    x = values(3).to("mydev").double()
    with pytest.raises(ValueError, match=r"(?s)operand 0 is not f32.*xla\.add\(.*of register_ffi_target"):
        ffi_call("xla.add", ((3,), torch.float32))(x, x)
        torch.accelerator.synchronize()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: ffi_call("xla.ad", x), ValueError, r"no kernel 'xla\.ad'; did you mean xla\.add"),
        (lambda x: ffi_call("xla.add", 3), TypeError, "result_shape_dtypes has a int"),
        (lambda x: ffi_call("xla.add", x, vmap_method="fast"), ValueError, "vmap_method is 'fast'"),
        (lambda x: ffi_call("xla.add", x, input_layouts=[(0, 0)]), ValueError, "layout of operand 0"),
        (lambda x: ffi_call("xla.add", x, output_layouts=(1, 0)), ValueError, "layout of result 0"),
        (lambda x: ffi_call("xla.add", x, input_output_aliases={0: 1}), ValueError, "aliased to result 1"),
        (lambda x: ffi_call("xla.add", x, custom_call_api_version=5), ValueError, "custom_call_api_version is 5"),
        (
            lambda x: ffi_call("xla.add", x, custom_call_api_version=1)(x, x),
            ValueError,
            r"of kind typed_ffi.*=4, not 1",
        ),
        (lambda x: ffi_call("xla.add", x, legacy_backend_config="x"), ValueError, "legacy_backend_config"),
        (lambda x: ffi_call("xla.add", x, custom_call_api_version="4"), TypeError, "custom_call_api_version is '4'"),
        (
            lambda x: ffi_call("xla.add", x, legacy_backend_config={"a": 1}),
            TypeError,
            "legacy_backend_config is a dict",
        ),
        (
            lambda x: ffi_call("xla.add", x, input_output_aliases=[(0, 0)]),
            TypeError,
            r"input_output_aliases is \[\(0, 0",
        ),
        (lambda x: ffi_call("xla.add", x, input_output_aliases={-1: 0}), TypeError, r"input_output_aliases is \{-1: 0"),
        (lambda x: ffi_call("xla.add", x, input_layouts=["ab"]), TypeError, r"input_layouts is \['ab'\]"),
        (lambda x: ffi_call("xla.add", ((2.5, 3), torch.float32)), ValueError, r"shape \(2\.5, 3\)"),
        (lambda x: ffi_call("xla.add", ((-1, 3), torch.float32)), ValueError, r"shape \(-1, 3\)"),
        (lambda x: ffi_call(4, x), TypeError, "the name of a kernel is a str, not a int"),
        (lambda x: ffi_call("xla.add", x)(x, x.cpu()), RuntimeError, r"operand '1' is on cpu"),
        (
            lambda x: ffi_call("xla.add", x)(x, None),
            TypeError,
            r"xla\.add: operand 1 is a NoneType; operands are tensors",
        ),
        (lambda x: ffi_call("xla.add", x)(x, np.ones(3)), TypeError, "operand 1 is a ndarray; operands are tensors"),
        (lambda x: ffi_call("xla.add", x)(x, x.cpu().to_sparse().to("mydev")), ValueError, "operand '1' is Sparse"),
        (
            lambda x: ffi_call("xla.add", x)(x, x.cpu().to(torch.float8_e4m3fnuz).to("mydev")),
            ValueError,
            "operand '1' is Float8_e4m3fnuz, a dtype that no kernel can be given",
        ),
        (lambda x: ffi_call("xla.scale", x)(x, scale=[1]), TypeError, r"attribute 'scale' is a list.*np\.array"),
        (lambda x: ffi_call("xla.scale", x)(x, scale=x), TypeError, r"tensors are operands"),
        (lambda x: ffi_call("test.axpy", x)(x, x, beta=1), ValueError, r"test\.axpy has no attribute 'beta'"),
        (lambda x: ffi_call("test.axpy", x)(x), ValueError, r"takes 2 operands, not 1.*test\.axpy\(x f32"),
        (lambda x: ffi_call("test.square", x[:2])(x), ValueError, r"result 0 is f32\[3\]"),
    ],
)
def test_bad_call_is_refused(call: Callable[[torch.Tensor], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(values(3).to("mydev"))


def test_gradient_needs_a_function_of_the_users() -> None:
    x = values(3).to("mydev").requires_grad_()
    result = ffi_call("xla.add", x)(x, x).sum()
    with pytest.raises(NotImplementedError, match=r"ffi_call\('xla\.add'\) has no gradient.*autograd\.Function"):
        result.backward()


def jvp_by_dual_tensors(function: Callable[..., torch.Tensor], x: torch.Tensor) -> object:
    with torch.autograd.forward_ad.dual_level():
        return function(torch.autograd.forward_ad.make_dual(x, x))


def jvp_by_transform(function: Callable[..., torch.Tensor], x: torch.Tensor) -> object:
    return torch.func.jvp(function, (x,), (x,))


@pytest.mark.parametrize("jvp", [jvp_by_dual_tensors, jvp_by_transform])
def test_forward_mode_is_refused(jvp: Callable[..., object]) -> None:
    x = values(3).to("mydev")
    add = ffi_call("xla.add", x)
    with pytest.raises(NotImplementedError, match=r"ffi_call\('xla\.add'\) has no forward-mode derivative"):
        jvp(lambda x: add(x, x), x)


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return ffi_call("xla.add", x)(x, x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return ffi_call("xla.add", grad)(grad, grad)


def test_gradient_by_a_function_of_the_users() -> None:
    x = values(3).to("mydev").requires_grad_()
    Double.apply(x).sum().backward()
    torch.testing.assert_close(x.grad, torch.full_like(x, 2))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("inside", [False, True], ids=["made outside", "made inside"])
def test_call_compiles(backend: str, inside: bool) -> None:
    x = values(3).to("mydev")
    outside = ffi_call("test.axpy", x)

    def program(x: torch.Tensor) -> torch.Tensor:
        call = ffi_call("test.axpy", x) if inside else outside
        return call(x, x, alpha=2.0) + 1

    torch.testing.assert_close(torch.compile(program, backend=backend, fullgraph=True)(x), 3 * x + 1)


@pytest.mark.parametrize("inside", [False, True], ids=["made outside", "made inside"])
def test_attribute_that_is_no_constant_needs_a_break_of_the_graph(inside: bool) -> None:
    x = values(3).to("mydev")
    scale, outside = ffi_call("xla.scale", x), np.float32(2)

    def program(x: torch.Tensor) -> torch.Tensor:
        return scale(x, scale=np.float32(2) if inside else outside)

    with pytest.raises(torch._dynamo.exc.Unsupported, match="Give the handler a record with a signature"):
        torch.compile(program, backend="eager", fullgraph=True)(x)
    torch.testing.assert_close(torch.compile(program, backend="eager")(x), 2 * x)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_side_effect_survives_compilation(backend: str) -> None:
    x = values(3).to("mydev")

    def compiled(call: Callable[..., torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
        def program(x: torch.Tensor) -> torch.Tensor:
            call(x, code=13)  # it fails, which is how a call that nobody uses is noticed
            return x + 1

        return torch.compile(program, backend=backend, fullgraph=True)

    torch.testing.assert_close(compiled(ffi_call("test.fail", x))(x), x + 1)
    with pytest.raises(RuntimeError, match="no luck"):
        compiled(ffi_call("test.fail", x, has_side_effect=True))(x)
        torch.accelerator.synchronize()


@pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
def test_vmap_follows_its_method(method: str) -> None:
    x = values(4, 3).to("mydev")
    square = ffi_call("test.square", x[0], vmap_method=method)
    torch.testing.assert_close(torch.vmap(square)(x), x * x)
    torch.testing.assert_close(torch.vmap(square, in_dims=1)(x.t()), x * x)


@pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
def test_vmap_over_nothing(method: str) -> None:
    x = values(0, 3).to("mydev")
    minimum = ffi_call("test.minimum", (((), torch.float32), ((), torch.int64)), vmap_method=method)
    value, index = torch.vmap(minimum)(x)
    assert (value.shape, value.dtype, index.shape, index.dtype) == ((0,), torch.float32, (0,), torch.int64)


def test_vmap_without_a_method_is_refused() -> None:
    x = values(4, 3).to("mydev")
    with pytest.raises(NotImplementedError, match=r"ffi_call\('xla\.add'\) has no vmap_method"):
        torch.vmap(ffi_call("xla.add", x[0]))(x, x)


def test_profiler_sees_the_call() -> None:
    x = values(3).to("mydev")
    with torch.profiler.profile() as profile:
        ffi_call("xla.add", x)(x, x)
    assert "mydev_ffi::call" in {event.key for event in profile.key_averages()}


@pytest.mark.devices(2)
def test_call_runs_on_the_device_of_its_operands() -> None:
    x = values(3).to("mydev:1")
    result = ffi_call("xla.add", x)(x, x)
    assert result.device == x.device
    torch.testing.assert_close(result, x + x)


# --- jaxlib's handlers -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lapack() -> ModuleType:
    """jaxlib.lapack, its handlers registered."""
    module = pytest.importorskip("jaxlib.lapack", reason="jaxlib is not installed")
    from jaxlib.cpu import _lapack

    _lapack.initialize()
    for name, capsule, api_version in module.registrations()["cpu"]:
        register_ffi_target(name, capsule, api_version=api_version)
    return module


SELF_REGISTERING = """
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
static ffi::Error Negate(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> out) {
  for (size_t i = 0; i < x.element_count(); ++i) out->typed_data()[i] = -x.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(kNegate, Negate, ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
XLA_FFI_REGISTER_HANDLER(XLA_FFI_GetApi(), "self.cuda", "CUDA", kNegate);
XLA_FFI_REGISTER_HANDLER(XLA_FFI_GetApi(), "self.negate", "Host", kNegate);
XLA_FFI_REGISTER_HANDLER(ffi::GetXlaFfiApi(), "self.negate_too", "cpu", kNegate);
"""


@pytest.fixture(scope="module")
def self_registering(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library whose handlers register themselves as it is loaded."""
    jaxlib = pytest.importorskip("jaxlib", reason="needs XLA's headers, which jaxlib brings")
    directory = tmp_path_factory.mktemp("self_registering")
    source, library = directory / "handlers.cpp", directory / "handlers.so"
    source.write_text(SELF_REGISTERING)
    lib = mydev.library_dir()
    command = ["c++", "-std=c++17", "-shared", "-fPIC", "-isystem", f"{jaxlib.__path__[0]}/include", str(source)]
    command += ["-o", str(library), f"-L{lib}", "-lmydev_xla_ffi", f"-Wl,-rpath,{lib}"]
    subprocess.run(command, check=True)
    return library


def test_handlers_that_register_themselves(self_registering: Path) -> None:
    library = torch_mydev.load_custom_calls(self_registering)
    assert library.kernels == ("self.negate", "self.negate_too")
    assert torch_mydev.kernel_info("self.negate")["file"] == str(self_registering)
    assert "self.cuda" not in torch_mydev.kernels()
    x = values(3).to("mydev")
    torch.testing.assert_close(ffi_call("self.negate", x)(x), -x)
    torch.testing.assert_close(ffi_call("self.negate_too", x)(x), -x)
    with pytest.raises(ValueError, match="does not export mydev_custom_call_query"):
        torch_mydev.reload_custom_calls(self_registering)


def test_handlers_that_register_themselves_are_checked(self_registering: Path) -> None:
    findings = {finding.subject: finding for finding in check.check(self_registering)}
    assert findings["handshake"].text.endswith("its handlers register themselves")
    assert {"self.negate", "self.negate_too"} <= set(findings)
    assert not any(finding.state == "problem" for finding in findings.values())


LETTER = {torch.float32: "s", torch.float64: "d"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cholesky_of_jaxlib(lapack: ModuleType, dtype: torch.dtype) -> None:
    x = values(5, 5, dtype=dtype)
    a = x @ x.t() + 5 * torch.eye(5, dtype=dtype)
    call = ffi_call(
        f"lapack_{LETTER[dtype]}potrf_ffi",
        (((5, 5), dtype), ((), torch.int32)),
        input_layouts=[(1, 0)],
        output_layouts=[(1, 0), ()],
    )
    factor, info = call(a.to("mydev"), uplo=np.uint8(ord("L")))
    assert info.item() == 0
    torch.testing.assert_close(factor.cpu().tril(), torch.linalg.cholesky(a))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_eigenvalues_of_jaxlib(lapack: ModuleType, dtype: torch.dtype) -> None:
    x = values(4, 4, dtype=dtype)
    a = x + x.t()
    call = ffi_call(
        f"lapack_{LETTER[dtype]}syevd_ffi",
        (((4, 4), dtype), ((4,), dtype), ((), torch.int32)),
        input_layouts=[(1, 0)],
        output_layouts=[(1, 0), (0,), ()],
    )
    vectors, eigenvalues, info = call(a.to("mydev"), mode=np.uint8(ord("V")), uplo=np.uint8(ord("L")))
    assert info.item() == 0
    torch.testing.assert_close(eigenvalues.cpu(), torch.linalg.eigvalsh(a))
    v = vectors.cpu()
    torch.testing.assert_close(v @ torch.diag(eigenvalues.cpu()) @ v.t(), a)


def test_batched_factorisation_of_jaxlib(lapack: ModuleType) -> None:
    a = values(3, 4, 4) + 4 * torch.eye(4)
    call = ffi_call(
        "lapack_sgetrf_ffi",
        (((3, 4, 4), torch.float32), ((3, 4), torch.int32), ((3,), torch.int32)),
        input_layouts=[(0, 2, 1)],
        output_layouts=[(0, 2, 1), (0, 1), (0,)],
    )
    factors, pivots, info = call(a.to("mydev"))
    expected = torch.linalg.lu_factor(a)
    assert info.tolist() == [0, 0, 0]
    torch.testing.assert_close((factors.cpu(), pivots.cpu()), (expected.LU, expected.pivots))
