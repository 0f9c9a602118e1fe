"""Sparse tensors on the device: making them, taking them apart, copying, PyTorch's operators on them, and training."""

from __future__ import annotations

import copy
import itertools
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

import torch_mydev
from support.parity import assert_same, is_out_of_reach
from torch_mydev.conform.operators.harness import (
    OPERATORS,
    case_name,
    compare,
    has_gradients,
    on_device,
    run,
    sample_dtype,
)
from torch_mydev.conform.operators.ledger import RANDOM, UNDEFINED_CONTENTS

LAYOUTS: dict[torch.layout, Callable[[torch.Tensor], torch.Tensor]] = {
    torch.sparse_coo: torch.Tensor.to_sparse,
    torch.sparse_csr: torch.Tensor.to_sparse_csr,
    torch.sparse_csc: torch.Tensor.to_sparse_csc,
    torch.sparse_bsr: lambda dense: dense.to_sparse_bsr((2, 2)),
    torch.sparse_bsc: lambda dense: dense.to_sparse_bsc((2, 2)),
}
SPARSE_FIELDS = {
    torch.sparse_coo: "supports_sparse",
    torch.sparse_csr: "supports_sparse_csr",
    torch.sparse_csc: "supports_sparse_csc",
    torch.sparse_bsr: "supports_sparse_bsr",
    torch.sparse_bsc: "supports_sparse_bsc",
}
#: Operators with samples of a sparse layout.
CASES = [(op, layout) for op in OPERATORS for layout, field in SPARSE_FIELDS.items() if getattr(op, field)]

pytestmark = pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta state:UserWarning")


@pytest.fixture
def dense() -> torch.Tensor:
    values = torch.arange(24.0).reshape(4, 6)
    return values * (values % 3 == 1)


@pytest.fixture(params=LAYOUTS, ids=str)
def layout(request: pytest.FixtureRequest) -> torch.layout:
    return request.param  # type: ignore[no-any-return]


def components(sparse: torch.Tensor) -> tuple[torch.Tensor, ...]:
    if sparse.layout == torch.sparse_coo:
        return sparse._indices(), sparse._values()
    if sparse.layout in (torch.sparse_csr, torch.sparse_bsr):
        return sparse.crow_indices(), sparse.col_indices(), sparse.values()
    return sparse.ccol_indices(), sparse.row_indices(), sparse.values()


# --- tensors ----------------------------------------------------------------------------------------------------------


def test_conversion_on_the_device_is_the_cpus(device: torch.device, dense: torch.Tensor, layout: torch.layout) -> None:
    expected = LAYOUTS[layout](dense)
    actual = LAYOUTS[layout](dense.to(device))
    assert actual.layout == layout
    assert actual.device.type == device.type
    assert_same(components(actual), components(expected), device)
    assert_same(actual.to_dense(), dense, device)


def test_copies_between_devices_keep_everything(
    device: torch.device, dense: torch.Tensor, layout: torch.layout
) -> None:
    expected = LAYOUTS[layout](dense)
    moved = expected.to(device)
    assert moved.device.type == device.type
    assert_same(components(moved), components(expected), device)
    torch.testing.assert_close(moved.cpu(), expected)
    assert moved.cpu().device.type == "cpu"
    if layout == torch.sparse_coo:
        assert moved.is_coalesced() == expected.is_coalesced()


def test_components_make_a_tensor_without_a_copy(
    device: torch.device, dense: torch.Tensor, layout: torch.layout
) -> None:
    parts = [part.to(device) for part in components(LAYOUTS[layout](dense))]
    if layout == torch.sparse_coo:
        sparse = torch.sparse_coo_tensor(*parts, dense.shape)
    else:
        sparse = torch.sparse_compressed_tensor(*parts, dense.shape, layout=layout)
    values = components(sparse)[-1]
    assert values.data_ptr() == parts[-1].data_ptr()
    values.mul_(2)
    assert_same(sparse.to_dense(), 2 * dense, device)


def test_construction_from_lists(device: torch.device) -> None:
    sparse = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3), device=device)
    assert sparse.device.type == device.type
    assert_same(sparse.to_dense(), torch.tensor([[0.0, 0.0, 3.0], [4.0, 0.0, 5.0]]), device)
    rows = torch.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0], device=device)
    assert_same(rows.to_dense(), torch.diag(torch.tensor([1.0, 2.0])), device)


@pytest.mark.parametrize("make", [torch.empty, torch.zeros])
def test_empty_tensors(device: torch.device, make: Callable[..., torch.Tensor]) -> None:
    sparse = make(2, 3, layout=torch.sparse_coo, device=device)
    assert sparse._nnz() == 0
    assert_same(sparse.to_dense(), torch.zeros(2, 3), device)


def test_wrong_indices_are_named(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match="size is inconsistent with indices"):
        torch.sparse_coo_tensor([[0, 7]], [1.0, 2.0], (2,), device=device, check_invariants=True)


@pytest.mark.parametrize("cpu_first", [False, True])
def test_operands_of_both_devices_are_refused(device: torch.device, dense: torch.Tensor, cpu_first: bool) -> None:
    operands = [dense.to(device).to_sparse(), dense.to_sparse()]
    with pytest.raises(RuntimeError, match=r"same device|expected .*(device|cpu)"):
        torch.add(*(reversed(operands) if cpu_first else operands))


def test_in_place_operations_change_the_tensor_itself(device: torch.device, dense: torch.Tensor) -> None:
    sparse = dense.to(device).to_sparse()
    same = sparse
    sparse.mul_(2).add_(torch.eye(4, 6, device=device).to_sparse())
    assert_same(same.to_dense(), 2 * dense + torch.eye(4, 6), device)
    sparse.zero_()
    assert same._nnz() == 0
    target = torch.ones(4, 6, device=device)
    target.add_(dense.to(device).to_sparse())
    assert_same(target, 1 + dense, device)


def test_duplicates_are_summed(device: torch.device) -> None:
    sparse = torch.sparse_coo_tensor([[1, 0, 1]], [1.0, 2.0, 3.0], (2,), device=device)
    assert not sparse.is_coalesced()
    whole = sparse.coalesce()
    assert whole.is_coalesced()
    assert_same((whole.indices(), whole.values()), (torch.tensor([[0, 1]]), torch.tensor([2.0, 4.0])), device)


def test_clones_share_nothing(device: torch.device, dense: torch.Tensor, layout: torch.layout) -> None:
    sparse = LAYOUTS[layout](dense.to(device))
    for other in (sparse.clone(), copy.deepcopy(sparse)):
        components(other)[-1].zero_()
        assert_same(sparse.to_dense(), dense, device)


def test_saved_and_loaded(device: torch.device, dense: torch.Tensor, tmp_path: Any, layout: torch.layout) -> None:
    sparse = LAYOUTS[layout](dense.to(device))
    torch.save(sparse, tmp_path / "sparse.pt")
    loaded = torch.load(tmp_path / "sparse.pt")
    assert loaded.device == sparse.device
    assert_same(components(loaded), tuple(part.cpu() for part in components(sparse)), device)


def test_fallbacks_are_counted(device: torch.device, dense: torch.Tensor) -> None:
    sparse, other = dense.to(device).to_sparse(), torch.ones(6, 2, device=device)
    with torch_mydev.fallback_census() as census:
        torch.sparse.mm(sparse, other)
    assert census.total_calls > 0
    with torch_mydev.fallback_mode("error"), pytest.raises(NotImplementedError, match="fall"):
        torch.sparse.mm(sparse, other)


def test_operators_that_no_device_has_are_named(device: torch.device, dense: torch.Tensor) -> None:
    with pytest.raises(NotImplementedError, match="aten::sort.* has a kernel for sparse COO tensors"):
        dense.to(device).to_sparse().sort()


# --- PyTorch's operators ----------------------------------------------------------------------------------------------


def samples(op: OpInfo, layout: torch.layout) -> Iterator[SampleInput]:
    """PyTorch's own, or one for operators of one operand, which have none."""
    requires_grad = has_gradients(op)
    try:
        yield from itertools.islice(
            op.sample_inputs_sparse(layout, "cpu", sample_dtype(op), requires_grad=requires_grad), 6
        )
    except (NotImplementedError, unittest.SkipTest):  # PyTorch's word for no samples
        values = torch.linspace(0.1, 0.9, 24).reshape(4, 6)
        sparse = LAYOUTS[layout](values * (torch.arange(24).reshape(4, 6) % 3 == 1))
        yield SampleInput(sparse.to(sample_dtype(op)).requires_grad_(requires_grad))


@pytest.mark.parametrize(
    ("op", "layout"), CASES, ids=[f"{case_name(op)}-{layout}".replace("torch.", "") for op, layout in CASES]
)
def test_operator(op: OpInfo, layout: torch.layout) -> None:
    """Results are the CPU's, and what the CPU refuses is refused."""
    tried = 0
    for sample in samples(op, layout):
        tried += 1
        moved = on_device(sample)
        try:
            expected = run(op, sample)
        except (RuntimeError, NotImplementedError, TypeError) as refusal:
            with pytest.raises(type(refusal)):
                run(op, moved)
            continue
        for a, e in zip(run(op, moved), expected, strict=True):
            compare(a, e, values=case_name(op) not in UNDEFINED_CONTENTS | RANDOM)
    assert tried > 0


# --- training ---------------------------------------------------------------------------------------------------------


def repeated(dtype: torch.dtype, sparse_dims: int) -> torch.Tensor:
    """Elements of [5, 4, 3], of which some stand in one place."""
    places = torch.tensor([[4, 1, 1, 0, 4, 1], [2, 3, 0, 1, 2, 3]])[:sparse_dims]
    values = torch.arange(6 * 4 ** (2 - sparse_dims) * 3).reshape(6, *[4] * (2 - sparse_dims), 3) - 7
    return torch.sparse_coo_tensor(places, values.to(dtype), (5, 4, 3))


SPARSE_DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.complex64, torch.bool]


@pytest.mark.parametrize("sparse_dims", [1, 2])
@pytest.mark.parametrize("dtype", SPARSE_DTYPES, ids=str)
def test_repeated_elements_become_one(device: torch.device, dtype: torch.dtype, sparse_dims: int) -> None:
    expected = repeated(dtype, sparse_dims).coalesce()
    actual = repeated(dtype, sparse_dims).to(device).coalesce()
    assert actual.is_coalesced()
    assert actual.shape == expected.shape
    assert_same(components(actual), components(expected), device)


@pytest.mark.parametrize("alpha", [1, -2])
@pytest.mark.parametrize("sparse_dims", [1, 2])
@pytest.mark.parametrize("dtype", SPARSE_DTYPES[:-1], ids=str)
def test_sums_of_dense_and_sparse(device: torch.device, dtype: torch.dtype, sparse_dims: int, alpha: int) -> None:
    sparse = repeated(dtype, sparse_dims)
    dense = torch.arange(60).reshape(3, 4, 5).to(dtype).permute(2, 1, 0)
    moved = dense.to(device)
    assert moved.stride() == dense.stride()
    assert_same(moved.add_(sparse.to(device), alpha=alpha), dense.clone().add_(sparse, alpha=alpha), device)


def test_sums_that_the_cpu_refuses(device: torch.device) -> None:
    sparse = repeated(torch.float32, 1).to(device)
    for sizes, dtype in ((5, 4, 2), torch.float32), ((5, 4, 3), torch.int64):
        with pytest.raises(RuntimeError):
            torch.zeros(sizes, dtype=dtype).add_(sparse.cpu())
        with pytest.raises(RuntimeError):
            torch.zeros(sizes, dtype=dtype, device=device).add_(sparse)


@pytest.mark.parametrize("sparse_dims", [1, 2])
@pytest.mark.parametrize("dtype", SPARSE_DTYPES, ids=str)
def test_elements_in_the_places_of_a_mask(device: torch.device, dtype: torch.dtype, sparse_dims: int) -> None:
    mask = repeated(dtype, sparse_dims)
    dense = torch.arange(60).reshape(3, 4, 5).to(dtype).permute(2, 1, 0)
    for given in mask, mask.coalesce():
        actual, expected = dense.to(device).sparse_mask(given.to(device)), dense.sparse_mask(given)
        assert actual.is_coalesced() == expected.is_coalesced()
        assert_same(components(actual), components(expected), device)


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "Adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=0.1),
    "SparseAdam": lambda parameters: torch.optim.SparseAdam(list(parameters), lr=0.1),
}


def train(kind: type[nn.Module], optimizer: str, device: torch.device | str) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    table = kind(12, 3, sparse=True, **({"mode": "sum"} if kind is nn.EmbeddingBag else {})).to(device)
    stepper = OPTIMIZERS[optimizer](table.parameters())
    losses = []
    for step in range(4):
        stepper.zero_grad()
        loss = (table(torch.tensor([[1, 2, 1], [step, 5, 7]], device=device)) - 1).square().mean()
        loss.backward()
        assert table.weight.grad.is_sparse
        stepper.step()
        losses.append(loss.detach().cpu())
    return torch.stack(losses), table.weight.detach().cpu()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_sparse_gradients_train(device: torch.device, kind: type[nn.Module], optimizer: str) -> None:
    torch.testing.assert_close(train(kind, optimizer, device), train(kind, optimizer, "cpu"))


def test_sparse_adam_copies_nothing_to_the_host(device: torch.device) -> None:
    """The CPU's sparse kernels may work on memory that the host reaches."""
    with torch_mydev.fallback_mode("error" if is_out_of_reach(device) else "allow"):
        train(nn.Embedding, "SparseAdam", device)


def test_gradients_of_sparse_operands(device: torch.device, dense: torch.Tensor) -> None:
    def gradient(device: torch.device | str) -> tuple[torch.Tensor, torch.Tensor]:
        sparse = dense.to(device).to_sparse().requires_grad_()
        weight = torch.linspace(0, 1, 12, device=device).reshape(6, 2).requires_grad_()
        torch.sparse.mm(sparse, weight).square().sum().backward()
        assert sparse.grad is not None
        assert weight.grad is not None
        return sparse.grad.to_dense(), weight.grad

    assert_same(gradient(device), gradient("cpu"), device)


@pytest.mark.parametrize("columns", [[0, 2], [2, 0]], ids=["sorted", "unsorted"])
@pytest.mark.parametrize("values", [[3.0, 4.0], [[3.0, 1.0], [4.0, 2.0]]], ids=["plain", "hybrid"])
def test_what_is_said_to_be_coalesced_is_checked(columns: list[int], values: object, device: torch.device) -> None:
    def make(place: object) -> torch.Tensor:
        elements = torch.tensor(values, device=place)
        return torch.sparse_coo_tensor(
            torch.tensor([[1, 1], columns], device=place), elements, (2, 3, *elements.shape[1:]),
            is_coalesced=True, check_invariants=True,
        )  # fmt: skip

    if columns == [0, 2]:
        assert torch.equal(make(device).to_dense().cpu(), make("cpu").to_dense())
    else:
        for place in ("cpu", device):
            with pytest.raises(RuntimeError, match="cannot set is_coalesced to true if indices"):
                make(place)
