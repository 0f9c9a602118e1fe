"""Cases that compare a collective with what one process computes from all ranks' inputs.

Values are small numbers that every dtype holds exactly, and so are the results, whatever the order of a reduction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .ranks import Ranks, device

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SMALL_FLOATS = [torch.float8_e5m2, torch.float8_e4m3fn]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64]
COMPLEX = [torch.complex64, torch.complex128]
DTYPES = [torch.bool, *INTEGERS, *FLOATS, *SMALL_FLOATS, *COMPLEX]

Op = dist.ReduceOp
#: Each rank multiplies by this factor in PREMUL_SUM.
FACTOR = 2.0
OPS: dict[str, Any] = {
    "SUM": Op.SUM,
    "AVG": Op.AVG,
    "PRODUCT": Op.PRODUCT,
    "MIN": Op.MIN,
    "MAX": Op.MAX,
    "BAND": Op.BAND,
    "BOR": Op.BOR,
    "BXOR": Op.BXOR,
    "PREMUL_SUM": None,
}

#: In float32, ranks gather and then reduce tensors of the first length; the engine reduces those of the second, which
#: it does in any dtype.
LENGTHS = [1000, 140_001]

Case = Callable[..., None]


def run(ranks: Ranks, case: Case, **options: Any) -> None:
    """Calls ``case(rank, size, **options)`` on every rank."""
    ranks.run(_call, case, options)


def _call(case: Case, options: dict[str, Any]) -> None:
    case(dist.get_rank(), dist.get_world_size(), **options)


def op_of(name: str) -> Any:
    return dist._make_nccl_premul_sum(FACTOR) if name == "PREMUL_SUM" else OPS[name]


def is_defined(name: str, dtype: torch.dtype) -> bool:
    """Whether a reduction has a meaning for the dtype, here as with NCCL."""
    if name in ("BAND", "BOR", "BXOR"):
        return dtype in INTEGERS or dtype == torch.bool
    if dtype == torch.bool:
        return name not in ("AVG", "PREMUL_SUM")
    return not dtype.is_complex or name in ("SUM", "AVG", "PREMUL_SUM")


def wide(tensor: Tensor) -> Tensor:
    """In a dtype that holds all values and that every operator has."""
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.to(torch.float64 if tensor.is_floating_point() else torch.int64)


def values(rank: int, dtype: torch.dtype, shape: Sequence[int] = (6,), salt: int = 0) -> Tensor:
    """Returns the values that a rank contributes, on the CPU."""
    generator = torch.Generator().manual_seed(1000 * salt + rank)
    numbers = torch.randint(0, 3, tuple(shape), generator=generator)
    if dtype.is_complex:
        return torch.complex(numbers.double(), numbers.flip(0).double()).to(dtype)
    return numbers.to(dtype)


def check(actual: Tensor, expected: Tensor) -> None:
    assert actual.device.type == "mydev"
    assert actual.dtype == expected.dtype
    torch.testing.assert_close(wide(actual.cpu()), wide(expected))


def reduced(name: str, tensors: Sequence[Tensor]) -> Tensor:
    """The reduction of one tensor from each rank."""
    dtype = tensors[0].dtype
    parts = [wide(tensor) for tensor in tensors]
    if dtype == torch.bool and name in ("SUM", "BXOR"):
        combine: Callable[[Tensor, Tensor], Tensor] = torch.maximum if name == "SUM" else torch.bitwise_xor
        return reduce(combine, parts).to(dtype)
    if name == "AVG":
        total = sum(parts[1:], parts[0])
        is_integer = not total.is_floating_point() and not total.is_complex()
        return (total.div(len(parts), rounding_mode="trunc") if is_integer else total / len(parts)).to(dtype)
    if name == "PREMUL_SUM":
        return sum([(part * FACTOR).to(part.dtype) for part in parts[1:]], (parts[0] * FACTOR).to(parts[0].dtype)).to(
            dtype
        )
    functions = {
        "SUM": torch.add,
        "PRODUCT": torch.mul,
        "MIN": torch.minimum,
        "MAX": torch.maximum,
        "BAND": torch.bitwise_and,
        "BOR": torch.bitwise_or,
        "BXOR": torch.bitwise_xor,
    }
    return reduce(functions[name], parts).to(dtype)


# --- reductions -------------------------------------------------------------------------------------------------------


def all_reduce(rank: int, size: int, op: str, dtype: torch.dtype, shape: Sequence[int] = (6,)) -> None:
    tensor = values(rank, dtype, shape).to(device())
    dist.all_reduce(tensor, op_of(op))
    check(tensor, reduced(op, [values(r, dtype, shape) for r in range(size)]))


def reduce_to_one(rank: int, size: int, op: str, dtype: torch.dtype, shape: Sequence[int] = (6,)) -> None:
    tensor = values(rank, dtype, shape).to(device())
    dist.reduce(tensor, dst=size - 1, op=op_of(op))
    all_values = [values(r, dtype, shape) for r in range(size)]
    check(tensor, reduced(op, all_values) if rank == size - 1 else all_values[rank])


def reduce_scatter(rank: int, size: int, op: str, dtype: torch.dtype, shape: Sequence[int] = (6,)) -> None:
    inputs = [values(rank, dtype, shape, salt=part).to(device()) for part in range(size)]
    output = torch.empty_like(inputs[0])
    dist.reduce_scatter(output, inputs, op_of(op))
    check(output, reduced(op, [values(r, dtype, shape, salt=rank) for r in range(size)]))


def reduce_scatter_single(rank: int, size: int, op: str, dtype: torch.dtype, shape: Sequence[int] = (6,)) -> None:
    inputs = torch.cat([values(rank, dtype, shape, salt=part) for part in range(size)]).to(device())
    output = torch.empty(tuple(shape), dtype=dtype, device=device())
    dist.reduce_scatter_single(output, inputs, op_of(op))
    check(output, reduced(op, [values(r, dtype, shape, salt=rank) for r in range(size)]))


REDUCTIONS: dict[str, Case] = {
    case.__name__: case for case in (all_reduce, reduce_to_one, reduce_scatter, reduce_scatter_single)
}


# --- movements --------------------------------------------------------------------------------------------------------


def broadcast(rank: int, size: int, dtype: torch.dtype, shape: Sequence[int] = (6,)) -> None:
    tensor = values(rank, dtype, shape).to(device())
    dist.broadcast(tensor, src=size - 1)
    check(tensor, values(size - 1, dtype, shape))


def all_gather(rank: int, size: int, dtype: torch.dtype, shape: Sequence[int] = (6,)) -> None:
    tensor = values(rank, dtype, shape).to(device())
    outputs = [torch.empty_like(tensor) for _ in range(size)]
    dist.all_gather(outputs, tensor)
    for source, output in enumerate(outputs):
        check(output, values(source, dtype, shape))


def all_gather_single(rank: int, size: int, dtype: torch.dtype, shape: Sequence[int] = (6,)) -> None:
    tensor = values(rank, dtype, shape).to(device())
    output = torch.empty((size * shape[0], *shape[1:]), dtype=dtype, device=device())
    dist.all_gather_single(output, tensor)
    check(output, torch.cat([values(source, dtype, shape) for source in range(size)]))


def gather(rank: int, size: int, dtype: torch.dtype, shape: Sequence[int] = (6,)) -> None:
    tensor = values(rank, dtype, shape).to(device())
    outputs = [torch.empty_like(tensor) for _ in range(size)] if rank == 0 else None
    dist.gather(tensor, outputs, dst=0)
    for source, output in enumerate(outputs or []):
        check(output, values(source, dtype, shape))


def scatter(rank: int, size: int, dtype: torch.dtype, shape: Sequence[int] = (6,)) -> None:
    output = torch.empty(tuple(shape), dtype=dtype, device=device())
    inputs = [values(part, dtype, shape).to(device()) for part in range(size)] if rank == 0 else None
    dist.scatter(output, inputs, src=0)
    check(output, values(rank, dtype, shape))


def all_to_all(rank: int, size: int, dtype: torch.dtype, shape: Sequence[int] = (6,)) -> None:
    # Each pair of ranks exchanges tensors of another size.
    def sent(source: int, destination: int) -> Tensor:
        return values(source, dtype, (shape[0] + source + 2 * destination, *shape[1:]), salt=destination)

    inputs = [sent(rank, destination).to(device()) for destination in range(size)]
    outputs = [torch.empty_like(sent(source, rank), device=device()) for source in range(size)]
    dist.all_to_all(outputs, inputs)
    for source, output in enumerate(outputs):
        check(output, sent(source, rank))


def all_to_all_single(rank: int, size: int, dtype: torch.dtype, shape: Sequence[int] = (6,)) -> None:
    def sent(source: int, destination: int) -> Tensor:
        return values(source, dtype, shape, salt=destination)

    inputs = torch.cat([sent(rank, destination) for destination in range(size)]).to(device())
    output = torch.empty_like(inputs)
    dist.all_to_all_single(output, inputs)
    check(output, torch.cat([sent(source, rank) for source in range(size)]))


def all_to_all_single_uneven(rank: int, size: int, dtype: torch.dtype, shape: Sequence[int] = (6,)) -> None:
    def rows(source: int, destination: int) -> int:
        return (source + destination) % 3  # some of none

    def sent(source: int, destination: int) -> Tensor:
        return values(source, dtype, (rows(source, destination), *shape), salt=destination)

    inputs = torch.cat([sent(rank, destination) for destination in range(size)]).to(device())
    expected = torch.cat([sent(source, rank) for source in range(size)])
    output = torch.empty_like(expected, device=device())
    dist.all_to_all_single(
        output, inputs, [rows(source, rank) for source in range(size)], [rows(rank, to) for to in range(size)]
    )
    check(output, expected)


def send_and_receive(rank: int, size: int, dtype: torch.dtype, shape: Sequence[int] = (6,)) -> None:
    """Round in a ring: even ranks send first."""
    tensor = values(rank, dtype, shape).to(device())
    received = torch.empty_like(tensor)
    source, destination = (rank - 1) % size, (rank + 1) % size
    if rank % 2 == 0:
        dist.send(tensor, destination)
        dist.recv(received, source)
    else:
        dist.recv(received, source)
        dist.send(tensor, destination)
    check(received, values(source, dtype, shape))


def send_to_itself(rank: int, size: int, dtype: torch.dtype, shape: Sequence[int] = (6,)) -> None:
    tensor = values(rank, dtype, shape).to(device())
    received = torch.empty_like(tensor)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.irecv, received, rank), dist.P2POp(dist.isend, tensor, rank)]):
        work.wait()
    check(received, values(rank, dtype, shape))


MOVEMENTS: dict[str, Case] = {
    case.__name__: case
    for case in (
        broadcast,
        all_gather,
        all_gather_single,
        gather,
        scatter,
        all_to_all,
        all_to_all_single,
        all_to_all_single_uneven,
        send_and_receive,
        send_to_itself,
    )
}


# --- sparse tensors ---------------------------------------------------------------------------------------------------


def sparse_part(rank: int, dtype: torch.dtype) -> Tensor:
    """Two elements in each of two rows: one row is every rank's, the other has the rank's number."""
    return torch.sparse_coo_tensor([[0, rank + 1]], torch.tensor([[1, 2], [3, 4]]).to(dtype), (6, 2))


def reduce_sparse(rank: int, size: int, op: str, dtype: torch.dtype) -> None:
    tensor = sparse_part(rank, dtype).to(device())
    work = dist.all_reduce(tensor, op_of(op), async_op=True)
    work.wait()
    assert tensor.is_sparse
    assert tensor.device == device()
    total = sum(sparse_part(other, dtype).to_dense() for other in range(size))
    expected = {"SUM": total, "AVG": total / size if dtype.is_floating_point else total // size}[op]
    torch.testing.assert_close(tensor.to_dense().cpu(), expected)


def reduce_empty_sparse(rank: int, size: int) -> None:
    if rank == 0:
        tensor = sparse_part(0, torch.float32).to(device())
    else:
        tensor = torch.sparse_coo_tensor(torch.empty(1, 0), torch.empty(0, 2), (6, 2), device=device())
    dist.all_reduce(tensor)
    torch.testing.assert_close(tensor.to_dense().cpu(), sparse_part(0, torch.float32).to_dense())
