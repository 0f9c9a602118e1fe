"""Tensors of the device between processes: queues, pipes, DataLoader workers, share_memory_().

One worker process serves most tests: it calls a function of this file and sends back the result.
"""

from __future__ import annotations

import gc
import subprocess
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import torch_mydev  # noqa: F401 - the worker imports this file, and with it the device
from support.checkout import DRIVERS
from torch_mydev.device import sharing

pytestmark = pytest.mark.host_access  # elsewhere, tensors are sent as copies, made with .cpu()

Run = Callable[..., "subprocess.CompletedProcess[str]"]


# --- the worker -------------------------------------------------------------------------------------------------------

kept: dict[str, Any] = {}  # what the worker holds from one call to the next


def serve(connection: Connection, queue: mp.Queue[Any]) -> None:
    kept["queue"] = queue
    while True:
        function, arguments = connection.recv()
        if function is None:
            return
        try:
            result = function(*arguments)
        except Exception as error:  # for the caller to raise
            result = error
        function = arguments = None
        connection.send(result)
        result = None
        gc.collect()


class Worker:
    def __init__(self) -> None:
        context = mp.get_context("spawn")
        self.connection, other_end = context.Pipe()
        self.queue = context.Queue()
        self.process = context.Process(target=serve, args=(other_end, self.queue), daemon=True)
        self.process.start()
        other_end.close()  # so that a worker that dies is noticed

    def call(self, function: Callable[..., Any] | None, *arguments: Any) -> Any:
        self.connection.send((function, arguments))
        result = self.connection.recv()
        if isinstance(result, Exception):
            raise result
        return result

    def stop(self) -> None:
        self.connection.send((None, ()))
        self.process.join()


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.stop()


def shared_mappings() -> int:
    """How many shared-memory files of torch this process has mapped."""
    gc.collect()
    torch.mydev.synchronize()
    torch.mydev.empty_cache()
    return sum("/dev/shm/torch_" in line for line in Path("/proc/self/maps").read_text().splitlines())


def add_one(tensor: Tensor) -> None:
    tensor += 1
    torch.mydev.synchronize()


def values(tensor: Tensor) -> Any:
    return tensor.tolist()


def keep(tensor: Tensor) -> None:
    kept["tensor"] = tensor


def kept_values() -> Any:
    return kept["tensor"].tolist()


def drop() -> None:
    kept.pop("tensor")


def make(shape: tuple[int, ...]) -> Tensor:
    return torch.full(shape, 3.0, device="mydev")


# --- seeing each other's writes ---------------------------------------------------------------------------------------


def test_receivers_writes_are_seen_by_the_sender(worker: Worker) -> None:
    tensor = torch.zeros(3, device="mydev")
    worker.call(add_one, tensor)
    assert tensor.tolist() == [1.0, 1.0, 1.0]


def test_senders_later_writes_are_seen_by_the_receiver(worker: Worker) -> None:
    tensor = torch.zeros(3, device="mydev")
    worker.call(keep, tensor)
    tensor.fill_(7)
    torch.mydev.synchronize()
    assert worker.call(kept_values) == [7.0, 7.0, 7.0]
    worker.call(drop)


def test_work_in_flight_is_finished_before_a_shared_tensor_is_sent(worker: Worker) -> None:
    tensor = torch.zeros(300, 300, device="mydev").share_memory_()
    weight = torch.eye(300, device="mydev")
    torch.mydev.synchronize()
    with torch.mydev.stream(torch.mydev.Stream()):
        for _ in range(20):
            tensor.copy_(tensor @ weight + 1)
        assert worker.call(sum_of, tensor) == 20.0 * 300 * 300


def sum_of(tensor: Tensor) -> float:
    return float(tensor.sum())


def test_writes_through_a_fallback_are_seen(worker: Worker) -> None:
    tensor = torch.tensor([3.0, 1.0, 2.0], device="mydev")
    torch.sort(tensor, out=(tensor, torch.empty(3, dtype=torch.int64, device="mydev")))
    worker.call(sort_descending, tensor)
    assert tensor.tolist() == [3.0, 2.0, 1.0]


def sort_descending(tensor: Tensor) -> None:
    tensor.copy_(torch.sort(tensor, descending=True).values)
    torch.mydev.synchronize()


# --- what arrives -----------------------------------------------------------------------------------------------------


def describe(tensor: Tensor) -> tuple[Any, ...]:
    return (
        tensor.device,
        tensor.dtype,
        tuple(tensor.shape),
        tensor.stride(),
        tensor.storage_offset(),
        tensor.requires_grad,
        type(tensor).__name__,
        tensor.detach().cpu().float().tolist(),
    )


CASES: dict[str, Callable[[], Tensor]] = {
    "contiguous": lambda: torch.arange(6.0, device="mydev").view(2, 3),
    "transposed": lambda: torch.arange(6.0, device="mydev").view(2, 3).t(),
    "offset": lambda: torch.arange(12.0, device="mydev").view(3, 4)[1:, ::2],
    "expanded": lambda: torch.arange(2.0, device="mydev").expand(3, 2),
    "channels last": lambda: torch.arange(24.0, device="mydev").view(1, 2, 3, 4).to(memory_format=torch.channels_last),
    "scalar": lambda: torch.tensor(5, device="mydev"),
    "empty": lambda: torch.empty(0, 3, device="mydev"),
    "bfloat16": lambda: torch.arange(3, device="mydev").bfloat16(),
    "float64": lambda: torch.arange(3.0, device="mydev", dtype=torch.float64),
    "bool": lambda: torch.tensor([True, False], device="mydev"),
    "uint8": lambda: torch.arange(3, dtype=torch.uint8, device="mydev"),
    "requires grad": lambda: torch.ones(2, device="mydev", requires_grad=True),
    "parameter": lambda: nn.Parameter(torch.ones(2, device="mydev")),
    "frozen parameter": lambda: nn.Parameter(torch.ones(2, device="mydev"), requires_grad=False),
    "detached": lambda: torch.ones(2, device="mydev", requires_grad=True).detach(),
}


@pytest.mark.parametrize("make_case", CASES.values(), ids=CASES.keys())
def test_tensor_arrives_as_it_was(worker: Worker, make_case: Callable[[], Tensor]) -> None:
    tensor = make_case()
    before = describe(tensor)
    assert worker.call(describe, tensor) == before
    assert describe(tensor) == before


def test_complex_values_arrive(worker: Worker) -> None:
    assert worker.call(values, torch.tensor([1 + 2j], device="mydev")) == [1 + 2j]


@pytest.mark.devices(2)
def test_device_index_is_kept(worker: Worker) -> None:
    assert worker.call(describe, torch.ones(2, device="mydev:1"))[0] == torch.device("mydev", 1)


def test_views_of_one_storage_arrive_as_views_of_one_storage(worker: Worker) -> None:
    base = torch.zeros(4, device="mydev")
    assert worker.call(write_first, base, base[2:]) == [9.0, 9.0]


def write_first(first: Tensor, second: Tensor) -> Any:
    first.fill_(9)
    return second.tolist()


def test_storage_that_comes_again_is_recognized(worker: Worker) -> None:
    tensor = torch.zeros(3, device="mydev")
    worker.call(keep, tensor)
    assert worker.call(same_storage_as_kept, tensor[1:])
    worker.call(drop)


def same_storage_as_kept(tensor: Tensor) -> bool:
    return tensor.untyped_storage()._cdata == kept["tensor"].untyped_storage()._cdata


def identity(tensor: Tensor) -> Tensor:
    return tensor


def test_tensor_that_comes_back_lies_in_its_own_storage(worker: Worker) -> None:
    tensor = torch.zeros(3, device="mydev")
    assert worker.call(identity, tensor).data_ptr() == tensor.data_ptr()


def test_containers_and_mixed_devices(worker: Worker) -> None:
    sent = {"device": torch.ones(2, device="mydev"), "cpu": torch.zeros(2), "list": [torch.tensor(1, device="mydev")]}
    received = worker.call(identity, sent)
    assert (received["device"].device.type, received["cpu"].device.type) == ("mydev", "cpu")
    assert received["list"][0].item() == 1


def test_untyped_storages(worker: Worker) -> None:
    storage = torch.arange(4, dtype=torch.uint8, device="mydev").untyped_storage()
    received = worker.call(identity, storage)
    assert received.device == storage.device
    assert received.data_ptr() == storage.data_ptr()


def test_queue(worker: Worker) -> None:
    tensor = torch.arange(5.0, device="mydev")
    worker.queue.put(tensor)
    worker.call(add_one_to_queued)
    assert tensor.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


def add_one_to_queued() -> None:
    add_one(kept["queue"].get())


def test_sharing_by_file_name(worker: Worker) -> None:
    mp.set_sharing_strategy("file_system")
    try:
        tensor = torch.zeros(3, device="mydev")
        worker.call(add_one, tensor)
        worker.call(add_one, tensor[1:])
    finally:
        mp.set_sharing_strategy("file_descriptor")
    assert tensor.tolist() == [1.0, 2.0, 2.0]


def test_gradients_computed_elsewhere(worker: Worker) -> None:
    parameter = nn.Parameter(torch.arange(3.0, device="mydev"))
    parameter.grad = torch.zeros(3, device="mydev")
    worker.call(add_gradient_of_square, parameter, parameter.grad)
    assert parameter.grad.tolist() == [0.0, 2.0, 4.0]


def add_gradient_of_square(parameter: nn.Parameter, gradient: Tensor) -> None:
    (parameter**2).sum().backward()
    gradient += parameter.grad
    torch.mydev.synchronize()


def train_step(model: nn.Module, inputs: Tensor) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(inputs).square().mean().backward()
    optimizer.step()
    torch.mydev.synchronize()


def test_shared_module_trained_by_another_process(worker: Worker) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
    inputs = torch.randn(5, 4)
    on_device = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
    on_device.load_state_dict(model.state_dict())
    on_device.to("mydev").share_memory()
    train_step(model, inputs)
    worker.call(train_step, on_device, inputs.to("mydev"))
    for parameter, expected in zip(on_device.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(parameter.cpu(), expected)


# --- share_memory_ ----------------------------------------------------------------------------------------------------


def test_share_memory_moves_the_storage_with_all_its_views() -> None:
    base = torch.arange(4.0, device="mydev")
    view = base[2:]
    assert not base.is_shared()
    address = base.data_ptr()
    assert base.share_memory_() is base
    assert base.is_shared()
    assert view.is_shared()
    assert base.data_ptr() != address
    view.fill_(9)
    assert base.tolist() == [0.0, 1.0, 9.0, 9.0]


def test_sharing_twice_moves_once() -> None:
    tensor = torch.ones(4, device="mydev").share_memory_()
    address = tensor.data_ptr()
    tensor.share_memory_()
    assert tensor.data_ptr() == address


def test_host_kernels_follow_the_move() -> None:
    tensor = torch.tensor([2.0, 1.0], device="mydev")
    assert torch.sort(tensor).values.tolist() == [1.0, 2.0]
    tensor.share_memory_()
    tensor.copy_(torch.tensor([4.0, 3.0], device="mydev"))
    assert torch.sort(tensor).values.tolist() == [3.0, 4.0]


def test_sharing_gives_the_devices_memory_back() -> None:
    before = torch.accelerator.memory_allocated()
    tensor = torch.ones(1 << 16, device="mydev")
    assert torch.accelerator.memory_allocated() > before
    tensor.share_memory_()
    assert torch.accelerator.memory_allocated() == before


def test_copies_of_a_shared_tensor_are_not_shared() -> None:
    tensor = torch.ones(4, device="mydev").share_memory_()
    assert not tensor.clone().is_shared()
    assert not (tensor + 1).is_shared()


def test_shared_tensor_cannot_grow() -> None:
    tensor = torch.ones(4, device="mydev").share_memory_()
    with pytest.raises(RuntimeError, match="not resizable"):
        tensor.resize_(1000)


def test_tensors_without_elements_count_as_shared() -> None:
    assert torch.empty(0, device="mydev").share_memory_().is_shared()


def test_cpu_tensors_are_shared_as_ever() -> None:
    tensor = torch.ones(3)
    assert not tensor.is_shared()
    assert tensor.share_memory_().is_shared()


# --- memory -----------------------------------------------------------------------------------------------------------


def test_receiver_outlives_the_senders_tensor(worker: Worker) -> None:
    tensor = torch.full((1000,), 5.0, device="mydev")
    worker.call(keep, tensor)
    del tensor
    torch.zeros(1000, device="mydev").share_memory_()
    assert worker.call(kept_values) == [5.0] * 1000
    worker.call(drop)


def test_sender_outlives_the_receivers_tensor(worker: Worker) -> None:
    received = worker.call(make, (1000,))
    assert received.tolist() == [3.0] * 1000


@pytest.mark.slow
def test_memory_returns_in_both_processes(worker: Worker) -> None:
    before = shared_mappings(), torch.accelerator.memory_allocated()
    before_there = worker.call(shared_mappings), worker.call(torch.accelerator.memory_allocated)
    tensor = torch.ones(1 << 16, device="mydev")
    worker.call(keep, tensor)
    assert shared_mappings() == before[0] + 1
    assert worker.call(shared_mappings) == before_there[0] + 1
    worker.call(drop)
    del tensor
    assert (shared_mappings(), torch.accelerator.memory_allocated()) == before
    assert (worker.call(shared_mappings), worker.call(torch.accelerator.memory_allocated)) == before_there


def test_memory_dropped_under_running_work_stays_until_the_work_is_done() -> None:
    before = shared_mappings()
    source = torch.ones(1 << 20, device="mydev").share_memory_()
    result = torch.zeros(1 << 20, device="mydev")
    torch.mydev.synchronize()
    with torch.mydev.stream(torch.mydev.Stream()):
        for _ in range(10):
            result.add_(source)
        del source
        assert result.sum().item() == 10.0 * (1 << 20)
    assert shared_mappings() == before


# --- DataLoader -------------------------------------------------------------------------------------------------------


class Squares(Dataset[dict[str, Tensor]]):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"square": torch.tensor([index * index], device="mydev"), "index": torch.tensor(index)}


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_data_loader_workers_return_tensors_that_outlive_them(method: str) -> None:
    loader = DataLoader(Squares(), batch_size=3, num_workers=2, multiprocessing_context=method)
    batches = list(loader)  # the worker has ended
    assert [batch["square"].device.type for batch in batches] == ["mydev", "mydev"]
    assert [batch["square"].flatten().tolist() for batch in batches] == [[0, 1, 4], [9, 16, 25]]
    assert batches[0]["square"].is_shared()


def test_forked_data_loader_workers_say_what_to_do() -> None:
    torch.ones(1, device="mydev")
    loader = DataLoader(Squares(), num_workers=1, multiprocessing_context="fork")
    with pytest.raises(RuntimeError, match="cannot be used in a forked child.*'spawn'"):
        list(loader)


# --- what cannot be sent ----------------------------------------------------------------------------------------------


def test_results_that_need_gradients_are_refused(worker: Worker) -> None:
    tensor = torch.ones(2, device="mydev", requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="non-leaf"):
        worker.connection.send((identity, (tensor,)))


def test_events_of_one_process_are_refused(worker: Worker) -> None:
    with pytest.raises(RuntimeError, match=r"make it with interprocess=True, or call synchronize\(\)"):
        worker.connection.send((identity, (torch.mydev.Event(),)))


def test_streams_are_refused(worker: Worker) -> None:
    with pytest.raises(TypeError, match="streams cannot be pickled"):
        worker.connection.send((identity, (torch.mydev.Stream(),)))


def test_device_that_the_receiver_does_not_have() -> None:
    host = torch.UntypedStorage._new_shared(4)
    with pytest.raises(RuntimeError, match="99"):
        sharing._rebuild(host, 99)


@pytest.mark.any_driver
def test_driver_that_works_on_its_own_memory_only(run_python: Run) -> None:
    code = """
import torch, torch_mydev
from torch.multiprocessing import Pipe
tensor = torch.ones(3, device="mydev")
assert not tensor.is_shared()
for act in (tensor.share_memory_, lambda: Pipe()[0].send(tensor)):
    try:
        act()
    except RuntimeError as error:
        print(error)
print(tensor.tolist())
"""
    result = run_python(code, MYDEV_DRIVER=str(DRIVERS / "discrete_driver.so"))
    assert result.returncode == 0, result.stderr
    refusal = (
        "the memory of mydev:0 cannot be shared between processes: driver 'discrete' does not work on memory of the "
        "host; send a copy, made with .cpu()"
    )
    assert result.stdout.splitlines()[-3:] == [refusal, refusal, "[1.0, 1.0, 1.0]"]
