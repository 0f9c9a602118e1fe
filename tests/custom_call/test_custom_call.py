"""Custom calls from Python: the registry, and operators made of kernel records. Their gradients and what compilers make
of them are in test_custom_call_transforms.py, calls in jax.ffi's terms in test_ffi_call.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import torch_mydev
from support.sample_kernels import OPERATOR_LIBRARY, values

ops = torch.ops.mydev_cc


def wait_for(tensor: torch.Tensor) -> None:
    """Synchronizes; an asynchronous device raises the errors of its kernels here."""
    torch.accelerator.synchronize()


# --- the registry ----------------------------------------------------------------------------------------------------


def test_library_says_what_it_is() -> None:
    library = torch_mydev.load_custom_calls(OPERATOR_LIBRARY)
    assert (library.file, library.name, library.version) == (str(OPERATOR_LIBRARY), "operator_kernels", "1.0")
    assert "test.axpy" in library.kernels


def test_kernels_are_listed_with_the_built_in_ones() -> None:
    names = torch_mydev.kernels()
    assert names == sorted(names)
    assert {"test.axpy", "mydev.add"} <= set(names)


def test_kernel_info() -> None:
    info = torch_mydev.kernel_info("test.axpy")
    assert (info["kind"], info["platform"], info["operator"]) == ("frame", "Host", "test_axpy")
    assert info["schema"] == "test_axpy(Tensor x, Tensor y, *, float alpha=1.0) -> Tensor"
    assert info["shapes"] == "(...),(...)->(...)"
    assert info["signature"] is not None
    assert [operand["name"] for operand in info["signature"]["operands"]] == ["x", "y"]
    assert info["file"] == str(OPERATOR_LIBRARY)


def test_unknown_kernel_is_reported_with_what_is_near() -> None:
    with pytest.raises(ValueError, match=r"no kernel 'test.axpi'; did you mean test\.axpy"):
        torch_mydev.kernel_info("test.axpi")
    with pytest.raises(AttributeError, match=r"test_axpi: there is no kernel of this name; did you mean test_axpy"):
        ops.test_axpi  # noqa: B018
    with pytest.raises(AttributeError, match="there is no kernel of this name; try `mydev kernels why nothing`"):
        ops.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [(None, RuntimeError, "nowhere.so"), (b"no library", ValueError, "nowhere.so")],
    ids=["missing", "no library"],
)
def test_what_is_no_library_is_refused(
    tmp_path: Path, content: bytes | None, error: type[Exception], message: str
) -> None:
    path = tmp_path / "nowhere.so"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error, match=message):
        torch_mydev.load_custom_calls(path)


def test_kernels_are_found_by_the_environment_variable(run_python: Callable[..., CompletedProcess[str]]) -> None:
    code = "import torch; x = torch.ones(3, device='mydev'); print(torch.ops.mydev_cc.test_square(x * 3).sum().item())"
    result = run_python("import torch_mydev\n" + code, MYDEV_CUSTOM_CALLS=str(OPERATOR_LIBRARY))
    assert (result.stdout.strip(), result.returncode) == ("27.0", 0), result.stderr


AFTER_PATH = "import sys; sys.path.insert(0, {!r}); import torch_mydev; print({})"


def test_kernels_are_found_by_entry_points(run_python: Callable[..., CompletedProcess[str]], tmp_path: Path) -> None:
    (tmp_path / "kernel_package.py").write_text(f"def paths():\n    return [{str(OPERATOR_LIBRARY)!r}]\n")
    metadata = tmp_path / "kernel_package-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: kernel-package\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[mydev.custom_calls]\nmine = kernel_package:paths\n")
    result = run_python(AFTER_PATH.format(str(tmp_path), "'test.axpy' in torch_mydev.kernels()"))
    assert result.stdout.strip() == "True", result.stderr


def test_entry_point_that_fails_is_a_warning(run_python: Callable[..., CompletedProcess[str]], tmp_path: Path) -> None:
    metadata = tmp_path / "kernel_package-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: kernel-package\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[mydev.custom_calls]\nmine = kernel_package:paths\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import torch_mydev; print(len(torch_mydev.kernels()) > 0)"
    )
    result = run_python(code)
    assert result.stdout.strip() == "True", result.stderr
    assert "entry point mine = kernel_package:paths" in result.stderr


def test_unregistered_kernel_is_no_operator_any_more(run_python: Callable[..., CompletedProcess[str]]) -> None:
    code = f"""
import torch, torch_mydev
torch_mydev.load_custom_calls({str(OPERATOR_LIBRARY)!r})
held, x = torch.ops.mydev_cc.test_square, torch.ones(2, device="mydev")
torch_mydev.unregister_kernel("test.square")
for call in (lambda: held(x), lambda: torch.ops.mydev_cc.test_square):
    try:
        call()
    except (RuntimeError, AttributeError) as error:
        print(type(error).__name__, error)
torch_mydev.reload_custom_calls({str(OPERATOR_LIBRARY)!r})
print(torch.ops.mydev_cc.test_square(x * 2).sum().item(), held(x * 2).sum().item())
"""
    result = run_python(code)
    lines = result.stdout.splitlines()
    assert len(lines) == 3, result.stderr
    assert lines[0].startswith("RuntimeError there is no kernel 'test.square' any more")
    assert lines[1].startswith("AttributeError")
    assert lines[2] == "8.0 8.0"


# --- operators -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_operator_broadcasts(dtype: torch.dtype) -> None:
    x, y = values(3, 1, 4, dtype=dtype), values(2, 1, dtype=dtype)
    actual = ops.test_axpy(x.to("mydev"), y.to("mydev"), alpha=2.0)
    torch.testing.assert_close(actual.cpu(), 2 * x + y)


def test_strided_operands_are_given_as_they_are() -> None:
    x, y = values(3, 4), values(4, 3)
    before = torch_mydev.kernel_info("test.axpy")["dense_copies"]
    torch.testing.assert_close(ops.test_axpy(x.to("mydev"), y.to("mydev").t()).cpu(), x + y.t())
    assert torch_mydev.kernel_info("test.axpy")["dense_copies"] == before


def test_operands_of_dense_kernels_are_made_dense_and_counted() -> None:
    x = values(4, 6)
    before = torch_mydev.kernel_info("test.square")["dense_copies"]
    torch.testing.assert_close(ops.test_square(x.to("mydev").t()[::2]).cpu(), x.t()[::2].square())
    assert torch_mydev.kernel_info("test.square")["dense_copies"] == before + 1


def test_rule_of_names() -> None:
    a, b = values(3, 4), values(4, 5)
    torch.testing.assert_close(ops.test_matmul(a.to("mydev"), b.to("mydev")).cpu(), a @ b)


@pytest.mark.parametrize("sizes", [(), (0, 3), (2, 3)])
def test_sizes_of_any_kind(sizes: tuple[int, ...]) -> None:
    x = torch.full(sizes, 3.0)
    torch.testing.assert_close(ops.test_square(x.to("mydev")).cpu(), x.square())


def test_several_results() -> None:
    x = values(3, 5)
    value, index = ops.test_minimum(x.to("mydev"))
    expected = x.min(-1)
    torch.testing.assert_close((value.cpu(), index.cpu()), (expected.values, expected.indices))


@pytest.mark.parametrize("weighed", [False, True])
def test_optional_operand(weighed: bool) -> None:
    x, w = values(3), values(3).flip(0)
    actual = ops.test_weigh(x.to("mydev"), w.to("mydev") if weighed else None)
    torch.testing.assert_close(actual.cpu(), x * w if weighed else x)


@pytest.mark.parametrize("count", [1, 3])
def test_variadic_operand(count: int) -> None:
    parts = [values(4) + i for i in range(count)]
    torch.testing.assert_close(ops.test_total([part.to("mydev") for part in parts]).cpu(), sum(parts))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_variadic_result(count: int) -> None:
    parts = [values(*range(2, 3 + i)) for i in range(count)]  # each of sizes of its own
    results = ops.test_double_each([part.to("mydev") for part in parts])
    assert isinstance(results, list)
    torch.testing.assert_close([result.cpu() for result in results], [2 * part for part in parts])


def test_kernel_named_by_a_reserved_word() -> None:
    x = values(3).to("mydev")
    assert torch_mydev.kernel_info("class")["operator"] == "class_"
    torch.testing.assert_close(ops.class_(x), x * x)


def test_operator_without_operands() -> None:
    result = ops.test_fill(size=3)
    assert (result.device.type, result.tolist()) == ("mydev", [7.0, 7.0, 7.0])


@pytest.mark.parametrize("strided", [False, True])
def test_aliased_operand_is_written_in_place(strided: bool) -> None:
    base = values(4, 4).to("mydev")
    x = base.t()[::2] if strided else base
    expected = x.cpu() + 2
    version = x._version
    assert ops.test_increment(x, step=2.0) is x
    torch.testing.assert_close(x.cpu(), expected)
    assert x._version > version


def test_second_operand_is_written_in_place() -> None:
    x, y = values(3).to("mydev"), values(3).to("mydev") + 1
    expected, version = x + y, y._version
    assert ops.test_add_to(x, y) is None
    torch.testing.assert_close(y, expected)
    assert y._version > version


def test_strided_second_operand_is_written_in_place() -> None:
    base = values(6).to("mydev")
    x, y = values(3).to("mydev"), base[::2]
    expected = x + y
    ops.test_add_to(x, y)
    torch.testing.assert_close(base[::2], expected)


@pytest.mark.parametrize("name", ["test_accumulate", "test_accumulate_last"])
def test_operand_is_written_besides_a_fresh_result(name: str) -> None:
    x, y = values(3).to("mydev"), values(3).to("mydev") + 1
    before = x.clone()
    version = x._version
    torch.testing.assert_close(getattr(ops, name)(x, y), before)
    torch.testing.assert_close(x, before + y)
    assert x._version > version


def test_operator_that_only_writes_returns_nothing() -> None:
    x, y = values(3).to("mydev"), values(3).to("mydev") + 1
    expected = y.clone(), x.clone()
    assert ops.test_swap(x, y) is None
    torch.testing.assert_close((x, y), expected)


def test_shapes_that_the_kernel_infers() -> None:
    x = values(3)
    torch.testing.assert_close(ops.test_repeat(x.to("mydev"), times=2).cpu(), x.repeat(2))


def test_scratch() -> None:
    x = values(5)
    torch.testing.assert_close(ops.test_reverse(x.to("mydev")).cpu(), x.flip(0))


def test_attributes_of_every_kind() -> None:
    given = {"flag": True, "narrow": -3, "scale": 2.0, "name": "me", "dims": [4], "reals": [0.5, 2.0], "z": 1 + 2j}
    text = bytes(ops.test_attributes(**given).tolist()).rstrip(b"\0").decode()
    assert text == "flag=1;narrow=-3;scale=2;name=me;dims=4,;reals=0.5,2,;z=1+2i;"


def test_attributes_have_defaults() -> None:
    text = bytes(ops.test_attributes(flag=False, reals=[]).tolist()).rstrip(b"\0").decode()
    assert text == "flag=0;narrow=5;scale=0.5;name=none;dims=1,2,;reals=;z=0+0i;"


def test_call_is_one_launch_on_the_current_stream() -> None:
    x = values(3).to("mydev")
    lines: list[str] = []
    with torch_mydev.dispatch_trace(lines):
        ops.test_square(x)
    assert sum("[launch]" in line for line in lines) == 1
    assert any("[launch] kernel=[test.square]" in line for line in lines)


@pytest.mark.devices(2)
def test_call_runs_on_the_device_of_its_operands() -> None:
    x = values(3).to("mydev:1")
    result = ops.test_square(x)
    assert result.device == x.device
    torch.testing.assert_close(result.cpu(), x.cpu().square())
    with pytest.raises(RuntimeError, match=r"^test.axpy: expected all tensors .*: operand 'y' is on mydev:0"):
        ops.test_axpy(x, x.to("mydev:0"))


# --- direct calls ----------------------------------------------------------------------------------------------------


class DispatchLog(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[object] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(function)
        return function(*args, **(kwargs or {}))


class FunctionLog(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[object] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(function)
        return function(*args, **(kwargs or {}))


def test_operator_is_what_torch_makes_of_operators() -> None:
    packet = ops.test_axpy
    assert isinstance(packet, torch._ops.OpOverloadPacket)
    assert isinstance(packet.default, torch._ops.OpOverload)
    assert packet is torch.ops.mydev_cc.test_axpy
    assert packet.default is torch.ops.mydev_cc.test_axpy.default
    assert packet.default.overloadpacket is packet
    assert packet.overloads() == ["default"]


@pytest.mark.parametrize("overload", [False, True])
def test_modes_see_the_call(overload: bool) -> None:
    x = values(3).to("mydev")
    operator = ops.test_axpy.default if overload else ops.test_axpy
    with DispatchLog() as dispatched:
        operator(x, x)
    with FunctionLog() as called:
        operator(x, x)
    assert dispatched.seen == [ops.test_axpy.default]
    assert called.seen == [operator]


def test_trace_and_profiler_see_the_call() -> None:
    x = values(3).to("mydev")
    lines: list[str] = []
    with torch_mydev.dispatch_trace(lines):
        ops.test_axpy(x, x)
    assert any("[call] op=[mydev_cc::test_axpy]" in line for line in lines)
    with torch.profiler.profile() as profile:
        ops.test_axpy(x, x)
    assert "mydev_cc::test_axpy" in {event.key for event in profile.key_averages()}


class Wrapper(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return "seen", function


def test_subclass_sees_the_call() -> None:
    x = values(3).to("mydev").as_subclass(Wrapper)
    assert ops.test_square(x) == ("seen", ops.test_square)


@pytest.mark.parametrize("trace", [False, True], ids=["script", "trace"])
def test_torchscript_records_the_call(trace: bool) -> None:
    x = values(3).to("mydev")

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.mydev_cc.test_axpy(x, x, alpha=2.0)

    scripted = torch.jit.trace(program, x) if trace else torch.jit.script(program)
    assert "mydev_cc::test_axpy" in str(scripted.graph)
    torch.testing.assert_close(scripted(x), 3 * x)


@pytest.mark.parametrize("alpha", [2, 2.0, True, torch.tensor(2.0)], ids=["int", "float", "bool", "tensor"])
def test_attribute_of_another_type_is_converted_as_by_torch(alpha: Any) -> None:
    x = values(3).to("mydev")
    with DispatchLog():  # the ordinary way
        expected = ops.test_axpy(x, x, alpha=alpha)
    torch.testing.assert_close(ops.test_axpy(x, x, alpha=alpha), expected)


def test_results_of_inference_mode_are_inference_tensors() -> None:
    x = values(3).to("mydev")
    with torch.inference_mode():
        assert ops.test_square(x).is_inference()


def test_typed_ffi_kernel_with_a_signature_is_an_operator() -> None:
    x = values(3).to("mydev")
    torch.testing.assert_close(ops.typed_add(x, x), 2 * x)
    # The signature says that the handler wants f32, so nobody has to.
    torch.testing.assert_close(ops.typed_scale(x, scale=2.0), 2 * x)
    torch.testing.assert_close(torch_mydev.ffi_call("typed.scale", x)(x, scale=2.0), 2 * x)


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: ops.test_axpy(x, x.double()), ValueError, r"operand 'y' is f64, but 'x' is f32.*test\.axpy\(x f32"),
        (lambda x: ops.test_square(x.int()), ValueError, r"operand 'x' is s32, which it does not take.*f32\|f64"),
        (lambda x: ops.test_matmul(x, x[0]), ValueError, r"operand 'b' has rank 1"),
        (lambda x: ops.test_matmul(x, x), ValueError, r"operand 'b' has size 2 in dimension 0, where 'k' is 3"),
        (lambda x: ops.test_axpy(x, x.cpu()), RuntimeError, r"operand 'y' is on cpu.*\.to\(\"mydev\"\)"),
        (lambda x: ops.test_square(x.cpu()), RuntimeError, r"operand 'x' is on cpu.*\.to\(\"mydev\"\)"),
        (lambda x: ops.test_axpy(x), RuntimeError, r"missing value for argument 'y'"),
        (lambda x: ops.test_axpy(x, x, beta=1.0), RuntimeError, r"beta"),
        (lambda x: ops.test_attributes(flag=True, reals=[], narrow=200), ValueError, r"'narrow' is 200.*s8"),
        (lambda x: ops.test_repeat(x[0], times=0), ValueError, r"times must be at least 1"),
        (lambda x: ops.test_lie(x[0]), RuntimeError, r"test\.lie: infer_shapes gives result 0"),
        (lambda x: ops.test_increment(x[0].expand(4, 3)), RuntimeError, r"single memory location"),
        (
            lambda x: ops.test_square(x.cpu().to(torch.float8_e4m3fnuz).to("mydev")),
            ValueError,
            r"operand 'x' is Float8_e4m3fnuz, a dtype that no kernel can be given",
        ),
        (
            lambda x: ops.test_square(x.to(torch.device("meta")).to(torch.float8_e4m3fnuz)),
            ValueError,
            r"Float8_e4m3fnuz, a dtype that no kernel can be given",
        ),
        (
            lambda x: ops.test_greedy(x[0]),
            torch.OutOfMemoryError,
            r"(?s)no scratch memory for test\.greedy\(out f32\[3\].*kernel 'test\.greedy' of operator_kernels 1\.0",
        ),
        (
            lambda x: ops.test_square(x.cpu().to_sparse().to("mydev")),
            ValueError,
            r"operand 'x' is Sparse; kernels are given",
        ),
        (lambda x: ops.test_scratch_throws(x[0]), RuntimeError, r"scratch_bytes threw: thrown while asked"),
    ],
    ids=[
        "dtype like",
        "dtype",
        "rank",
        "size",
        "mixed devices",
        "cpu",
        "operand count",
        "unknown attribute",
        "width",
        "kernel's inference",
        "wrong inference",
        "overlap",
        "unknown dtype",
        "unknown dtype of a fake",
        "too much scratch",
        "sparse",
        "scratch that throws",
    ],
)
def test_bad_call_is_refused(call: Callable[[torch.Tensor], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(values(2, 3).to("mydev"))


@pytest.mark.parametrize(
    ("code", "error"),
    [(3, ValueError), (12, NotImplementedError), (8, torch.OutOfMemoryError), (13, RuntimeError), (5, RuntimeError)],
    ids=["invalid argument", "unimplemented", "resource exhausted", "internal", "not found"],
)
def test_error_of_a_kernel_has_the_type_of_its_code(code: int, error: type[Exception]) -> None:
    x = values(2).to("mydev")
    with pytest.raises(error, match=r"out of luck.*test\.fail\(out f32\[2\], f32\[2\]"):
        wait_for(ops.test_fail(x, code=code, message="out of luck"))
    torch.testing.assert_close(ops.test_square(x).cpu(), x.cpu().square())


def test_error_of_a_kernel_names_its_library() -> None:
    with pytest.raises(RuntimeError, match=r"kernel 'test.fail' of operator_kernels 1\.0 \(.*operator_kernels\.so\)"):
        wait_for(ops.test_fail(values(2).to("mydev"), code=13))


def test_late_error_of_a_kernel_names_the_line_that_launched_it(
    run_python: Callable[..., CompletedProcess[str]],
) -> None:
    code = f"""
import torch, torch_mydev
torch_mydev.load_custom_calls({str(OPERATOR_LIBRARY)!r})
result = torch.ops.mydev_cc.test_fail(torch.ones(2, device="mydev"), code=3, message="out of luck")
try:
    torch.accelerator.synchronize()
except ValueError as error:
    print(error)
"""
    result = run_python(code, MYDEV_DRIVER="host:async")
    assert "out of luck [INVALID_ARGUMENT in test.fail(out f32[2], f32[2]; code=3" in result.stdout, result.stderr
    assert "launched at <string>:4" in result.stdout
    assert "kernel 'test.fail' of operator_kernels 1.0" in result.stdout


def test_kernel_that_throws_is_survived() -> None:
    x = values(2).to("mydev")
    with pytest.raises(RuntimeError, match=r"the kernel threw: thrown by the kernel.*test\.throw"):
        wait_for(ops.test_throw(x))
    torch.testing.assert_close(ops.test_square(x).cpu(), x.cpu().square())
