"""Work that a compiled graph leaves to the device: random numbers, products, kernels and operators of extensions."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import torch_mydev
from support.checkout import KERNELS
from support.like_eager import X, assert_like_eager, graphs

mydev = torch.mydev
Run = Callable[..., "subprocess.CompletedProcess[str]"]

pytestmark = pytest.mark.usefixtures("fresh_compiler")


def test_random_numbers_follow_the_device_and_not_the_cpu() -> None:
    run = torch.compile(lambda x: torch.rand_like(x) + F.dropout(x, 0.5), fullgraph=True)
    x = torch.ones(100, device="mydev")
    mydev.manual_seed(3)
    torch.default_generator.manual_seed(1)
    first, second = run(x), run(x)
    mydev.manual_seed(3)
    torch.default_generator.manual_seed(2)
    torch.testing.assert_close(run(x), first, rtol=0, atol=0)
    assert not torch.equal(first, second)


RANDOM: dict[str, Callable[[Tensor], Tensor]] = {
    "rand": torch.rand_like,
    "randn": lambda x: torch.randn(3, 5, device=x.device),
    "randint": lambda x: torch.randint(10, (8,), device=x.device),
    "bernoulli": lambda x: torch.bernoulli(x * 0.5),
    "dropout": lambda x: F.dropout(x, 0.3) * 2,
    "multinomial": lambda x: torch.multinomial(x, 4, replacement=True),
}


@pytest.mark.parametrize("name", RANDOM)
def test_fallback_random_gives_eager_numbers(name: str) -> None:
    x = torch.ones(50, device="mydev")
    mydev.manual_seed(5)
    expected = RANDOM[name](x)
    mydev.manual_seed(5)
    run = torch.compile(RANDOM[name], fullgraph=True, options={"fallback_random": True})
    torch.testing.assert_close(run(x), expected, rtol=0, atol=0)


@pytest.mark.host_access
def test_products_are_the_device_s() -> None:
    torch.compile(lambda x: (x @ x.t()).relu(), fullgraph=True)(X.to("mydev"))
    assert graphs()[0].calls == ["mydev_call.aten_mm_default.default"]


@pytest.mark.host_access
@pytest.mark.parametrize("grad", [False, True])
def test_custom_call_inside_a_graph(grad: bool) -> None:
    torch_mydev.load_custom_calls(KERNELS / "operator_kernels.so")
    x = X.to("mydev").requires_grad_(grad)
    assert_like_eager(lambda x: torch.ops.mydev_cc.test_square(x * 2).relu(), x)
    assert any("mydev_cc" in call for call in graphs()[0].calls)


@pytest.fixture
def library() -> Iterator[torch.library.Library]:
    with torch.library._scoped_library("mydev_test", "FRAGMENT") as library:
        yield library


@pytest.mark.parametrize("key", ["PrivateUse1", "CompositeExplicitAutograd"])
def test_an_operator_of_an_extension_runs_on_the_device(library: torch.library.Library, key: str) -> None:
    def twice(x: Tensor) -> Tensor:
        assert x.device.type == "mydev"
        return x * 2

    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", twice, key)
    library._register_fake("twice", torch.empty_like)
    result = torch.compile(lambda x: torch.ops.mydev_test.twice(x + 1).relu(), fullgraph=True)(X.to("mydev"))
    torch.testing.assert_close(result.cpu(), ((X + 1) * 2).relu())


def test_an_operator_of_an_extension_that_writes_its_operand(library: torch.library.Library) -> None:
    def bump(x: Tensor) -> None:
        assert x.device.type == "mydev"
        x.add_(1)

    library.define("bump(Tensor(a!) x) -> ()")
    library.impl("bump", bump, "PrivateUse1")
    library._register_fake("bump", lambda x: None)

    def function(x: Tensor) -> Tensor:
        torch.ops.mydev_test.bump(x)
        return x * 3

    x = torch.ones(3, device="mydev")
    assert torch.compile(function, fullgraph=True)(x).tolist() == [6, 6, 6]
    assert x.tolist() == [2, 2, 2]


@pytest.mark.host_access
def test_an_operator_that_its_extension_defines_anew() -> None:
    def define(library: torch.library.Library, schema: str, kernel: Callable[..., Tensor]) -> None:
        library.define(f"anew{schema}")
        library.impl("anew", kernel, "PrivateUse1")
        library._register_fake("anew", lambda x, *rest: torch.empty_like(x))

    x = torch.ones(3, device="mydev")
    first = torch.compile(lambda x: torch.ops.mydev_test.anew(x).relu(), fullgraph=True)
    second = torch.compile(lambda x: torch.ops.mydev_test.anew(x, 4.0).relu(), fullgraph=True)
    with torch.library._scoped_library("mydev_test", "FRAGMENT") as library:
        define(library, "(Tensor x) -> Tensor", lambda x: x * 2)
        assert first(x).tolist() == [2, 2, 2]
    with (
        torch.compiler.set_stance(skip_guard_eval_unsafe=True),
        pytest.raises(RuntimeError, match="mydev_test::anew, which is no longer defined"),
    ):
        first(x)
    with torch.library._scoped_library("mydev_test", "FRAGMENT") as library:
        define(library, "(Tensor x, float y) -> Tensor", lambda x, y: x * y)
        assert second(x).tolist() == [4, 4, 4]
        with (
            torch.compiler.set_stance(skip_guard_eval_unsafe=True),
            pytest.raises(RuntimeError, match="mydev_test::anew, which has been defined anew"),
        ):
            first(x)


@pytest.mark.host_access
def test_a_call_of_the_device_outside_a_graph_is_refused() -> None:
    x = X.to("mydev")
    torch.compile(lambda x: x @ x.t())(x)
    with pytest.raises(RuntimeError, match="runs inside compiled graphs only; call aten::mm"):
        torch.ops.mydev_call.aten_mm_default(X, X.t())
