"""Matrix products on the device: values, gradients, strides, dtypes and errors are the CPU's, without a fallback."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._higher_order_ops.out_dtype import out_dtype

from torch_mydev import fallback_census, fallback_mode

KERNEL_DTYPES = [torch.float32, torch.bfloat16, torch.float16]

# name: what is multiplied, and the sizes of its operands
PRODUCTS: dict[str, tuple[Callable[..., Tensor], list[tuple[int, ...]]]] = {
    "mm": (torch.mm, [(5, 7), (7, 6)]),
    "mm_small": (torch.mm, [(16, 16), (16, 16)]),
    "mm_large": (torch.mm, [(70, 90), (90, 110)]),
    "mm_one_row": (torch.mm, [(1, 300), (300, 200)]),
    "mm_one_column": (torch.mm, [(300, 200), (200, 1)]),
    "mm_nothing_to_sum": (torch.mm, [(3, 0), (0, 4)]),
    "mm_no_rows": (torch.mm, [(0, 3), (3, 4)]),
    "bmm": (torch.bmm, [(4, 5, 7), (4, 7, 6)]),
    "bmm_large": (torch.bmm, [(3, 40, 50), (3, 50, 60)]),
    "bmm_empty_batch": (torch.bmm, [(0, 5, 7), (0, 7, 6)]),
    "mv": (torch.mv, [(40, 50), (50,)]),
    "mv_nothing_to_sum": (torch.mv, [(4, 0), (0,)]),
    "dot": (torch.dot, [(500,), (500,)]),
    "addmm": (torch.addmm, [(5, 6), (5, 7), (7, 6)]),
    "addmm_bias": (torch.addmm, [(6,), (5, 7), (7, 6)]),
    "addmm_column": (torch.addmm, [(5, 1), (5, 7), (7, 6)]),
    "addmm_scalar": (torch.addmm, [(), (5, 7), (7, 6)]),
    "addmm_large_bias": (torch.addmm, [(110,), (70, 90), (90, 110)]),
    "addmm_nothing_to_sum": (torch.addmm, [(4,), (3, 0), (0, 4)]),
    "baddbmm": (torch.baddbmm, [(4, 5, 6), (4, 5, 7), (4, 7, 6)]),
    "baddbmm_bias": (torch.baddbmm, [(6,), (4, 5, 7), (4, 7, 6)]),
    "addmv": (torch.addmv, [(40,), (40, 50), (50,)]),
    "addmv_scalar": (torch.addmv, [(1,), (40, 50), (50,)]),
    "linear": (torch.nn.functional.linear, [(8, 30), (20, 30), (20,)]),
    "linear_of_three_dimensions": (torch.nn.functional.linear, [(2, 8, 30), (20, 30), (20,)]),
    "matmul_broadcast": (torch.matmul, [(2, 1, 4, 5), (3, 5, 6)]),
}


def operands(sizes: list[tuple[int, ...]], dtype: torch.dtype = torch.float32) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(size).to(dtype) for size in sizes]


def same_layout(actual: Tensor, expected: Tensor) -> None:
    """Equal values at default tolerances, dtype, and strides."""
    torch.testing.assert_close(actual.cpu(), expected)
    assert actual.stride() == expected.stride()


@pytest.mark.parametrize("dtype", KERNEL_DTYPES, ids=str)
@pytest.mark.parametrize("name", PRODUCTS)
def test_product_agrees_with_cpu(device: torch.device, name: str, dtype: torch.dtype) -> None:
    function, sizes = PRODUCTS[name]
    inputs = operands(sizes, dtype)
    on_device = [x.to(device) for x in inputs]
    with fallback_mode("error"):
        actual = function(*on_device)
    same_layout(actual, function(*inputs))


@pytest.mark.parametrize("name", PRODUCTS)
def test_gradients_agree_with_cpu(device: torch.device, name: str) -> None:
    function, sizes = PRODUCTS[name]
    inputs = operands(sizes)
    on_device = [x.to(device).requires_grad_() for x in inputs]
    for x in inputs:
        x.requires_grad_()
    expected, actual = function(*inputs), function(*on_device)
    weights = torch.randn(expected.shape)
    (expected * weights).sum().backward()
    (actual * weights.to(device)).sum().backward()
    for x, y in zip(on_device, inputs, strict=True):
        torch.testing.assert_close(x.grad.cpu(), y.grad)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": lambda x: x.t().contiguous().t(),
    "sliced": lambda x: torch.cat([x, x], 1)[:, : x.size(1)],
    "stepped": lambda x: x.repeat_interleave(2, 1)[:, ::2],
    "offset": lambda x: torch.cat([x, x])[x.size(0) :],
    "repeated": lambda x: x[:1].expand_as(x),
    "repeated_column": lambda x: x[:, :1].expand_as(x),
}


@pytest.mark.parametrize("size", [6, 20, 70])
@pytest.mark.parametrize("b_layout", LAYOUTS)
@pytest.mark.parametrize("a_layout", LAYOUTS)
def test_any_strides_agree_with_cpu(device: torch.device, a_layout: str, b_layout: str, size: int) -> None:
    a, b = operands([(size, size + 2), (size + 2, size + 1)])
    expected = LAYOUTS[a_layout](a) @ LAYOUTS[b_layout](b)
    on_device = LAYOUTS[a_layout](a.to(device)), LAYOUTS[b_layout](b.to(device))
    with fallback_mode("error"):
        actual = torch.mm(*on_device)
    same_layout(actual, expected)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 8, 9])
@pytest.mark.parametrize("size", [(64, 100), (64, 256), (130, 128), (128, 512)], ids=str)
def test_thin_products_of_transposed_matrices_agree_with_cpu(
    device: torch.device, size: tuple[int, int], rows: int
) -> None:
    a, b = operands([(rows, size[0]), (size[1], size[0])])
    expected = a @ b.t()
    with fallback_mode("error"):
        actual = a.to(device) @ b.to(device).t()
    torch.testing.assert_close(actual.cpu(), expected)


@pytest.mark.parametrize("dtype", KERNEL_DTYPES, ids=str)
@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (0, 1), (0.5, 2), (-1, 0), (2, 2)])
@pytest.mark.parametrize("size", [6, 70])
@pytest.mark.parametrize("bias", [True, False])
def test_scaled_sum_agrees_with_cpu(
    device: torch.device, bias: bool, size: int, beta: float, alpha: float, dtype: torch.dtype
) -> None:
    inputs = operands([(size,) if bias else (size, size), (size, size), (size, size)], dtype)
    on_device = [x.to(device) for x in inputs]
    with fallback_mode("error"):
        actual = torch.addmm(*on_device, beta=beta, alpha=alpha)
    same_layout(actual, torch.addmm(*inputs, beta=beta, alpha=alpha))


def test_zero_beta_hides_the_addend(device: torch.device) -> None:
    addend, a, b = operands([(70, 70), (70, 70), (70, 70)])
    addend.fill_(torch.nan)
    actual = torch.addmm(addend.to(device), a.to(device), b.to(device), beta=0)
    torch.testing.assert_close(actual.cpu(), a @ b)


UNREAD_FACTORS = {
    name: sizes for name, (_, sizes) in PRODUCTS.items() if name.startswith(("addmm", "baddbmm", "addmv"))
}


@pytest.mark.parametrize("dtype", KERNEL_DTYPES, ids=str)
@pytest.mark.parametrize("beta", [0, 0.5, 1])
@pytest.mark.parametrize("form", ["functional", "out", "in_place"])
@pytest.mark.parametrize("name", UNREAD_FACTORS)
def test_zero_alpha_hides_the_factors(
    device: torch.device, name: str, form: str, beta: float, dtype: torch.dtype
) -> None:
    function, sizes = PRODUCTS[name]
    addend, a, b = operands(sizes, dtype)
    shape = function(addend, a, b).shape
    factors = torch.full_like(a, torch.nan, device=device), torch.full_like(b, torch.inf, device=device)
    expected = (addend * beta).expand(shape)
    with fallback_mode("error"):
        if form == "in_place":
            actual = addend.expand(shape).contiguous().to(device)
            getattr(actual, f"{function.__name__}_")(*factors, beta=beta, alpha=0)
        elif form == "out":
            actual = torch.full(shape, torch.nan, dtype=dtype, device=device)
            function(addend.to(device), *factors, beta=beta, alpha=0, out=actual)
        else:
            actual = function(addend.to(device), *factors, beta=beta, alpha=0)
    torch.testing.assert_close(actual.cpu(), expected)


def test_zero_alpha_and_beta_hide_all_operands(device: torch.device) -> None:
    operands = [torch.full((70, 70), torch.nan, device=device) for _ in range(3)]
    assert torch.addmm(*operands, beta=0, alpha=0).count_nonzero() == 0


@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        (torch.addbmm, [(4, 6), (3, 4, 5), (3, 5, 6)]),
        (torch.addr, [(4, 5), (4,), (5,)]),
        (torch._addmm_activation, [(6,), (4, 5), (5, 6)]),
    ],
    ids=["addbmm", "addr", "_addmm_activation"],
)
@pytest.mark.parametrize("beta", [0, 0.5])
def test_other_scaled_sums_read_what_the_cpu_reads(
    device: torch.device, function: Callable[..., Tensor], sizes: list[tuple[int, ...]], beta: float
) -> None:
    addend, a, b = operands(sizes)
    a.fill_(torch.nan)
    expected = function(addend, a, b, beta=beta, alpha=0)
    actual = function(addend.to(device), a.to(device), b.to(device), beta=beta, alpha=0)
    torch.testing.assert_close(actual.cpu(), expected, equal_nan=True)


IN_PLACE = {
    "addmm_": [(5, 6), (5, 7), (7, 6)],
    "addmm_large": [(70, 110), (70, 90), (90, 110)],
    "baddbmm_": [(4, 5, 6), (4, 5, 7), (4, 7, 6)],
    "addmv_": [(40,), (40, 50), (50,)],
}


@pytest.mark.parametrize("dtype", KERNEL_DTYPES, ids=str)
@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_accumulates(device: torch.device, name: str, dtype: torch.dtype) -> None:
    method = name if name.endswith("_") else "addmm_"
    inputs = operands(IN_PLACE[name], dtype)
    on_device = [x.to(device) for x in inputs]
    with fallback_mode("error"):
        result = getattr(on_device[0], method)(*on_device[1:], beta=0.5, alpha=2)
    getattr(inputs[0], method)(*inputs[1:], beta=0.5, alpha=2)
    assert result is on_device[0]
    same_layout(on_device[0], inputs[0])


def test_in_place_works_on_a_transposed_view(device: torch.device) -> None:
    base, a, b = operands([(60, 50), (50, 40), (40, 60)])
    on_device = base.to(device)
    on_device.t().addmm_(a.to(device), b.to(device))
    base.t().addmm_(a, b)
    torch.testing.assert_close(on_device.cpu(), base)


@pytest.mark.parametrize("name", ["mm", "mm_large", "bmm", "mv", "dot", "addmm_bias", "baddbmm", "addmv"])
def test_out_is_resized_and_filled(device: torch.device, name: str) -> None:
    function, sizes = PRODUCTS[name]
    inputs = operands(sizes)
    expected = function(*inputs)
    out = torch.empty(0, device=device)
    with fallback_mode("error"):
        result = function(*(x.to(device) for x in inputs), out=out)
    assert result is out
    same_layout(out, expected)


def test_out_keeps_its_strides(device: torch.device) -> None:
    a, b = operands([(50, 40), (40, 60)])
    out = torch.empty(60, 50, device=device).t()
    with fallback_mode("error"):
        torch.mm(a.to(device), b.to(device), out=out)
    assert out.stride() == (1, 50)
    torch.testing.assert_close(out.cpu(), a @ b)


@pytest.mark.parametrize(
    ("name", "shape", "part"),
    [
        ("mm", (8, 12), (slice(None), slice(2, 9))),
        ("mm", (12, 8), (slice(0, 12, 2), slice(0, 7))),
        ("bmm", (3, 8, 12), (slice(None), slice(1, 7), slice(2, 9))),
        ("addmm", (6, 12), (slice(None), slice(5, None))),
    ],
    ids=str,
)
def test_out_may_be_a_part_of_a_tensor(
    device: torch.device, name: str, shape: tuple[int, ...], part: tuple[slice, ...]
) -> None:
    whole = torch.zeros(shape)
    *batch, rows, columns = whole[part].shape
    factors = [torch.randn(*batch, rows, 5), torch.randn(*batch, 5, columns)]
    if name == "addmm":
        factors.insert(0, torch.randn(columns))
    expected, actual = whole.clone(), whole.to(device)
    getattr(torch, name)(*factors, out=expected[part])
    with fallback_mode("error"):
        getattr(torch, name)(*(x.to(device) for x in factors), out=actual[part])
    torch.testing.assert_close(actual.cpu(), expected)


def test_out_may_be_the_addend(device: torch.device) -> None:
    addend, a, b = operands([(5, 6), (5, 7), (7, 6)])
    on_device = addend.to(device)
    torch.addmm(on_device, a.to(device), b.to(device), out=on_device)
    torch.testing.assert_close(on_device.cpu(), torch.addmm(addend, a, b))


@pytest.mark.host_access  # elsewhere the host driver has a record that takes all dtypes
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64], ids=str)
def test_other_dtypes_run_the_cpu_kernel(device: torch.device, dtype: torch.dtype) -> None:
    a, b = (x.mul(4).to(dtype) for x in operands([(5, 7), (7, 6)]))
    with fallback_census() as census:
        actual = a.to(device) @ b.to(device)
    same_layout(actual, a @ b)
    assert [row.op for row in census.rows] == ["aten::mm"]


@pytest.mark.host_access
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_integers_are_multiplied_by_the_kernel(device: torch.device, dtype: torch.dtype) -> None:
    """Sums wrap around; factors that are no whole numbers, and those that a double does not hold, are the CPU's."""
    generator = torch.Generator().manual_seed(0)
    a, b, c = (
        torch.randint(-(2**62), 2**62, sizes, generator=generator).to(dtype) for sizes in [(70, 33), (33, 40), (70, 40)]
    )
    there = a.to(device), b.to(device), c.to(device)
    with fallback_mode("error"):
        assert torch.equal((there[0] @ there[1]).cpu(), a @ b)
        assert torch.equal((there[0][0] @ there[1]).cpu(), a[0] @ b)
        assert torch.equal(torch.dot(there[0][0], there[1][:, 0]).cpu(), torch.dot(a[0], b[:, 0]))
        assert torch.equal(torch.bmm(there[0][None], there[1][None]).cpu(), torch.bmm(a[None], b[None]))
        sums = torch.addmm(there[2], there[0], there[1].t().contiguous().t(), beta=-2, alpha=3)
        assert torch.equal(sums.cpu(), torch.addmm(c, a, b, beta=-2, alpha=3))
    for factor in (2**53 + 1, 0.5):
        sums = torch.addmm(there[2].long(), there[0].long(), there[1].long(), beta=factor)
        assert torch.equal(sums.cpu(), torch.addmm(c.long(), a.long(), b.long(), beta=factor))


@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        (torch.mm, [(5, 7), (6, 6)]),
        (torch.mm, [(5,), (5, 6)]),
        (torch.bmm, [(4, 5, 7), (3, 7, 6)]),
        (torch.mv, [(4, 5), (4,)]),
        (torch.dot, [(4,), (5,)]),
        (torch.addmm, [(3, 6), (5, 7), (7, 6)]),
        (torch.baddbmm, [(4, 5, 5), (4, 5, 7), (4, 7, 6)]),
        (torch.addmv, [(3,), (4, 5), (5,)]),
    ],
    ids=["mm", "mm_vector", "bmm", "mv", "dot", "addmm", "baddbmm", "addmv"],
)
def test_wrong_sizes_raise_what_the_cpu_raises(
    device: torch.device, function: Callable[..., Tensor], sizes: list[tuple[int, ...]]
) -> None:
    inputs = operands(sizes)
    with pytest.raises(RuntimeError) as expected:
        function(*inputs)
    with pytest.raises(RuntimeError) as actual:
        function(*(x.to(device) for x in inputs))
    assert str(actual.value).splitlines()[0] == str(expected.value).splitlines()[0]


def test_mixed_dtypes_raise_what_the_cpu_raises(device: torch.device) -> None:
    a, b = torch.ones(2, 2), torch.ones(2, 2, dtype=torch.float16)
    with pytest.raises(RuntimeError) as expected:
        a @ b
    with pytest.raises(RuntimeError) as actual:
        a.to(device) @ b.to(device)
    assert str(actual.value).splitlines()[0] == str(expected.value).splitlines()[0]


def test_mixed_devices_are_refused(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(2, 2, device=device) @ torch.ones(2, 2)


@pytest.mark.parametrize(
    "product",
    [torch.dot, lambda a, b: a.view(2, -1) @ b.view(2, -1).t(), lambda a, b: F.linear(a.view(4, -1), b.view(4, -1))],
    ids=["dot", "mm", "linear"],
)
def test_products_over_many_elements_stay_accurate(device: torch.device, product: Callable[..., torch.Tensor]) -> None:
    torch.manual_seed(0)
    a, b = torch.rand(4_000_000), torch.rand(4_000_000)
    exact = product(a.double(), b.double())
    torch.testing.assert_close(product(a.to(device), b.to(device)).cpu().double(), exact, rtol=1e-6, atol=0)


def test_outer_product_into_a_number_raises_what_the_cpu_raises(device: torch.device) -> None:
    with pytest.raises(RuntimeError) as expected:
        torch.tensor(0.0).addr_(torch.ones(2), torch.ones(3))
    with pytest.raises(RuntimeError) as actual:
        torch.tensor(0.0, device=device).addr_(torch.ones(2, device=device), torch.ones(3, device=device))
    assert str(actual.value).splitlines()[0] == str(expected.value).splitlines()[0]


def test_outer_product_in_place(device: torch.device) -> None:
    total, a, b = torch.arange(6.0).reshape(2, 3), torch.tensor([1.0, -2.0]), torch.tensor([3.0, 0.5, 1.0])
    expected = total.clone().addr_(a, b, beta=0.5, alpha=2)
    actual = total.to(device).addr_(a.to(device), b.to(device), beta=0.5, alpha=2)
    torch.testing.assert_close(actual.cpu(), expected)


def test_complex_svd_into_given_results(device: torch.device) -> None:
    torch.manual_seed(0)
    matrix = torch.randn(3, 3, dtype=torch.complex64)
    out = (
        torch.empty(0, dtype=torch.complex64, device=device),
        torch.empty(0, device=device),
        torch.empty(0, dtype=torch.complex64, device=device),
    )
    u, s, v = torch.linalg.svd(matrix.to(device), out=out)
    assert u is out[0]
    torch.testing.assert_close((u * s @ v).cpu(), matrix)


def test_int8_products_into_int32_are_one_operator(device: torch.device) -> None:
    """out_dtype, by which torchao's int8 layers multiply, takes _int_mm as on CUDA; other products as on the CPU."""
    a = torch.randint(-128, 128, (33, 64), dtype=torch.int8)
    b = torch.randint(-128, 128, (64, 40), dtype=torch.int8)
    there = a.to(device), b.to(device)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        product = out_dtype(torch.ops.aten.mm.default, torch.int32, *there)
    assert product.dtype == torch.int32
    assert torch.equal(product.cpu().long(), a.long() @ b.long())
    assert {"aten::_int_mm"} <= {event.name for event in profile.events()}
    wide = out_dtype(torch.ops.aten.mm.default, torch.int32, there[0].to(torch.int16), there[1].to(torch.int16))
    assert torch.equal(wide.cpu(), product.cpu())
    squares = out_dtype(torch.ops.aten.mul.Tensor, torch.int32, there[0], there[0])
    assert torch.equal(squares.cpu(), a.int() * a.int())


@pytest.mark.parametrize("instructions", ["ALL", "AVX2"])
def test_int8_products_are_exact_on_any_processor(
    instructions: str, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """oneDNN, which is PyTorch's kernel too, adds pairs of products in 16 bits where it lacks instructions for 32."""
    code = """
import torch
for rows, depth, columns in ((1, 64, 40), (7, 99, 33), (64, 64, 64), (130, 1030, 70), (64, 4099, 66), (3, 4099, 5)):
    for turned in (False, True):
        for low in (-128, 101):  # sums up to 2**26, which f32 does not hold
            a = torch.full((rows, depth), low, dtype=torch.int8)
            b = torch.full((columns, depth) if turned else (depth, columns), low, dtype=torch.int8)
            a[::2, ::3] = b[::2, ::5] = 127
            there = b.to("mydev").t() if turned else b.to("mydev")
            expected = a.long() @ (b.t() if turned else b).long()
            actual = torch._int_mm(a.to("mydev"), there)
            assert torch.equal(actual.cpu().long(), expected), (rows, depth, columns, turned)
            given = torch.empty(0, dtype=torch.int32, device="mydev")
            assert torch.equal(torch._int_mm(a.to("mydev"), there, out=given), actual)
"""
    result = run_python(code, fresh=True, ONEDNN_MAX_CPU_ISA=instructions)
    assert result.returncode == 0, result.stderr


def test_factors_of_integers_that_the_type_does_not_hold_are_refused(device: torch.device) -> None:
    ones = torch.ones(3, 3, dtype=torch.int8)
    there = ones.to(device)
    for factor in (1000, 128, -129):
        for operands in ((ones, ones, ones), (there, there, there)):
            with pytest.raises(RuntimeError, match="cannot be converted to type int8_t without overflow"):
                torch.addmm(*operands, alpha=factor)
    torch.testing.assert_close(
        torch.addmm(there, there, there, alpha=-128).cpu(), torch.addmm(ones, ones, ones, alpha=-128)
    )
