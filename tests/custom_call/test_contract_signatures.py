"""Kernels whose signatures are contracts: operators, shapes, gradients, batching and conformance from the text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.library import opcheck

import torch_mydev
from support.conform_command import Cli, conform_command
from support.sample_kernels import CONTRACT_LIBRARY, values

gate, outer, pool = (getattr(torch.ops.mydev_cc, f"contract_{name}") for name in ("gate", "outer", "pool"))


def composed(x: Tensor, gate: Tensor, scale: float = 2.0) -> Tensor:
    return x * torch.tanh(gate * scale)


def test_the_schema_is_that_of_the_contract() -> None:
    info = torch_mydev.kernel_info("contract.gate")
    assert info["schema"] == "contract_gate(Tensor x, Tensor gate, *, float scale=2.0) -> Tensor"
    assert info["batching"] == "broadcast_all"
    assert info["contract"] is not None
    assert info["contract"]["operands"] == "(out T) <- (x T, gate T; scale: float = 2)"
    assert torch_mydev.kernel_info("contract.outer")["shapes"] == "(n),(m)->(n,m)"
    assert torch_mydev.kernel_info("contract.pool")["schema"] == "contract_pool(Tensor x, *, int width) -> Tensor"


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("x", "other"),
    [((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (1, 5)), ((), (2, 3)), ((0, 4), (1,)), ((), ())],
    ids=str,
)
def test_operands_are_broadcast(x: tuple[int, ...], other: tuple[int, ...], dtype: torch.dtype) -> None:
    a, b = values(*x, dtype=torch.float64).to(dtype), (values(*other, dtype=torch.float64) - 1).to(dtype)
    actual = gate(a.to("mydev"), b.to("mydev"), scale=0.5)
    torch.testing.assert_close(actual.cpu(), composed(a.double(), b.double(), 0.5).to(dtype))


def test_strided_operands_are_not_copied() -> None:
    before = torch_mydev.kernel_info("contract.gate")["dense_copies"]
    a, b = values(6, 4), values(4, 3)
    actual = gate(a.to("mydev")[::2].t(), b.to("mydev"))
    torch.testing.assert_close(actual.cpu(), composed(a[::2].t(), b))
    assert torch_mydev.kernel_info("contract.gate")["dense_copies"] == before


def test_gradients_of_every_order() -> None:
    x, other = values(3, 1, dtype=torch.float64).to("mydev"), values(4, dtype=torch.float64).to("mydev")
    operands = (x.requires_grad_(), other.requires_grad_())
    assert gradcheck(gate, operands)
    assert gradgradcheck(gate, operands)


@pytest.mark.parametrize("needed", [(True, False), (False, True)])
def test_gradients_of_the_operands_that_need_them(needed: tuple[bool, bool]) -> None:
    x = values(3, dtype=torch.float64).to("mydev").requires_grad_(needed[0])
    other = values(3, dtype=torch.float64).to("mydev").requires_grad_(needed[1])
    assert gradcheck(gate, (x, other))


def test_an_operand_that_is_computed_from_the_other_counts_once() -> None:
    x = values(3, dtype=torch.float64)
    on_device = x.to("mydev").requires_grad_()
    with torch.enable_grad():
        (first,) = torch.autograd.grad(gate(on_device, on_device.sin()).sum(), on_device, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), on_device)
    x.requires_grad_()
    (expected,) = torch.autograd.grad(composed(x, x.sin()).sum(), x, create_graph=True)
    torch.testing.assert_close(first.cpu(), expected)
    torch.testing.assert_close(second.cpu(), torch.autograd.grad(expected.sum(), x)[0])


def test_the_gradient_of_half_precision_is_computed_in_single() -> None:
    x, other = (values(64, dtype=torch.float16).to("mydev").requires_grad_() for _ in range(2))
    gate(x, other).sum().backward()
    a, b = (values(64, dtype=torch.float16).double().requires_grad_() for _ in range(2))
    composed(a, b).sum().backward()
    assert a.grad is not None
    torch.testing.assert_close(x.grad.cpu(), a.grad.half(), rtol=1e-3, atol=1e-3)


def test_a_graph_is_used_once_unless_it_is_retained() -> None:
    x = values(3).to("mydev").requires_grad_()
    result = gate(x, x).sum()
    result.backward(retain_graph=True)
    result.backward()
    with pytest.raises(RuntimeError, match="second time"):
        result.backward()


def test_it_is_batched_in_one_call() -> None:
    x, other = values(5, 3, 4), values(4)
    actual = torch.vmap(gate, in_dims=(0, None))(x.to("mydev"), other.to("mydev"))
    torch.testing.assert_close(actual.cpu(), composed(x, other))
    per_sample = torch.func.vmap(torch.func.grad(lambda x, g: gate(x, g).sum(), argnums=1), in_dims=(0, None))
    expected = torch.func.vmap(torch.func.grad(lambda x, g: composed(x, g).sum(), argnums=1), in_dims=(0, None))
    torch.testing.assert_close(per_sample(x.to("mydev"), other.to("mydev")).cpu(), expected(x, other))


def test_pytorch_checks_the_operators() -> None:
    operands = (values(3, 4).to("mydev").requires_grad_(), values(4).to("mydev").requires_grad_())
    opcheck(gate.default, operands, test_utils=("test_schema", "test_faketensor", "test_aot_dispatch_dynamic"))
    opcheck(outer.default, (values(3).to("mydev"), values(4).to("mydev")))
    opcheck(pool.default, (values(9).to("mydev"),), {"width": 2})


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_compiled_function_has_gradients(dynamic: bool) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, g: gate(x, g).cos(), dynamic=dynamic, fullgraph=True)
    for size in (3, 5):
        x, other = values(size, 4).to("mydev").requires_grad_(), values(4).to("mydev").requires_grad_()
        compiled(x, other).sum().backward()
        a, b = values(size, 4).requires_grad_(), values(4).requires_grad_()
        composed(a, b).cos().sum().backward()
        torch.testing.assert_close(x.grad.cpu(), a.grad)
        torch.testing.assert_close(other.grad.cpu(), b.grad)


def test_sizes_are_computed_by_facts() -> None:
    x = values(9)
    torch.testing.assert_close(pool(x.to("mydev"), width=2).cpu(), x[:8].reshape(4, 2).amax(1))
    assert pool(x.to("mydev"), width=10).shape == (0,)
    a, b = values(3), values(4)
    torch.testing.assert_close(outer(a.to("mydev"), b.to("mydev")).cpu(), torch.outer(a, b))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gate(*on_device(values(3), values(4))), "sizes 3 and 4|broadcast"),
        (lambda: gate(*on_device(values(3), values(3, dtype=torch.float64))), "must have the same dtype"),
        (lambda: outer(*on_device(values(3, 2), values(4))), "operand 'a' has rank 2"),
        (lambda: pool(*on_device(values(3)), width=0), "attribute 'width' is 0"),
    ],
    ids=["sizes", "dtypes", "rank", "attribute"],
)
def test_wrong_operands_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def on_device(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(tensor.to("mydev") for tensor in tensors)


SIGNATURE = """
#include "mydev/custom_call.h"
static const mydev_signature text = {.struct_size = sizeof(mydev_signature), .contract = CONTRACT, .types = "T: f32",
                                     .expression = EXPRESSION, .shapes = SHAPES};
"""


@pytest.mark.parametrize(
    ("contract", "expression", "shapes", "message"),
    [
        ("(out T) <- (x T", "x", "0", "expected"),
        ("(out T) <- (x T)", "x + y", "0", "'y' is no operand, attribute or size"),
        ("(out T) <- (x T)", "x", '"(n)->(n)"', "a contract and tables; give one of them"),
        ("(&out T) <- (x T)", "x", "0", "result 'out' is updated; write the tables of the signature"),
        ("(out T) <- (x T; k: number)", "x", "0", "attribute 'k' is a number"),
        ("(out T) <- (x T; k: ints[] = 1)", "x", "0", "attribute 'k' is a list with a default"),
        ("(out floats) <- (x T)", "x", "0", "result 'out' must have exactly one dtype"),
        ("(out T) <- (x... T, y T)", "y", "0", "operand 'x' is variadic; only the last one may be"),
        ("packed (out T) <- (x T)", "x", "0", "is packed or reduced"),
        ("(out T[m]) <- (x T[n])", "", "0", "'m'"),
    ],
)
def test_a_contract_that_makes_no_sense_is_refused(
    compile_library: Callable[..., Path], tmp_path: Path, contract: str, expression: str, shapes: str, message: str
) -> None:
    signature = tmp_path / "signature.h"
    signature.write_text(SIGNATURE)
    library = compile_library(
        *("-include", str(signature)),
        CODE="signature = &text, .entry",
        NAME='"contract.refused"',
        CONTRACT=f'"{contract}"',
        EXPRESSION=f'"{expression}"',
        SHAPES=shapes,
    )
    with pytest.raises(ValueError, match=message):
        torch_mydev.load_custom_calls(library)


# --- conformance -----------------------------------------------------------------------------------------------------


@pytest.fixture
def conform(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv("MYDEV_CUSTOM_CALLS", "")  # which the command changes
    return conform_command(capsys, "kernels", "--library", str(CONTRACT_LIBRARY))


def test_kernels_are_compared_with_their_expressions(conform: Cli) -> None:
    code, output, errors = conform("contract.gate")
    assert (code, errors) == (0, "")
    assert "1 kernel, none is wrong" in output
    code, output, errors = conform("contract.wrong_gate")
    assert (code, errors) == (1, "")
    assert "1 kernel, 1 wrong: contract.wrong_gate" in output


def test_a_library_without_contracts_is_refused(conform: Cli, tmp_path: Path) -> None:
    code, _, errors = conform("--library", str(tmp_path / "nobody.so"))
    assert code == 2
    assert "there is no library" in errors
