"""Operators that core composes of others: lists everywhere, others where the host does not reach the memory."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

import torch_mydev
from support.parity import assert_gradient_parity, assert_no_copies, assert_same, is_out_of_reach, to_device
from torch_mydev import _C

Function = Callable[..., object]


def values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 3).to(dtype)


LIST = [values(3, 4), values(5)]
INTEGERS = [tensor.long() for tensor in LIST]

#: Calls that no kernel of the device takes, and the operator that is composed.
CALLS: dict[str, tuple[Function, tuple[object, ...], str]] = {
    "list of integers": (torch._foreach_add, (INTEGERS, 2), "aten::_foreach_add.Scalar"),
    "list in place": (
        lambda x: torch._foreach_mul_([t.clone() for t in x], 3) or x, (INTEGERS,), "aten::_foreach_mul_.Scalar",
    ),
    "list of two dtypes": (torch._foreach_mul, ([LIST[0], INTEGERS[1]], LIST), "aten::_foreach_mul.List"),
    "two lists": (torch._foreach_sub, (INTEGERS, INTEGERS), "aten::_foreach_sub.List"),
    "sum of powers": (torch.ops.aten.linalg__powsum, (values(4, 5), 3, [1], True), "aten::linalg__powsum"),
    "narrow_copy": (lambda x: torch.narrow_copy(x.t(), 1, 1, 2), (values(4, 5),), "aten::narrow_copy"),
}  # fmt: skip


@pytest.mark.parametrize(("function", "operands", "op"), CALLS.values(), ids=CALLS)
def test_composition_gives_what_the_cpu_gives(
    function: Function, operands: tuple[object, ...], op: str, device: torch.device
) -> None:
    moved = to_device(operands, device)
    expected = function(*operands)
    composed = is_out_of_reach(device) or op.startswith("aten::_foreach_")
    with torch_mydev.fallback_census() as census, torch_mydev.fallback_mode("error" if composed else "allow"):
        actual = function(*moved)
    assert_same(actual, expected, device)
    if composed:
        assert census.compositions[op] == 1
        assert census.rows == []
    else:
        assert census.compositions == {}


def test_a_part_without_a_kernel_falls_back_and_is_counted(device: torch.device) -> None:
    with torch_mydev.fallback_census() as census:
        actual = torch._foreach_lgamma([tensor.to(device) for tensor in LIST])
    assert_same(actual, torch._foreach_lgamma(LIST), device)
    assert sum(row.calls for row in census.rows if "lgamma" in row.op) == 2


def test_writing_lists_counts_as_a_write(device: torch.device) -> None:
    x = torch.arange(3, device=device)
    torch._foreach_add_([x], 2)
    assert x._version == 1
    assert x.tolist() == [2, 3, 4]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_numbers_for_lists_are_rounded_as_for_tensors(name: str, dtype: torch.dtype, device: torch.device) -> None:
    torch.manual_seed(0)
    x, y = (torch.rand(400).to(dtype) + 0.5 for _ in range(2))
    operator, of_lists = getattr(torch, name), getattr(torch, f"_foreach_{name}")
    assert torch.equal(of_lists([x.to(device)], 0.7)[0].cpu(), operator(x, 0.7))
    if name in ("add", "sub"):
        x, y = x.to(device), y.to(device)
        assert torch.equal(of_lists([x], [y], alpha=0.7)[0], operator(x, y, alpha=0.7))


@pytest.mark.parametrize(
    "call",
    [
        lambda d: torch._foreach_add([torch.ones(2, dtype=torch.int64, device=d)], [torch.ones(3, device=d)]),
        lambda d: torch._foreach_add([torch.ones(2, device=d)], [torch.ones(2, device=d)] * 2),
        lambda d: torch._foreach_add([torch.ones(2, device=d)], []),
        lambda d: torch._foreach_sub([torch.ones(2, device=d)], True),
        lambda d: torch._foreach_add([torch.ones(2, device=d)], [torch.ones(2, device=d)], alpha=True),
        lambda d: torch._foreach_add_([torch.ones(2, device=d)] * 2, [2.0]),
        lambda d: torch._foreach_addcmul([torch.ones(2, device=d)] * 2, *[[torch.ones(2, device=d)] * 2] * 2, [2.0]),
        lambda d: torch.ones(2, dtype=torch.int16, device=d).div_(torch.ones(3, dtype=torch.int16, device=d)),
        lambda d: torch.narrow_copy(torch.ones(2, device=d), 0, 1, 2),
    ],
)
def test_errors_are_the_cpus(call: Callable[[object], object], device: torch.device) -> None:
    with pytest.raises((RuntimeError, IndexError)) as expected:
        call("cpu")
    with pytest.raises(type(expected.value)) as actual:
        call(device)
    assert str(actual.value).splitlines()[0] == str(expected.value).splitlines()[0]


# --- what is composed ------------------------------------------------------------------------------------------------


def operators() -> list[str]:
    return [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]


def has_composition(op: str) -> bool:
    return any(
        torch._C._dispatch_has_kernel_for_dispatch_key(op, key)
        for key in ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
    )


def folder_of_kernel(op: str) -> str | None:
    """Returns the folder in which the device's kernel was registered: "ops", or "host" for a fallback."""
    found = re.search(r"^PrivateUse1: .*/aten/(\w+)/", torch._C._dispatch_dump(op), re.MULTILINE)
    return found.group(1) if found else None


def test_each_composed_operator_has_a_composition() -> None:
    assert _C._composable_ops()
    assert [op for op in _C._composable_ops() if not has_composition(op)] == []


def test_each_list_operator_is_composed() -> None:
    lists = {op for op in operators() if op.startswith("aten::_foreach_") and has_composition(op)}
    assert lists <= set(_C._composable_ops())


#: These operators fall back in one go although the dispatcher has a composition.
NOT_COMPOSED = {
    "aten::addr": "its composition names other operators in errors",
    "aten::addr.out": "the same",
    "aten::_stack": "nothing calls it with tensors of a device: stack concatenates",
    "aten::_stack.out": "the same",
    "aten::native_group_norm": "its gradient wants what the kernel of the CPU keeps",
    "aten::native_layer_norm": "has a kernel; what that declines, the composition's parts decline, too",
    "aten::all.dims": "has a kernel; what that declines, the composition's parts decline, too",
    "aten::all.dims_out": "the same",
    "aten::any.dims": "the same",
    "aten::any.dims_out": "the same",
}


def test_each_composition_that_the_cpu_has_better_is_decided_upon() -> None:
    shadowed = {
        op
        for op in operators()
        if torch._C._dispatch_has_kernel_for_dispatch_key(op, "CompositeExplicitAutograd")
        and torch._C._dispatch_has_kernel_for_dispatch_key(op, "CPU")
    }
    composed = set(_C._composable_ops())
    assert shadowed - composed == set(NOT_COMPOSED)


def without_out(arguments: list[torch._C.Argument]) -> list[tuple[str, str]]:
    return [(argument.name, str(argument.type)) for argument in arguments if not argument.is_out]


def test_each_form_of_an_operator_with_an_out_kernel_has_a_kernel() -> None:
    """A row is enough to register core's own composition of a structured operator's other forms."""
    schemas = {op: torch._C._get_schema(*op.partition(".")[::2]) for op in operators()}
    native_outs = {
        (op.split(".")[0], tuple(without_out(schema.arguments)))
        for op, schema in schemas.items()
        if any(argument.is_out for argument in schema.arguments) and folder_of_kernel(op) == "ops"
    }
    forgotten = [
        op
        for op, schema in schemas.items()
        if torch._C._dispatch_has_kernel_for_dispatch_key(op, "CompositeExplicitAutogradNonFunctional")
        and (op.split(".")[0].removesuffix("_"), tuple(without_out(schema.arguments))) in native_outs
        and folder_of_kernel(op) != "ops"
    ]
    assert forgotten == []


# --- compositions that are written here ------------------------------------------------------------------------------

SQUARE = values(5, 5)
SPECIAL = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0, 1.5])
WRITTEN: dict[str, tuple[Function, tuple[object, ...]]] = {
    "equal": (lambda x, y: (torch.equal(x, x), torch.equal(x, y), torch.equal(y, x[:1])), (SPECIAL, SPECIAL[3:])),
    "equal of integers": (lambda x: (torch.equal(x, x), torch.equal(x, x + 1)), (SQUARE.long(),)),
    "equal of nothing": (torch.equal, (values(2, 0), values(2, 0))),
    "rsub": (lambda x, y: torch.rsub(x, y, alpha=2), (SQUARE, values(5))),
    "pow of a number": (lambda x: (2.5**x, 2 ** x.long(), torch.pow(1e4, x, out=x.new_empty(0))), (SQUARE.abs(),)),
    "count_nonzero": (
        lambda x: (x.count_nonzero(), x.count_nonzero(0), x.bool().count_nonzero((0, 1))), (SQUARE.int(),),
    ),
    "trace": (lambda x: (x.trace(), x.int().trace(), x[:, :3].trace()), (SQUARE,)),
    "norm": (lambda x: (torch.norm(x, 2, 1), torch.norm(x, 1, [0], True), torch.norm(x, float("inf"), 0)), (SQUARE,)),
    "aminmax": (lambda x: (*torch.aminmax(x), *torch.aminmax(x, dim=1, keepdim=True)), (SQUARE,)),
    "clamp": (lambda x, a, b: (x.clamp(a, b), x.clamp(b, a)), (SQUARE, values(5), SQUARE.t() + 1)),
    "clamp of NaN": (lambda x: (x.clamp(x.flip(0), x), x.clamp(x, x.flip(0))), (SPECIAL,)),
    "clamp from one side": (
        lambda x, a: (x.clamp_min(a), x.clone().clamp_max_(a), x.clamp(min=a), x.clamp(max=a)), (SQUARE, values(5)),
    ),
    "repeat_interleave": (
        lambda x, n: (x.repeat_interleave(n, 0), torch.repeat_interleave(n), torch.repeat_interleave(n, output_size=6)),
        (SQUARE, torch.tensor([2, 0, 1, 3, 0])),
    ),
    "prelu": (lambda x, w: (F.prelu(x, w[:1]), F.prelu(x, w)), (SQUARE, values(5))),
    "isneginf": (lambda x: (torch.isneginf(x), torch.isposinf(x), torch.isneginf(x.half())), (SPECIAL,)),
    "masked_fill": (
        lambda x, m, v: (x.masked_fill(m, v), x.t().clone().masked_fill_(m, v)), (SQUARE, SQUARE > 0, values(1)[0]),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("function", "operands"), WRITTEN.values(), ids=WRITTEN)
def test_written_composition_needs_no_copies(
    function: Function, operands: tuple[object, ...], device: torch.device
) -> None:
    assert_no_copies(function, *operands, device=device)


def test_gradients_of_written_compositions(device: torch.device) -> None:
    native = is_out_of_reach(device)
    assert_gradient_parity(F.prelu, SQUARE, values(5), device=device, native=native)
    assert_gradient_parity(
        lambda x, n: x.repeat_interleave(n, 1), SQUARE, torch.tensor([2, 0, 1, 3, 0]), device=device, native=native
    )
    assert_gradient_parity(lambda x: x.norm(2, 1), SQUARE, device=device, native=native)


@pytest.mark.parametrize("repeats", [[1, -1], [[1, 2]]])
def test_wrong_repeats_raise_as_on_cpu(repeats: list[int], device: torch.device) -> None:
    with pytest.raises(RuntimeError) as expected:
        torch.repeat_interleave(torch.tensor(repeats))
    with pytest.raises(RuntimeError) as actual:
        torch.repeat_interleave(torch.tensor(repeats, device=device))
    assert str(actual.value).splitlines()[0] == str(expected.value).splitlines()[0]
