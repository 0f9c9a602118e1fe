"""torch.nn.DataParallel, and what it is made of in torch.nn.parallel: on the CPU, on one device, on two."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import parallel
from torch.nn.parallel import comm
from torch.testing import assert_close

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_a_model_on_the_cpu_stays_there() -> None:
    linear = nn.Linear(4, 2)
    model = nn.DataParallel(linear)
    x = torch.randn(8, 4)
    result = model(x)
    assert result.device.type == "cpu"
    assert_close(result, linear(x))
    result.sum().backward()
    assert linear.weight.grad is not None
    assert linear.weight.grad.device.type == "cpu"


def test_a_model_that_is_moved_to_the_device_runs_there(device: torch.device) -> None:
    linear = nn.Linear(4, 2)
    expected = linear(torch.ones(8, 4))
    model = nn.DataParallel(linear, device_ids=[0] if torch.accelerator.device_count() > 1 else None).to(device)
    for x in (torch.ones(8, 4), torch.ones(8, 4, device=device)):
        result = model(x)
        assert result.device.type == device.type
        assert_close(result.cpu(), expected)


def test_given_devices_are_used(device: torch.device) -> None:
    linear = nn.Linear(4, 2)
    assert nn.DataParallel(linear, device_ids=[0])(torch.ones(8, 4)).device.type == device.type
    assert linear.weight.device.type == device.type


def test_pieces_copies_and_sums_on_one_device(device: torch.device) -> None:
    x = torch.arange(6.0, device=device)
    first, second = comm.scatter(x, [0, 0], chunk_sizes=[2, 4])
    assert (first.tolist(), second.tolist()) == ([0, 1], [2, 3, 4, 5])
    assert comm.gather([second, first], destination=0).tolist() == [2, 3, 4, 5, 0, 1]
    on_cpu = comm.gather([first, second], destination="cpu")
    assert on_cpu.device.type == "cpu"
    assert on_cpu.tolist() == x.tolist()
    copies = comm.broadcast(x, [0, 0])
    assert copies[0] is x
    assert copies[1].tolist() == x.tolist()
    assert copies[1].data_ptr() != x.data_ptr()
    assert comm.reduce_add([x], 0) is x


def test_results_that_are_given(device: torch.device) -> None:
    x = torch.arange(6.0, device=device)
    out = [torch.empty(2, device=device), torch.empty(4, device=device)]
    comm.scatter(x, out=out)
    assert [each.tolist() for each in out] == [[0, 1], [2, 3, 4, 5]]
    gathered = torch.empty(6, device=device)
    comm.gather(out, out=gathered)
    assert gathered.tolist() == x.tolist()
    comm.broadcast(torch.ones(4), out=out[1:])
    assert out[1].tolist() == [1] * 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: comm.gather([x, x.cpu()]), "gather: tensor 1 is on cpu"),
        (lambda x: comm.scatter(x, [0, 0], chunk_sizes=[6]), "2 devices, but 1 chunk sizes"),
        (lambda x: comm.broadcast_coalesced([x.cpu()], [0]), "broadcast_coalesced: a tensor is on cpu"),
        (
            lambda x: comm.broadcast(x, out=[x.new_empty(5)]),
            r"a result of size \(5,\) is given for values of size \(6,\)",
        ),
    ],
)
def test_what_does_not_fit_is_reported(
    device: torch.device, call: Callable[[torch.Tensor], object], message: str
) -> None:
    with pytest.raises((RuntimeError, ValueError), match=message):
        call(torch.ones(6, device=device))


def test_replicas_on_one_device_share_the_gradient(device: torch.device) -> None:
    linear = nn.Linear(4, 2).to(device)
    x = torch.randn(6, 4, device=device)
    replicas = parallel.replicate(linear, [0, 0])
    outputs = parallel.parallel_apply(replicas, parallel.scatter(x, [0, 0]), devices=[0, 0])
    parallel.gather(outputs, 0).square().sum().backward()
    got = linear.weight.grad
    linear.weight.grad = None
    linear(x).square().sum().backward()
    assert got is not None
    assert linear.weight.grad is not None
    assert_close(got.cpu(), linear.weight.grad.cpu())


ON_TWO = """
import copy, warnings
import torch, torch_mydev
from torch import nn
from torch.nn import parallel
from torch.nn.parallel import comm

warnings.simplefilter("error")
torch.manual_seed(0)
cpu = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8, momentum=0.5), nn.ReLU(), nn.Linear(8, 2))
cpu.register_buffer("phase", torch.ones(3, dtype=torch.complex64))
x = torch.randn(8, 4)
assert nn.DataParallel(cpu)(x).device.type == "cpu"
single = copy.deepcopy(cpu).eval().to("mydev:0")
net = copy.deepcopy(single)
several = nn.DataParallel(net)
assert several.device_ids == [0, 1]
seen = []
net[0].register_forward_hook(lambda module, inputs, output: seen.append(str(output.device)))

for given in (x, x.to("mydev:0"), x.to("mydev:1")):
    for model in (single, several):
        model.zero_grad()
    wanted = single(x.to("mydev:0"))
    got = several(given)
    assert got.device == torch.device("mydev:0")
    torch.testing.assert_close(got, wanted)
    wanted.square().sum().backward()
    got.square().sum().backward()
    for a, b in zip(net.parameters(), single.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)
assert sorted(set(seen)) == ["mydev:0", "mydev:1"], seen
torch.testing.assert_close(parallel.data_parallel(net, x.to("mydev:0"), [0, 1], output_device=1).cpu(), wanted.cpu())
before = net[1].running_mean.clone()
several.train()(x)
assert not torch.equal(before, net[1].running_mean)  # that of the first device is the model's own

with torch.no_grad():
    assert several(x).device == torch.device("mydev:0")
a, b = comm.broadcast(x.to("mydev:1"), ["mydev:1", "mydev:0"])
assert (str(a.device), str(b.device)) == ("mydev:1", "mydev:0")
torch.testing.assert_close(b.cpu(), x)
first, second = comm.broadcast_coalesced([x.to("mydev:0"), torch.ones(3, device="mydev:0")], [0, 1])
assert [str(t.device) for t in second] == ["mydev:1"] * 2
assert second[0]._version == 0
torch.testing.assert_close(comm.reduce_add([x.to("mydev:0"), x.to("mydev:1")], 1).cpu(), 2 * x)
summed = comm.reduce_add_coalesced([[x.to("mydev:0"), b], [x.to("mydev:1"), a]], 0)
assert [str(t.device) for t in summed] == ["mydev:0"] * 2
torch.testing.assert_close(summed[1].cpu(), 2 * x)
pieces = comm.scatter(x, [1, 0])
assert [str(t.device) for t in pieces] == ["mydev:1", "mydev:0"]
torch.testing.assert_close(comm.gather(pieces, destination=1).cpu(), x)
try:
    nn.DataParallel(nn.Linear(4, 2).to("mydev:1"))(x)
except RuntimeError as error:
    assert "must have its parameters and buffers on device mydev:0" in str(error)
else:
    raise AssertionError
print("end")
"""


@pytest.mark.any_driver
@pytest.mark.parametrize("driver", ["host:devices=2", "host:async,devices=2", "host:remote,async,devices=2"])
def test_on_two_devices(run_python: Run, driver: str) -> None:
    result = run_python(ON_TWO, MYDEV_DRIVER=driver)
    assert result.stdout == "end\n", result.stderr
