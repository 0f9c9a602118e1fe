"""torch.compile by kernels that the driver's compiler makes of generated source: backend "mydev_kernels"."""

from __future__ import annotations

import logging
import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from support.like_eager import X, assert_like_eager, graphs, mlp
from torch_mydev import _C, fallback_mode

mydev = torch.mydev
BACKEND = "mydev_kernels"
Run = Callable[..., "subprocess.CompletedProcess[str]"]

pytestmark = pytest.mark.usefixtures("fresh_compiler")


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(function, backend=BACKEND, fullgraph=True, **options)


def assert_all_by_kernels() -> None:
    assert {(graph.route, graph.reason) for graph in graphs()} == {("kernels", None)}


def like_eager(function: Callable[..., Any], *args: Any) -> None:
    assert_like_eager(function, *args, backend=BACKEND)
    assert_all_by_kernels()


def same_values(function: Callable[..., Any], *args: Any) -> None:
    """NaN where there is NaN, too."""
    assert_close(compiled(function)(*args), function(*args), equal_nan=True)
    assert_all_by_kernels()


# --- what kernels compute ---------------------------------------------------------------------------------------------

SPECIAL = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-8, 30.0, -30.0, 1e4, float("inf"), -float("inf"), float("nan")]
EXTREMES = [0, 1, -1, 2, 3, -3, 7, -7, 100, -100, 127, -128, 32767, -32768, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]


def of_floats(x: Tensor) -> tuple[Tensor, ...]:
    y = x.flip(0)
    return (
        x.sin() + x.cos() * x.tanh() - x.sigmoid() / (x * x + 1),
        x.exp() + x.abs().log() + x.erf() + x.expm1() + x.abs().log1p() + x.abs().sqrt() + x.abs().rsqrt(),
        torch.maximum(x, y),
        torch.minimum(x, y),
        x.clamp(-1, 2),
        x.relu(),
        x.round() + x.floor() * x.ceil() - x.trunc(),
        torch.remainder(x, 1.5) + torch.fmod(x, 1.5),
        torch.floor_divide(x, 0.75),
        x.sign() + x.signbit() + x.isnan() + x.isinf(),
        torch.where(x > y, x, -y),
        torch.atan2(x, y) + torch.copysign(x, y),
        x.abs() ** 1.7,
        x == y,
        F.gelu(x) + F.silu(x) + F.softplus(x),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_functions_of_floats(dtype: torch.dtype) -> None:
    same_values(of_floats, torch.tensor(SPECIAL * 3, dtype=dtype, device="mydev"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_one_and_an_error_function_are_one_function(dtype: torch.dtype, kernel_sources: list[str]) -> None:
    x = torch.cat([torch.linspace(-9, 9, 4001), torch.tensor(SPECIAL)]).to(dtype)
    run = compiled(lambda x: (torch.erf(x) + 1, 1 + torch.erf(x), F.gelu(x)))
    expected = (1 + torch.erf(x.double()), 1 + torch.erf(x.double()), F.gelu(x.double()))
    atol = 1e-15 if dtype is torch.float64 else 5e-7
    rtol = 2**-8 if dtype is torch.bfloat16 else 1e-12 if dtype is torch.float64 else 2e-7
    for actual, wanted in zip(run(x.to("mydev")), expected, strict=True):
        assert_close(actual.cpu().double(), wanted, rtol=rtol, atol=atol, equal_nan=True)
    assert kernel_sources[0].count("one_plus_erf_") == 2


def test_other_sums_with_error_functions() -> None:
    x = torch.linspace(-3, 3, 300, device="mydev")
    like_eager(lambda x: (torch.erf(x) + 2, torch.erf(x) + x, torch.erf(x) - 1, torch.erf(x) * (torch.erf(x) + 1)), x)


@pytest.mark.parametrize("length", [7, 64, 100, 200])
def test_extrema_of_rows_with_nan_in_each_place(length: int) -> None:
    x = torch.randn(length, length, generator=torch.Generator().manual_seed(0))
    x = torch.cat([x, x.masked_fill(torch.eye(length, dtype=torch.bool), float("nan")), -x.sign() * float("inf")])
    same_values(lambda x: (x.amax(-1), x.amin(-1), x.amax(0), x.amin(0)), x.to("mydev"))


def test_sigmoid_is_the_devices_own_where_exponentials_overflow_and_vanish() -> None:
    x = torch.cat([torch.linspace(-130, 130, 4099), torch.tensor(SPECIAL)]).to("mydev")
    difference = compiled(torch.sigmoid)(x) - torch.sigmoid(x)
    assert difference[:-1].abs().max() <= 1.2e-7  # a unit in the last place of 1
    assert compiled(torch.sigmoid)(x)[-1].isnan()


def test_exponentials_vanish_and_overflow_as_they_should() -> None:
    ends = [88.72, 88.73, 89.5, 90.0, -87.4, -103.9, -104.1, 3e38, -3e38]
    x = torch.cat([torch.linspace(-110, 95, 4099), torch.tensor(SPECIAL + ends)])
    assert_close(
        compiled(torch.exp)(x.to("mydev")).cpu(), x.double().exp().float(), rtol=3e-7, atol=3e-45, equal_nan=True
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_halves_are_rounded_when_they_are_stored(dtype: torch.dtype) -> None:
    x = torch.tensor(SPECIAL * 3, dtype=dtype, device="mydev")
    same_values(lambda x: (x * 3, x.relu(), x > 0, x.float() + 1, x.sum(), x.to(torch.float64), x.exp()), x)


def of_integers(x: Tensor) -> tuple[Tensor, ...]:
    y = x.flip(0)
    return (
        x + y,
        x - y,
        x * y,
        torch.maximum(x, y),
        torch.minimum(x, y),
        torch.remainder(x, 3),
        torch.fmod(x, 3),
        torch.div(x, 3, rounding_mode="floor"),
        torch.div(x, 3, rounding_mode="trunc"),
        x / 4,
        x & y,
        x | y,
        x ^ y,
        ~x,
        x << 3,
        x >> 2,
        x > y,
        x.bool(),
        x.to(torch.int8),
        x.to(torch.int64),
        x.float(),
        x * x * x,
        x.sum(),
        x.amax(),
        x.argmin(),
    )


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_integers_wrap_divide_and_shift_as_in_eager_mode(dtype: torch.dtype) -> None:
    x = torch.tensor(EXTREMES, dtype=torch.int64).to(dtype).to("mydev")
    function = (lambda x: (*of_integers(x), -x, x.abs(), x.sign())) if dtype.is_signed else of_integers
    like_eager(function, x)


def test_conversions_of_floats_to_integers() -> None:
    x = torch.tensor([0.9, -0.9, 3.99, 200.5, -129.7, 70000.0, 1e6, -1e6], device="mydev")
    like_eager(lambda x: [x.to(dtype) for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)], x)


def test_truth_values_are_read_from_any_byte() -> None:
    x = torch.tensor([0, 1, 2, 255], dtype=torch.uint8, device="mydev").view(torch.bool)
    run = compiled(lambda x: (x & True, ~x, x.sum(), x.any(), x.all(), x.int(), torch.where(x, 1.0, 2.0)))
    assert_close(run(x), (x & True, ~x, x.sum(), x.any(), x.all(), x.int(), torch.where(x, 1.0, 2.0)))
    assert run(x)[0].view(torch.uint8).tolist() == [0, 1, 1, 1]


def reductions(x: Tensor) -> tuple[Tensor, ...]:
    over_last, over_first = x.flatten(1), x.transpose(0, 1).flatten(1)
    return (
        x.sum(),
        x.mean((0, 2)),
        x.amax(1),
        x.amin(-1),
        x.var((0, 1)),
        x.std(),
        *torch.var_mean(x, (0, 2)),
        over_last.argmax(1),
        over_first.argmin(0),
        (x > 0).any(2),
        (x > 0).all(0),
        x.prod(2),
        F.softmax(x, -1),
        F.log_softmax(x, 0),
        F.layer_norm(x, x.shape[1:]),
        torch.logsumexp(x, (1, 2)),
        x.norm(dim=0),
    )


@pytest.mark.parametrize("shape", [(3, 5, 70), (40, 3, 2), (1, 1, 1000)], ids=str)
def test_reductions(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    same_values(reductions, torch.randn(shape).to("mydev"))


def test_extrema_are_nan_and_the_first_of_equals() -> None:
    x = torch.tensor([[1, 5, 5, float("nan"), 9, float("nan")], [2, 7, 7, 1, 1, 0]] * 40, device="mydev")
    same_values(lambda x: (x.argmax(1), x.argmin(1), x.amax(1), x.amin(0), x.argmax(0), x.argmin()), x)


def indexing(x: Tensor, index: Tensor) -> tuple[Tensor, ...]:
    return (
        x[index] * 2,
        x.gather(0, index.expand(6, -1).t() % 3),
        F.embedding(index, x),
        torch.zeros_like(x).index_add(0, index, x[: len(index)]),
        torch.zeros_like(x).scatter_add(0, index[:, None].expand(-1, 6), x),
        F.pad(x, (1, 2)) + 1,
        F.max_pool2d(x.reshape(1, 1, 4, 6), 2),
        F.interpolate(x.reshape(1, 1, 4, 6), scale_factor=2.0),
        torch.cat([x, x * 2]).cumsum(0),
        x.flip(1).roll(1, 0),
    )


@pytest.mark.parametrize("grad", [False, True])
def test_indices(grad: bool) -> None:
    like_eager(indexing, X.to("mydev").requires_grad_(grad), torch.tensor([1, 0, -1, 1], device="mydev").remainder(4))


def test_an_index_out_of_bounds_is_an_error_and_the_next_call_works() -> None:
    run = compiled(lambda x, index: (x[index] * 2).sum())
    x = torch.ones(4, device="mydev")
    assert run(x, torch.tensor([3], device="mydev")).item() == 2
    with pytest.raises((IndexError, RuntimeError), match="index is out of bounds"):
        run(x, torch.tensor([9], device="mydev")).item()
    assert run(x, torch.tensor([-4], device="mydev")).item() == 2


@pytest.mark.parametrize(
    "x",
    [X.t(), X.expand(2, 4, 6), X[:, ::2], X.flatten()[1:13].reshape(3, 4), X[:0], X[0, 0]],
    ids=["transposed", "expanded", "strided", "offset", "empty", "0-dim"],
)
def test_layouts_of_inputs(x: Tensor) -> None:
    base = X.to("mydev")
    same = base.as_strided(x.shape, x.stride(), x.storage_offset())
    like_eager(lambda y: (y * 2 + 1, y.sum(), y.contiguous()), same)


def test_conjugate_and_negative_views() -> None:
    z = torch.complex(X, X * 2).to("mydev")
    run = compiled(lambda y: y * 2 + 1)
    for view in (z, z.conj(), z.imag, z.conj().imag):
        assert_close(run(view), view * 2 + 1)


def test_rows_of_images_and_transposes() -> None:
    images = torch.randn(2, 3, 8, 40, generator=torch.Generator().manual_seed(0)).to("mydev")

    def function(x: Tensor) -> tuple[Tensor, ...]:
        bias = torch.arange(3.0, device=x.device).view(1, 3, 1, 1)
        return x * bias + 1, x.transpose(1, 3) + 1, x.permute(2, 0, 3, 1).contiguous(), x.sum((0, 2, 3)), x.mean(1)

    like_eager(function, images)
    like_eager(function, images.to(memory_format=torch.channels_last))


# --- graphs -----------------------------------------------------------------------------------------------------------


def test_sizes_change_without_compiling_again() -> None:
    run = compiled(lambda x: (F.softmax(x * 2, -1), x.sum(0), x.t().contiguous()), dynamic=True)
    for rows, columns in ((3, 5), (4, 70), (33, 2)):
        x = torch.linspace(-1, 1, rows * columns, device="mydev").reshape(rows, columns)
        assert_close(run(x), (F.softmax(x * 2, -1), x.sum(0), x.t().contiguous()))
    assert len(graphs()) == 1
    assert_all_by_kernels()


def test_inputs_that_are_written_and_shared() -> None:
    def function(x: Tensor, buffer: Tensor) -> tuple[Tensor, ...]:
        buffer.mul_(2).add_(x)
        x.t()[0] = 7
        return buffer.sum(), x, x[1], buffer.t()

    x, buffer = torch.ones(2, 3, device="mydev"), torch.full((2, 3), 2.0, device="mydev")
    y, other = x.clone(), buffer.clone()
    run = compiled(function)
    for _ in range(3):
        results, expected = run(x, buffer), function(y, other)
        assert_close((results, x, buffer), (expected, y, other))
    assert results[1] is x
    assert results[3].untyped_storage()._cdata == buffer.untyped_storage()._cdata
    assert_all_by_kernels()


def test_trains_as_in_eager_mode_with_its_optimizer_compiled() -> None:
    def train(way: Callable[..., Any]) -> list[Tensor]:
        model = mlp()
        run = way(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(0.1), eps=1e-2)
        step = way(optimizer.step)
        x = torch.linspace(-1, 1, 24, device="mydev").reshape(3, 8)
        for _ in range(3):
            optimizer.zero_grad()
            run(x).square().mean().backward()
            step()
        return [parameter.detach() for parameter in model.parameters()]

    expected = train(lambda callee: callee)
    assert_close(train(lambda callee: torch.compile(callee, backend=BACKEND)), expected)
    assert [graph.kind for graph in graphs()][:2] == ["forward", "backward"]
    assert_all_by_kernels()


def test_random_numbers_follow_the_seed() -> None:
    run = compiled(lambda x: (F.dropout(x, 0.5), torch.rand_like(x), torch.randn_like(x), torch.randint_like(x, 10)))
    x = torch.ones(4000, device="mydev")
    mydev.manual_seed(3)
    first, second = run(x), run(x)
    mydev.manual_seed(3)
    assert_close(run(x), first, rtol=0, atol=0)
    dropped, uniform, normal, integers = first
    assert not torch.equal(uniform, second[1])
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert 0.45 < uniform.mean() < 0.55 and uniform.min() >= 0 and uniform.max() < 1
    assert abs(normal.mean()) < 0.1 and 0.9 < normal.std() < 1.1
    assert integers.unique().tolist() == list(range(10))


def test_random_numbers_of_eager_mode() -> None:
    function = lambda x: F.dropout(x, 0.5) + torch.rand_like(x)  # noqa: E731
    run = compiled(function, options={"fallback_random": True})
    x = torch.ones(100, device="mydev")
    for seed in (1, 2):
        mydev.manual_seed(seed)
        actual = run(x)
        mydev.manual_seed(seed)
        assert_close(actual, function(x), rtol=0, atol=0)


def test_a_call_is_one_program_once_it_was_recorded() -> None:
    run = compiled(lambda x: F.softmax(x @ x.t(), -1) * 2)
    x = X.to("mydev")
    run(x)
    with mydev.launch_statistics() as statistics:
        result = run(x)
        mydev.synchronize()
    assert_close(result, F.softmax(x @ x.t(), -1) * 2)
    assert any(re.match(r"compiled\.fused_.*softmax", row.name) for row in statistics.rows), statistics.rows


def test_what_reads_values_runs_each_time() -> None:
    def function(x: Tensor) -> Tensor:
        return x * x.sum().item() + x[x > 0].sum()

    torch._dynamo.config.capture_scalar_outputs = torch._dynamo.config.capture_dynamic_output_shape_ops = True
    try:
        run = compiled(function)
        for factor in (1, 2, -3):
            x = X.to("mydev") * factor + 1
            assert_close(run(x), function(x))
    finally:
        torch._dynamo.config.capture_scalar_outputs = torch._dynamo.config.capture_dynamic_output_shape_ops = False


def test_operators_without_code_are_the_devices_own() -> None:
    like_eager(lambda x: (x.digamma() + 1, torch.linalg.qr(x)[1] * 2, torch.fft.rfft(x).abs()), X.to("mydev") + 3)
    calls = {name for graph in graphs() for name in graph.calls}
    assert {"aten.digamma.default", "aten.linalg_qr.default"} <= calls


def test_operators_that_the_hosts_kernels_are_faster_for_are_the_devices_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")  # with which Inductor takes no operator for a call that it could decompose
    like_eager(lambda x: F.group_norm(F.max_pool2d(x.sin(), 2), 2) * 3, torch.randn(2, 4, 6, 8).to("mydev"))
    calls = {name for graph in graphs() for name in graph.calls}
    assert {"aten.max_pool2d_with_indices.default", "aten.native_group_norm.default"} <= calls


def test_products_that_lie_in_a_slice_of_the_result_are_recorded() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.cat([x @ x.t(), x @ x.t() @ x], 1)

    run = compiled(function)
    x = X.to("mydev")
    with fallback_mode("error"):
        for _ in range(2):
            assert_close(run(x), function(x))


def test_integers_divided_by_integers_raise_for_zero() -> None:
    run = compiled(lambda x, y: (x // y + 1, x % y))
    x = torch.arange(6, device="mydev")
    assert_close(run(x, x + 1), (x // (x + 1) + 1, x % (x + 1)))
    with pytest.raises(RuntimeError, match="ZeroDivision"):
        run(x, x)
        mydev.synchronize()


# --- choice and failure -----------------------------------------------------------------------------------------------


#: Each text comes before the kernels of a source: the compiler then refuses the source, or finds no kernel in it.
MALFORMED = {
    "no code": "#error no such compiler\n",
    "no kernel": "#undef KERNEL\n#define KERNEL(name, ...) static void unused_##name(__VA_ARGS__)\n",
    "an unknown type": "#undef KERNEL\n#define KERNEL(name, ...) MYDEV_KERNEL(name, __VA_ARGS__, short more)\n",
    "an open brace": "namespace {\n",
}


def with_prelude(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Sources that are generated from now on have more words before their kernels."""
    compile_kernels, mark = _C.compile_kernels, '#line 1 "graph"\n'
    monkeypatch.setattr(
        _C, "compile_kernels", lambda *given: compile_kernels(*given[:2], given[2].replace(mark, text + mark))
    )


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED)
def test_a_graph_whose_kernels_do_not_compile_becomes_programs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    monkeypatch.setenv("MYDEV_KERNEL_GENERATION", "programs")
    with_prelude(monkeypatch, text)
    with caplog.at_level(logging.WARNING, "torch_mydev"):
        assert_like_eager(lambda x: x * 3 - 7, X.to("mydev"), backend=BACKEND)
    assert [graph.route for graph in graphs()] == ["program"]
    assert "a graph becomes programs of mydev, not kernels" in caplog.text


def test_what_keeps_a_graph_from_becoming_kernels_is_raised_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYDEV_KERNEL_GENERATION", "raise")
    with_prelude(monkeypatch, MALFORMED["an unknown type"])
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed):
        torch.compile(lambda x: x * 3 - 11, backend=BACKEND)(X.to("mydev"))


def test_a_kernel_that_takes_more_than_it_is_given_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        with_prelude(patch, "#undef KERNEL\n#define KERNEL(name, ...) MYDEV_KERNEL(name, __VA_ARGS__, i64 more)\n")
        run = compiled(lambda x: x * 3 - 8)
        x = X.to("mydev")
        for _ in range(2):
            with pytest.raises(RuntimeError, match="takes 2 pointers and 1 numbers; the frame has 2 and 0"):
                run(x)
                mydev.synchronize()
    torch._dynamo.reset()
    same_values(lambda x: x * 3 - 9, x)


def test_chosen_where_the_host_does_not_reach_the_memory(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from torch_mydev.compile import backend

    monkeypatch.setattr(backend, "_kernels_are_faster", lambda devices: True)
    monkeypatch.setattr(backend, "_obstacle", lambda devices: "the test wants it")
    backend._log_once.cache_clear()
    with caplog.at_level(logging.WARNING, "torch_mydev"):
        assert_like_eager(lambda x: x * 5 - 7, X.to("mydev").requires_grad_())
    assert_all_by_kernels()
    assert caplog.text.count("Graphs become kernels that the driver's compiler makes") == 1


def test_device_without_a_compiler(run_python: Run) -> None:
    code = """
import torch, torch_mydev
run = torch.compile(lambda x: x * 2, backend="mydev_kernels")
try:
    run(torch.ones(3, device="mydev"))
except Exception as error:
    print(error)
run = torch.compile(lambda x: x * 2)
print(run(torch.ones(3, device="mydev")).tolist(), torch_mydev.compile_report().graphs[0].route)
"""
    result = run_python(code, compiler=True, MYDEV_DRIVER="host:remote", CXX="/nowhere/c++")
    assert "the driver of mydev:0 has no kernel compiler" in result.stdout, result.stderr
    assert "[2.0, 2.0, 2.0] program" in result.stdout, result.stderr


def test_graphs_of_the_cpu_are_inductors() -> None:
    x = torch.linspace(0, 1, 7)
    assert_close(compiled(lambda x: x * 11 + 1)(x), x * 11 + 1)
    assert graphs() == []


def test_languages_have_the_same_words() -> None:
    def words(text: str) -> set[str]:
        return set(re.findall(r"^#define ([A-Z][A-Z_]+)\b", text, re.MULTILINE))

    spoken = {language.name: words(language.source) for language in _C.kernel_languages()}
    assert spoken.keys() == {"c++", "cuda-c", "opencl-c"}
    needed = {"KERNEL", "IN", "OUT", "ROWS_OPEN", "PLACES_CLOSE", "LANES_OPEN", "GROUPS_OPEN", "LOOP_CLOSE", "GROUP"}
    needed |= {"ACCUMULATOR", "CHECK_INDEX", "CHECKS_OPEN", "CHECKS_CLOSE", "SCRATCH", "KEPT", "ONCE", "GROUP_BARRIER"}
    needed |= {"IN_PARAMETER", "OUT_PARAMETER", "IN_POINTER", "OUT_POINTER", "FAULT_PARAMETER"}
    needed |= {"VECTORS_OPEN", "VECTORS_CLOSE", "VECTOR_AT", "UNROLLED"}
    assert all(needed <= known for known in spoken.values()), spoken


def test_model_has_no_part_outside_kernels() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4)).to("mydev")
    compiled(model)(torch.ones(3, 8, device="mydev")).sum().backward()
    assert {name for graph in graphs() for name in graph.calls} <= {
        "aten.addmm.out",
        "aten.mm.out",
        "aten.addmm.default",
    }
