"""Process groups in which a rank, a link or the store fails: every other rank gets an error and goes on.

Each scenario is run once, by a set of ranks of its own that print what they saw. Ranks wait for each other for
``TIMEOUT`` at most; an error that comes earlier is as good.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from support.checkout import environment
from support.two_hosts import ADDRESSES, LINK, two_hosts


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


PROLOGUE = """
import datetime, json, os, sys
import torch, torch.distributed as dist, torch_mydev
from torch_mydev import device_name
rank, size, address, port = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
torch.set_num_threads(1)
timeout = datetime.timedelta(seconds=4)

def say(**what):
    print(json.dumps(what), flush=True)

def error_of(function):
    try:
        function()
        torch.mydev.synchronize()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""

def join(**options):
    store = dist.TCPStore(address, port, size, is_master=rank == 0, timeout=datetime.timedelta(seconds=60))
    dist.init_process_group(store=store, rank=rank, world_size=size, timeout=timeout, **options)
    return store

length = 1000

def collective():
    tensor = torch.ones(length, device=device_name)
    dist.all_reduce(tensor)
    return tensor

def same_memory(before):
    # The engine's threads may still hold what has failed.
    for _ in range(1_000_000):
        if torch.mydev.memory_allocated() == before:
            return True
        os.sched_yield()
    return False

def end():
    # The engine's threads may wait for ranks that are gone: nobody needs them any more.
    sys.stdout.flush()
    os._exit(0)
"""


class Scenario:
    """Processes that run a scenario and say what they see, a line of JSON each time."""

    def __init__(
        self, scenario: str, size: int, address: str = "127.0.0.1", wrap: list[list[str]] | None = None
    ) -> None:
        port = free_port()

        def arguments(rank: int) -> list[str]:
            return [str(rank), str(size), address, str(port)]

        self.processes = [
            subprocess.Popen(
                [*(wrap[rank] if wrap else []), sys.executable, "-c", PROLOGUE + scenario, *arguments(rank)],
                env=environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                stdin=subprocess.PIPE,
                text=True,
            )
            for rank in range(size)
        ]

    def hear(self, rank: int) -> dict[str, object]:
        """The next thing that a rank says."""
        process = self.processes[rank]
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        if not line:
            raise AssertionError(f"rank {rank} has ended with {process.wait()}: {process.stderr.read()}")
        heard: dict[str, object] = json.loads(line)
        return heard

    def tell(self, rank: int) -> None:
        """Lets a rank that reads from its standard input go on."""
        pipe = self.processes[rank].stdin
        assert pipe is not None
        pipe.write("go on\n")
        pipe.flush()

    def ends_well(self, rank: int) -> None:
        """Waits for the rank to end, and shows its last words where that is not by itself."""
        process = self.processes[rank]
        assert process.stderr is not None
        status = process.wait()
        assert status == 0, f"rank {rank} has ended with {status}: {process.stderr.read()}"

    def end(self) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.communicate()


@contextlib.contextmanager
def ranks(scenario: str, size: int, **options: object) -> Iterator[Scenario]:
    started = Scenario(scenario, size, **options)  # type: ignore[arg-type]
    try:
        yield started
    finally:
        started.end()


#: Operands of all_reduce that are gathered and then reduced, and ones that the engine reduces.
LENGTHS = [1000, 100_000]

KILLED = """
join()
before = torch.mydev.memory_allocated()
collective()
torch.mydev.synchronize()
say(ready=True)
sys.stdin.readline()
def keep_going():
    while True:
        collective()
        torch.mydev.synchronize()
error = error_of(keep_going)
say(error=error, same_memory=same_memory(before), again=error_of(collective))
end()
"""


@pytest.mark.slow
@pytest.mark.parametrize("length", LENGTHS)
def test_ranks_survive_one_that_is_killed_in_the_middle(length: int) -> None:
    with ranks(f"length = {length}" + KILLED, 3) as group:
        for rank in range(3):
            assert group.hear(rank) == {"ready": True}
        for rank in range(3):
            group.tell(rank)
        os.kill(group.processes[2].pid, signal.SIGKILL)
        for rank in (0, 1):
            heard = group.hear(rank)
            assert f"all_reduce on mydev:0, rank {rank} of 3" in str(heard["error"])
            assert heard["same_memory"]
            assert "all_reduce on mydev:0" in str(heard["again"])


#: Three ranks are forked twenty times; one is killed after a while that a seed chooses. The others say what they saw.
KILLS = """
import contextlib, datetime, os, random, select, signal, tempfile
import torch, torch.distributed as dist, torch_mydev

def whole(rank, tensor):
    dist.all_reduce(tensor)
    return [tensor], 6

def gathered(rank, tensor):
    out = tensor.new_empty(3 * tensor.numel())
    dist.all_gather_into_tensor(out, tensor)
    return out.chunk(3), None

def scattered(rank, tensor):
    out = tensor.new_empty(tensor.numel() // 3)
    dist.reduce_scatter_tensor(out, tensor)
    return [out], 6

def broadcast(rank, tensor):
    dist.broadcast(tensor, 1)
    return [tensor], 2

def work(rank, operation, length, folder, pipe):
    store = dist.FileStore(os.path.join(folder, "store"), 3)
    dist.init_process_group(store=store, rank=rank, world_size=3, timeout=datetime.timedelta(seconds=20))
    while True:
        try:
            parts, value = operation(rank, torch.full((length,), rank + 1.0, device=torch_mydev.device_name))
            values = [part.unique().tolist() for part in parts]
        except RuntimeError as error:
            os.write(pipe, ("error " + str(error)).encode())
            return
        if values != [[value or i + 1.0] for i in range(len(parts))]:
            os.write(pipe, f"wrong {values}".encode())
            return
        os.write(pipe, b".")

def heard(pipe):
    ready, _, _ = select.select([pipe], [], [], 30)
    return os.read(pipe, 1 << 16).decode() if ready else "hangs"

seeded = random.Random(7)
for index in range(20):
    operation = (whole, gathered, scattered, broadcast)[index % 4]
    length = (3_000, 300_000)[index // 4 % 2]
    with tempfile.TemporaryDirectory() as folder:
        pipes, children = [os.pipe() for _ in range(3)], []
        for rank in range(3):
            children.append(os.fork())
            if children[-1] == 0:
                work(rank, operation, length, folder, pipes[rank][1])
                os._exit(0)
        for _, end in pipes:
            os.close(end)
        for begin, _ in pipes:
            assert heard(begin)[0] == ".", "not all ranks have begun"
        select.select([], [], [], seeded.random() / 30)
        os.kill(children[2], signal.SIGKILL)
        for begin, _ in pipes[:2]:
            last = "."
            while last and not last.strip("."):
                last = heard(begin)
            print(operation.__name__, last.strip("."))
        for child, (begin, _) in zip(children, pipes):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(begin)
"""


@pytest.mark.slow
def test_ranks_that_are_killed_at_any_moment_leave_an_error(
    run_python: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    result = run_python(KILLS)
    lines = result.stdout.splitlines()
    assert len(lines) == 40, result.stderr
    names = {"whole": "all_reduce", "gathered": "all_gather", "scattered": "reduce_scatter", "broadcast": "broadcast"}
    for line in lines:
        operation, _, said = line.partition(" ")
        assert re.match(rf"error .*{names[operation]}\w* on mydev:0, rank [01] of 3", said), line


ABSENT = """
join()
collective()
torch.mydev.synchronize()
say(ready=True)
if rank == 1:
    sys.stdin.readline()
    end()
tensor = torch.ones(length, device=device_name)
say(error=error_of(lambda: dist.all_reduce(tensor)), sum=tensor.sum().item() >= 0)
end()
"""


@pytest.mark.parametrize("length", LENGTHS)
def test_rank_that_never_arrives_is_a_timeout(length: int) -> None:
    with ranks(f"length = {length}" + ABSENT, 2) as group:
        assert group.hear(0) == {"ready": True}
        error = str(group.hear(0)["error"])
        assert "all_reduce on mydev:0, rank 0 of 2 failed" in error
        assert "timed out" in error.lower()
        group.tell(1)


SHORT_WAIT = """
join()
collective()
if rank == 1:
    sys.stdin.readline()
    collective()
    torch.mydev.synchronize()
    end()
tensor = torch.ones(1000, device=device_name)
work = dist.all_reduce(tensor, async_op=True)
say(error=error_of(lambda: work.wait(datetime.timedelta(milliseconds=50))))
sys.stdin.readline()
work.wait(datetime.timedelta(seconds=60))
say(sum=tensor.sum().item())
end()
"""


def test_wait_with_a_timeout_gives_up_and_the_collective_goes_on() -> None:
    with ranks(SHORT_WAIT, 2) as group:
        assert "all_reduce on mydev:0, rank 0 of 2" in str(group.hear(0)["error"])
        group.tell(1)
        group.tell(0)
        assert group.hear(0) == {"sum": 2000.0}


MISMATCHED = """
join()
tensor = torch.ones(1000 if rank == 0 else 500, device=device_name)
say(error=error_of(lambda: dist.all_reduce(tensor)))
end()
"""


def test_mismatched_shapes_are_named_in_debug_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    with ranks(MISMATCHED, 2) as group:
        for rank in (0, 1):
            error = str(group.hear(rank)["error"])
            assert "1000" in error or "500" in error
            assert "mismatch" in error


LOST_STORE = """
store = join()
collective()
torch.mydev.synchronize()
say(ready=True)
sys.stdin.readline()
if rank == 0:
    end()  # which takes the store along
say(error=error_of(lambda: dist.new_group([1, 2])), old=error_of(collective))
end()
"""


@pytest.mark.slow
def test_store_that_goes_away_is_an_error() -> None:
    with ranks(LOST_STORE, 3) as group:
        for rank in range(3):
            assert group.hear(rank) == {"ready": True}
        group.tell(0)
        group.processes[0].wait()
        for rank in (1, 2):
            group.tell(rank)
        for rank in (1, 2):
            heard = group.hear(rank)
            assert str(heard["error"]).startswith(("DistNetworkError", "DistBackendError", "DistStoreError", "Runtime"))
            assert "all_reduce on mydev:0" in str(heard["old"])


ABORTED = """
import threading
timeout = datetime.timedelta(seconds=600)
join()
before = torch.mydev.memory_allocated()
collective()
torch.mydev.synchronize()
say(ready=True)
if rank == 0:  # the other never comes
    group = dist.distributed_c10d._get_default_group()
    tensor = torch.ones(length, device=device_name)
    work = start(tensor)
    aborting = threading.Thread(target=group.abort)
    aborting.start()
    def wait():
        work.wait()
        torch.mydev.synchronize()
    say(error=error_of(wait))
    aborting.join()
    say(completed=work.is_completed(), later=error_of(collective), alive=torch.ones(3, device=device_name).sum().item())
    del work, group
    dist.destroy_process_group()
else:
    sys.stdin.readline()
    end()
"""

STARTS = {
    "all_reduce": "def start(tensor): return dist.all_reduce(tensor, async_op=True)",
    "long all_reduce": "def start(tensor): return dist.all_reduce(tensor.repeat(150), async_op=True)",
    "average": "def start(tensor): return dist.all_reduce(tensor, dist.ReduceOp.AVG, async_op=True)",
    "send": "def start(tensor): return dist.isend(tensor.expand(1 << 14, 1000).contiguous(), 1)",
    "recv": "def start(tensor): return dist.irecv(tensor, 1)",
}
OPERATIONS = {"average": "all_reduce", "long all_reduce": "all_reduce"}


@pytest.mark.parametrize("what", STARTS)
def test_abort_ends_what_is_under_way_and_the_process_can_end(what: str) -> None:
    with ranks(STARTS[what] + ABORTED, 2) as group:
        assert group.hear(0) == {"ready": True}
        assert f"{OPERATIONS.get(what, what)} on mydev:0, rank 0 of 2" in str(group.hear(0)["error"])
        afterwards = group.hear(0)
        assert "the process group was aborted" in str(afterwards["later"])
        assert afterwards["completed"] is True
        assert afterwards["alive"] == 3.0
        group.ends_well(0)


# --- two hosts --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_hosts_work_together_until_the_link_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", LINK)
    with two_hosts() as hosts, ranks(KILLED, 2, address=ADDRESSES[0], wrap=[host.prefix for host in hosts]) as group:
        for rank in (0, 1):
            assert group.hear(rank) == {"ready": True}
        for rank in (0, 1):
            group.tell(rank)
        hosts[1].cut()
        for rank in (0, 1):
            heard = group.hear(rank)
            assert f"all_reduce on mydev:0, rank {rank} of 2" in str(heard["error"])
            assert heard["same_memory"]
