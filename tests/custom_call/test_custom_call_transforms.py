"""Operators of custom calls under PyTorch's transformations: gradients, opcheck, compilers, vmap."""

from __future__ import annotations

from collections.abc import Callable
from subprocess import CompletedProcess
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import gradcheck, gradgradcheck
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.library import opcheck
from torch.testing._internal.optests import OpCheckError
from torch.utils._pytree import tree_leaves, tree_map

import torch_mydev
from support.sample_kernels import LIBRARIES, OPERATOR_LIBRARY, XLA_LIBRARY, values

ops = torch.ops.mydev_cc


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    """Programs of other tests count against the limit of recompilations."""
    torch._dynamo.reset()


# --- gradients -------------------------------------------------------------------------------------------------------


def test_gradients_of_every_order() -> None:
    x = values(3, dtype=torch.float64).to("mydev").requires_grad_()
    assert gradcheck(ops.test_square, (x,))
    assert gradgradcheck(ops.test_square, (x,))


def test_gradient_from_a_saved_result() -> None:
    x = values(3, dtype=torch.float64).to("mydev").requires_grad_()
    assert gradcheck(ops.test_exp, (x,))


@pytest.mark.parametrize("needed", [(True, True), (True, False), (False, True)])
def test_gradients_of_the_operands_that_need_them(needed: tuple[bool, bool]) -> None:
    a = values(2, 3, dtype=torch.float64).to("mydev").requires_grad_(needed[0])
    b = values(3, 2, dtype=torch.float64).to("mydev").requires_grad_(needed[1])
    assert gradcheck(ops.test_matmul, (a, b))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: ops.test_axpy(x, x), NotImplementedError, r"kernel 'test\.axpy' has no gradient"),
        (lambda x: ops.test_half_gradient(x, x * 1), NotImplementedError, r"no gradient for operand 'y'"),
        (lambda x: ops.test_half_total(x, [x]), NotImplementedError, r"no gradient for operand 'parts'"),
        (lambda x: ops.test_double_each([x])[0], NotImplementedError, r"kernel 'test\.double_each' has no gradient"),
        (lambda x: ops.test_lost_gradient(x), RuntimeError, r"kernel 'test\.nowhere', which there is not"),
    ],
    ids=["no gradient", "not of this operand", "variadic", "variadic result", "no such kernel"],
)
def test_missing_gradient_is_an_error_in_backward(
    call: Callable[[torch.Tensor], torch.Tensor], error: type[Exception], message: str
) -> None:
    x = values(3).to("mydev").requires_grad_()
    result = call(x).sum()
    with pytest.raises(error, match=message):
        result.backward()


def test_gradient_of_a_written_operand_and_of_a_fresh_result() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = x.clone()
        before = ops.test_accumulate(x, y)
        return before * 3, x * 5

    x, y = (values(3, dtype=torch.float64).to("mydev").requires_grad_() for _ in range(2))
    assert gradcheck(function, (x, y))


def test_gradient_kernel_of_another_library() -> None:
    x = values(3).to("mydev").requires_grad_()
    ops.test_scaled(x, scale=3.0).sum().backward()
    torch.testing.assert_close(x.grad, torch.full_like(x, 3.0))


def test_gradient_kernel_is_discovered_by_backward(run_python: Callable[..., CompletedProcess[str]]) -> None:
    code = f"""
import torch, torch_mydev
torch_mydev.load_custom_calls({str(OPERATOR_LIBRARY)!r})
x = torch.ones(3, device="mydev", requires_grad=True)
torch.ops.mydev_cc.test_scaled(x, scale=3.0).sum().backward()
print(x.grad.tolist(), torch.vmap(lambda x: x)(torch.ops.mydev_cc.typed_scale(x, scale=1.0)).tolist())
"""
    result = run_python(code, MYDEV_CUSTOM_CALLS=str(XLA_LIBRARY))
    assert result.stdout.strip() == "[3.0, 3.0, 3.0] [1.0, 1.0, 1.0]", result.stderr


def test_gradient_beside_a_variadic_operand() -> None:
    x = values(3).to("mydev").requires_grad_()
    ops.test_half_total(x, [x.detach(), x.detach()]).sum().backward()
    torch.testing.assert_close(x.grad, torch.full_like(x, 0.5))


@pytest.mark.parametrize("needed", [(True, True, True), (True, False, False), (False, False, True)])
def test_gradients_of_a_variadic_operand(needed: tuple[bool, ...]) -> None:
    x, *parts = (values(3, dtype=torch.float64).to("mydev") + i for i in range(3))
    leaves = [tensor.requires_grad_(wanted) for tensor, wanted in zip((x, *parts), needed, strict=True)]
    assert gradcheck(lambda x, *parts: ops.test_weigh_squares(x, list(parts)), leaves)


def test_gradient_of_no_variadic_operands() -> None:
    x = values(3).to("mydev").requires_grad_()
    ops.test_weigh_squares(x, []).sum().backward()
    torch.testing.assert_close(x.grad, torch.zeros_like(x))


def test_gradient_kernel_of_other_results_is_refused() -> None:
    x = values(3).to("mydev").requires_grad_()
    result = ops.test_unlikely_gradient(x, [x * 1]).sum()
    with pytest.raises(
        RuntimeError, match=r"'test\.square_vjp', the gradient of 'test\.unlikely_gradient', is given 3"
    ):
        result.backward()


def test_second_backward_is_refused() -> None:
    x = values(3).to("mydev").requires_grad_()
    result = ops.test_square(x).sum()
    result.backward()
    with pytest.raises(RuntimeError, match="second time"):
        result.backward()


def test_forward_mode_is_refused() -> None:
    x = values(3).to("mydev")
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, x)
        with pytest.raises(NotImplementedError, match=r"'test\.square' has no forward-mode derivative"):
            ops.test_square(dual)
    with pytest.raises(NotImplementedError, match=r"'test\.square' has no forward-mode derivative"):
        torch.func.jvp(ops.test_square, (x,), (x,))


# --- compilers and transformations -----------------------------------------------------------------------------------

# For each operator: the sizes of its operands, and attributes.
CALLS: dict[str, tuple[list[tuple[int, ...]], dict[str, Any]]] = {
    "test_axpy": ([(3,), (3,)], {"alpha": 2.0}),
    "test_square": ([(3,)], {}),
    "test_square_vjp": ([(3,), (3,)], {}),
    "test_square_vjp_vjp": ([(3,), (3,), (3,)], {}),
    "test_exp": ([(3,)], {}),
    "test_product": ([(3,), (3,)], {}),
    "test_half_gradient": ([(3,), (3,)], {}),
    "test_lost_gradient": ([(3,)], {}),
    "test_matmul": ([(3, 3), (3, 3)], {}),
    "test_matmul_vjp": ([(2, 3), (3, 4), (2, 4)], {}),
    "test_minimum": ([(3, 3)], {}),
    "test_increment": ([(3,)], {}),
    "test_scaled": ([(3,)], {}),
    "test_accumulate": ([(3,), (3,)], {}),
    "test_accumulate_last": ([(3,), (3,)], {}),
    "test_accumulate_vjp": ([(3,), (3,)], {}),
    "test_swap": ([(3,), (3,)], {}),
    "test_add_to": ([(3,), (3,)], {}),
    "class_": ([(3,)], {}),
    "test_weigh_squares": ([(3,), (3,), (3,)], {}),
    "test_weigh_squares_vjp": ([(3,), (3,), (3,), (3,)], {}),
    "test_unlikely_gradient": ([(3,), (3,)], {}),
    "test_double_each": ([(3,), (2, 3)], {}),
    "test_weigh": ([(3,)], {}),
    "test_total": ([(3,), (3,)], {}),
    "test_half_total": ([(3,), (3,), (3,)], {}),
    "test_attributes": ([], {"flag": True, "reals": [0.5]}),
    "test_fill": ([], {"size": 3}),
    "test_repeat": ([(3,)], {"times": 2}),
    "test_reverse": ([(3,)], {}),
    "typed_add": ([(3,), (3,)], {}),
    "typed_scale": ([(3,)], {"scale": 2.0}),
}
DIFFERENTIABLE = ["test_square", "test_square_vjp", "test_exp", "test_matmul", "test_weigh_squares"]
# Operands before the variadic one.
VARIADIC = {
    "test_total": 0,
    "test_half_total": 1,
    "test_weigh_squares": 1,
    "test_weigh_squares_vjp": 2,
    "test_unlikely_gradient": 1,
    "test_double_each": 0,
}


def arguments_of(name: str, *, needs_grad: bool = False) -> list[Any]:
    operands = [values(*sizes).to("mydev").requires_grad_(needs_grad) for sizes in CALLS[name][0]]
    if name not in VARIADIC:
        return operands
    return [*operands[: VARIADIC[name]], operands[VARIADIC[name] :]]


def test_every_kernel_that_works_is_in_the_table() -> None:
    kernels = [name for library in LIBRARIES for name in library.kernels if not name.startswith("contract.")]
    broken = {"test_fail", "test_throw", "test_lie", "test_greedy", "test_scratch_throws"}
    assert {torch_mydev.kernel_info(name)["operator"] for name in kernels} - broken == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_operator_passes_opcheck(name: str) -> None:
    opcheck(getattr(ops, name), tuple(arguments_of(name)), CALLS[name][1])


# With operands that need a gradient opcheck also looks at the autograd registration, for which it knows the devices
# CPU, CUDA and XPU only; the registration is the same for all.
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_differentiable_operator_passes_opcheck(name: str) -> None:
    arguments = tuple(arguments_of(name, needs_grad=True))
    opcheck(getattr(ops, name), arguments, test_utils=("test_schema", "test_faketensor", "test_aot_dispatch_dynamic"))
    on_cpu = tree_map(lambda x: x.detach().cpu().requires_grad_(), arguments)
    opcheck(getattr(ops, name), on_cpu, test_utils="test_autograd_registration")


def test_opcheck_still_knows_no_other_devices() -> None:
    x = values(3).to("mydev").requires_grad_()
    with pytest.raises(OpCheckError, match="NYI devices other than CPU/CUDA/XPU"):
        opcheck(ops.test_square, (x,), test_utils="test_autograd_registration")


@pytest.mark.parametrize("name", CALLS)
def test_gradient_is_registered_with_autograd_and_nowhere_below(name: str) -> None:
    operator = getattr(ops, name).default
    assert torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "Autograd")
    with torch._C._AutoDispatchBelowAutograd():
        results = operator(*arguments_of(name, needs_grad=name != "test_increment"), **CALLS[name][1])
    assert not any(x.requires_grad for x in tree_leaves(results) if x is not None)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", CALLS)
def test_operator_compiles(name: str, backend: str) -> None:
    keywords = CALLS[name][1]
    compiled = torch.compile(
        lambda *arguments: getattr(ops, name)(*arguments, **keywords), backend=backend, fullgraph=True
    )
    written, expected = arguments_of(name), arguments_of(name)
    torch.testing.assert_close(compiled(*written), getattr(ops, name)(*expected, **keywords))
    torch.testing.assert_close(written, expected)


def test_sizes_stay_symbols_in_a_compiled_program() -> None:
    programs = []

    def remember(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> torch.fx.GraphModule:
        programs.append(graph)
        return graph

    compiled = torch.compile(lambda a, b: ops.test_matmul(a, b), backend=remember, fullgraph=True, dynamic=True)
    for m, k, n in ((2, 3, 4), (5, 6, 7), (8, 2, 9)):
        a, b = values(m, k), values(k, n)
        torch.testing.assert_close(compiled(a.to("mydev"), b.to("mydev")).cpu(), a @ b)
    assert len(programs) == 1


def test_broadcast_sizes_stay_symbols_in_a_compiled_program() -> None:
    programs = []

    def remember(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> torch.fx.GraphModule:
        programs.append(graph)
        return graph

    compiled = torch.compile(lambda a, b: ops.test_axpy(a, b), backend=remember, fullgraph=True, dynamic=True)
    for m, n in ((2, 3), (5, 7), (8, 9)):
        a, b = values(m, 1, n), values(4, 1)
        torch.testing.assert_close(compiled(a.to("mydev"), b.to("mydev")).cpu(), a + b)
    assert len(programs) == 1


def test_symbols_that_do_not_fit_are_an_error() -> None:
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        a, b = (mode.from_tensor(values(*sizes).to("mydev"), static_shapes=False) for sizes in ((2, 3), (4, 5)))
        with pytest.raises(ValueError, match="operand 'b' has size .* in dimension 0, where 'k' is"):
            ops.test_matmul(a, b)


def test_compiled_gradient() -> None:
    x = values(4).to("mydev").requires_grad_()
    torch.compile(lambda x: ops.test_square(x).sum(), backend="aot_eager", fullgraph=True)(x).backward()
    torch.testing.assert_close(x.grad.cpu(), 2 * x.detach().cpu())


def test_meta_tensors() -> None:
    a, b = torch.empty(2, 3, device="meta"), torch.empty(3, 4, device="meta")
    assert ops.test_matmul(a, b).shape == (2, 4)
    with pytest.raises(ValueError, match="operand 'b' has size 2"):
        ops.test_matmul(a, a)


@pytest.mark.parametrize(
    ("name", "sizes", "in_dims"),
    [
        ("test_square", [(4, 3)], (0,)),
        ("test_square", [(3, 4)], (1,)),
        ("test_axpy", [(4, 3), (3,)], (0, None)),
        ("test_axpy", [(3,), (3, 4)], (None, 1)),
        ("test_matmul", [(4, 2, 3), (3, 2)], (0, None)),
        ("test_minimum", [(4, 3)], (0,)),
    ],
)
def test_vmap_follows_the_batching_rule(
    name: str, sizes: list[tuple[int, ...]], in_dims: tuple[int | None, ...]
) -> None:
    operands = [values(*size).to("mydev") for size in sizes]
    actual = torch.vmap(getattr(ops, name), in_dims=in_dims)(*operands)

    def element(i: int) -> list[torch.Tensor]:
        return [x if d is None else x.select(d, i) for x, d in zip(operands, in_dims, strict=True)]

    each = [getattr(ops, name)(*element(i)) for i in range(4)]
    expected = (
        torch.stack(each) if isinstance(each[0], torch.Tensor) else tuple(map(torch.stack, zip(*each, strict=True)))
    )
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("name", ["test_axpy", "test_weigh_squares", "test_double_each"])
def test_vmap_over_lists(name: str) -> None:
    x, y = values(4, 3).to("mydev"), values(4, 3).to("mydev") + 1
    calls = {
        "test_axpy": lambda x, y: ops.test_axpy(x, y),
        "test_weigh_squares": lambda x, y: ops.test_weigh_squares(x, [y, x]),
        "test_double_each": lambda x, y: ops.test_double_each([x, y]),
    }
    actual = torch.vmap(calls[name])(x, y)
    each = [calls[name](x[i], y[i]) for i in range(4)]
    torch.testing.assert_close(actual, tree_map(lambda *parts: torch.stack(parts), *each))


def test_vmap_of_an_operator_that_only_writes() -> None:
    x, y = values(4, 3).to("mydev"), values(4, 3).to("mydev") + 1
    expected = x + y
    assert torch.vmap(ops.test_add_to, out_dims=None)(x, y) is None
    torch.testing.assert_close(y, expected)


@pytest.mark.parametrize(
    ("name", "sizes", "expected"),
    [("test_square", (0, 3), (0, 3)), ("test_axpy", (0, 3), (0, 3)), ("test_minimum", (0, 2, 3), (0, 2))],
    ids=["expand_dims", "broadcast_all", "several results"],
)
def test_vmap_over_nothing(name: str, sizes: tuple[int, ...], expected: tuple[int, ...]) -> None:
    x = values(*sizes).to("mydev")
    operands = [x, x] if name == "test_axpy" else [x]
    results = tree_leaves(torch.vmap(getattr(ops, name))(*operands))
    assert {result.shape for result in results} == {expected}


def test_vmap_over_nothing_of_a_matrix_product() -> None:
    a, b = values(0, 2, 3).to("mydev"), values(3, 4).to("mydev")
    assert torch.vmap(ops.test_matmul, in_dims=(0, None))(a, b).shape == (0, 2, 4)


def test_kernel_without_a_batching_rule_cannot_be_batched() -> None:
    with pytest.raises(NotImplementedError, match=r"kernel 'test\.reverse' cannot be batched"):
        torch.vmap(ops.test_reverse)(values(2, 3).to("mydev"))


def test_function_transforms() -> None:
    x = values(4).to("mydev")
    torch.testing.assert_close(torch.func.grad(lambda x: ops.test_square(x).sum())(x), 2 * x)
