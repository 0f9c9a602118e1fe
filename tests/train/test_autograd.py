"""Autograd on the device: everything that must work as it does on the CPU."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
from torch._C import DispatchKey
from torch._ops import HigherOrderOperator
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


def leaf(*sizes: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    values = torch.randn(*sizes, dtype=dtype, generator=torch.Generator().manual_seed(7))
    return values.to("mydev").requires_grad_()


SMOOTH: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "arithmetic": lambda x: (x * 2 + x / 3 - 1) * x,
    "exp_log": lambda x: (x.exp() + 1).log(),
    "sigmoid_tanh": lambda x: x.sigmoid() * x.tanh(),
    "gelu": functional.gelu,
    "pow": lambda x: (x * x + 1).pow(1.5),
    "matmul": lambda x: x @ x.t(),
    "sum_mean": lambda x: x.sum(0) * x.mean(1, keepdim=True).sum(),
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(0),
    "layer_norm": lambda x: functional.layer_norm(x, (3,)),
    "rms_norm": lambda x: functional.rms_norm(x, (3,), eps=1e-6),
    "views": lambda x: x.t().reshape(-1)[1:5].view(2, 2).sin(),
    "index": lambda x: x[torch.tensor([0, 0, 1], device="mydev")] * x[:, 1:2].sum(),
    "cat_stack": lambda x: torch.stack([torch.cat([x, x * x]), torch.cat([x.sin(), x])]),
    "where": lambda x: torch.where(x > 0, x * x, x * 3),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x.cos()),
    "cumsum": lambda x: x.cumsum(1) * x,
    "var": lambda x: x.var(0),
    "norm": lambda x: x.norm(),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_gradcheck(name: str) -> None:
    assert gradcheck(SMOOTH[name], (leaf(3, 3),))


@pytest.mark.parametrize("name", SMOOTH)
def test_gradgradcheck(name: str) -> None:
    assert gradgradcheck(SMOOTH[name], (leaf(3, 3),))


def test_gradcheck_of_a_convolution() -> None:
    def convolve(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return functional.conv2d(x, w, b, stride=2, padding=1)

    inputs = (leaf(2, 2, 5, 5), leaf(3, 2, 3, 3), leaf(3))
    assert gradcheck(convolve, inputs)
    assert gradgradcheck(convolve, inputs)


def test_gradcheck_of_complex_numbers() -> None:
    x = torch.randn(3, dtype=torch.complex128).to("mydev").requires_grad_()
    assert gradcheck(lambda x: (x * x.conj()).real.sum() + (x * x).imag.sum(), (x,))


def test_gradients_accumulate() -> None:
    x = leaf(3)
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    assert x.grad is not None
    assert x.grad.device.type == "mydev"
    assert x.grad.tolist() == [5.0, 5.0, 5.0]


def test_in_place_on_a_view_reaches_the_base() -> None:
    x = leaf(4)
    base = x * 1
    base[1:3].mul_(10)
    base.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 10.0, 10.0, 1.0]


def test_in_place_on_a_leaf_is_refused() -> None:
    with pytest.raises(RuntimeError, match="leaf Variable"):
        leaf(3).add_(1)


def test_in_place_change_of_a_saved_tensor_is_noticed() -> None:
    x = leaf(3)
    y = x.exp()
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_out_variant_refuses_tensors_that_need_gradients() -> None:
    x = leaf(3)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        torch.add(x, x, out=torch.empty(3, dtype=torch.float64, device="mydev"))


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.add_(1),
        lambda t: t.zero_(),
        lambda t: t.copy_(torch.ones(4)),
        lambda t: t[1:2].fill_(3),
        lambda t: torch.sin(torch.ones(4, device="mydev"), out=t),
        lambda t: t.erfinv_(),
        lambda t: t.digamma_(),
        lambda t: torch._foreach_add_([t], 1.0),
    ],
    ids=["add_", "zero_", "copy_", "fill_view", "out", "erfinv_", "stub", "foreach"],
)
def test_version_counter_counts_writes(change: Callable[[torch.Tensor], object]) -> None:
    tensor = torch.zeros(4, device="mydev")
    before = tensor._version
    change(tensor)
    assert tensor._version == before + 1


def test_graph_is_freed_and_can_be_retained() -> None:
    x = leaf(3)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad.cpu(), 4 * x.detach().cpu())
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_grad_of_inputs_without_accumulating() -> None:
    x = leaf(3)
    (gradient,) = torch.autograd.grad((x**3).sum(), x)
    assert x.grad is None
    torch.testing.assert_close(gradient.cpu(), 3 * x.detach().cpu() ** 2)


def test_allow_unused() -> None:
    x, y = leaf(3), leaf(3)
    gradients = torch.autograd.grad(x.sum(), (x, y), allow_unused=True)
    assert gradients[1] is None


def test_tensor_hooks() -> None:
    x = leaf(3)
    seen: list[torch.Tensor] = []
    x.register_hook(lambda g: g * 2)
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad))
    (x * 3).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [6.0, 6.0, 6.0]
    assert seen[0] is x.grad


def test_module_hooks() -> None:
    module = torch.nn.Linear(2, 2).to("mydev")
    seen: list[str] = []
    module.register_forward_hook(lambda m, i, o: seen.append(o.device.type))
    module.register_full_backward_hook(lambda m, gi, go: seen.append(go[0].device.type))
    module(torch.ones(1, 2, device="mydev", requires_grad=True)).sum().backward()
    assert seen == ["mydev", "mydev"]


def test_saved_tensor_hooks_offload_to_the_cpu() -> None:
    x = leaf(3)
    with torch.autograd.graph.save_on_cpu():
        y = (x.exp() * x).sum()
    y.backward()
    assert x.grad is not None
    expected = x.detach().cpu()
    torch.testing.assert_close(x.grad.cpu(), expected.exp() * (1 + expected))


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x**3

    @staticmethod
    def setup_context(ctx: torch.autograd.function.FunctionCtx, inputs: tuple[torch.Tensor], output: object) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return grad * 3 * x**2


def test_custom_function() -> None:
    assert gradcheck(Cube.apply, (leaf(3),))
    assert gradgradcheck(Cube.apply, (leaf(3),))


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoint(use_reentrant: bool) -> None:
    x = leaf(3)
    calls: list[int] = []

    def block(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return (x.sin() * x).exp()

    checkpoint(block, x, use_reentrant=use_reentrant).sum().backward()
    reference = x.detach().cpu().requires_grad_()
    (reference.sin() * reference).exp().sum().backward()
    assert len(calls) == 2
    assert x.grad is not None
    torch.testing.assert_close(x.grad.cpu(), reference.grad)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoint_restores_the_random_state(use_reentrant: bool) -> None:
    x = torch.ones(100, device="mydev", requires_grad=True)
    masks: list[torch.Tensor] = []

    def block(x: torch.Tensor) -> torch.Tensor:
        y = functional.dropout(x)
        masks.append(y.detach().cpu())
        return y

    checkpoint(block, x, use_reentrant=use_reentrant).sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad.cpu(), masks[0])


def test_forward_mode() -> None:
    primal, tangent = leaf(3).detach(), torch.ones(3, dtype=torch.float64, device="mydev")
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(primal, tangent)
        result = forward_ad.unpack_dual((dual.sin() * dual).exp())
    x = primal.cpu()
    expected = (x.sin() * x).exp() * (x.cos() * x + x.sin())
    assert result.tangent is not None
    torch.testing.assert_close(result.tangent.cpu(), expected)


def test_function_transforms() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return (x.sin() ** 2).sum()

    x = leaf(3).detach()
    torch.testing.assert_close(torch.func.grad(f)(x).cpu(), torch.func.grad(f)(x.cpu()))
    torch.testing.assert_close(torch.func.hessian(f)(x).cpu(), torch.func.hessian(f)(x.cpu()))
    torch.testing.assert_close(torch.func.jvp(f, (x,), (x,))[1].cpu(), torch.func.jvp(f, (x.cpu(),), (x.cpu(),))[1])


def test_vmap() -> None:
    matrices, vectors = leaf(4, 3, 3).detach(), leaf(4, 3).detach()
    actual = torch.vmap(torch.mv)(matrices, vectors)
    torch.testing.assert_close(actual.cpu(), torch.vmap(torch.mv)(matrices.cpu(), vectors.cpu()))


def test_per_sample_gradients() -> None:
    weight, data = leaf(3).detach(), leaf(5, 3).detach()

    def loss(weight: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        return (weight * row).sum().tanh()

    per_sample = torch.vmap(torch.func.grad(loss), in_dims=(None, 0))
    torch.testing.assert_close(per_sample(weight, data).cpu(), per_sample(weight.cpu(), data.cpu()))


def test_gradients_cross_devices() -> None:
    x = torch.ones(3, requires_grad=True)
    (x.to("mydev") * 2).cpu().sum().backward()
    assert x.grad is not None
    assert x.grad.device.type == "cpu"
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_anomaly_mode_names_the_forward_op() -> None:
    x = leaf(3)
    with torch.autograd.detect_anomaly(check_nan=True):
        y = ((x - x).sqrt() * 0).sum()
        with (
            pytest.warns(UserWarning, match="Error detected"),
            pytest.raises(RuntimeError, match="returned nan values"),
        ):
            y.backward()


def test_error_in_backward_leaves_the_engine_usable() -> None:
    class Failing(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
            raise KeyError("mine")

    x = leaf(3)
    with pytest.raises(KeyError, match="mine"):
        Failing.apply(x).sum().backward()
    (x * 2).sum().backward()
    assert x.grad is not None


def test_backward_runs_on_the_calling_thread() -> None:
    threads: list[int] = []
    x = leaf(3)
    x.register_hook(lambda g: threads.append(threading.get_ident()))
    (x * 2).sum().backward()
    assert threads == [threading.get_ident()]


def test_backward_from_many_threads_accumulates_all() -> None:
    shared = torch.zeros(8, device="mydev", requires_grad=True)

    def work() -> None:
        for _ in range(25):
            (shared * 2).sum().backward()

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert shared.grad is not None
    # Accumulation of one leaf from several threads may lose updates, as on every device, but never tear a value.
    assert bool((shared.grad % 2 == 0).all())
    assert 0 < shared.grad[0].item() <= 200


def test_independent_backwards_in_threads_are_right() -> None:
    results: dict[int, torch.Tensor] = {}

    def work(index: int) -> None:
        x = torch.full((16,), float(index + 1), device="mydev", requires_grad=True)
        for _ in range(20):
            x.grad = None
            (x.exp() * x).sum().backward()
        assert x.grad is not None
        results[index] = x.grad.cpu()

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for index in range(4):
        x = torch.full((16,), float(index + 1))
        torch.testing.assert_close(results[index], x.exp() * (1 + x))


def test_stacked_graphs_of_a_thousand_nodes() -> None:
    x = leaf(2)
    y = x
    for _ in range(1000):
        y = y * 1.001
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad.cpu(), torch.full((2,), 1.001**1000, dtype=torch.float64))


# --- operators that call functions ------------------------------------------------------------------------------------


class Twice(HigherOrderOperator):
    """Calls a function twice; falls through the autograd of the CPU by name, as torch's own operators do."""

    def __init__(self) -> None:
        super().__init__("mydev_test_twice")
        self.fallthrough(DispatchKey.AutogradCPU)
        self.py_impl(DispatchKey.CompositeExplicitAutograd)(lambda function, x: function(function(x)))

    def __call__(self, function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return super().__call__(function, x)  # type: ignore[no-any-return]


twice = Twice()


def test_operators_that_call_functions_fall_through() -> None:
    x = torch.ones(3, device="mydev", requires_grad=True)
    y = twice(lambda t: t * 3, x)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad.cpu(), torch.full((3,), 9.0))
    with torch.autocast("mydev"):
        torch.testing.assert_close(twice(lambda t: t + 1, x).cpu(), torch.full((3,), 3.0))
