"""Events of several processes: torch.mydev.Event(interprocess=True)."""

from __future__ import annotations

import gc
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import torch_mydev  # noqa: F401

mydev = torch.mydev
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_event_of_one_process_has_no_handle() -> None:
    with pytest.raises(RuntimeError, match="interprocess=True"):
        mydev.Event().ipc_handle()
    with pytest.raises(RuntimeError, match="interprocess=True"):
        pickle.dumps(mydev.Event())


def test_it_measures_no_time() -> None:
    with pytest.raises(ValueError, match="enable_timing"):
        mydev.Event(enable_timing=True, interprocess=True)
    event = mydev.Event(interprocess=True)
    event.record()
    with pytest.raises(RuntimeError, match="enable_timing"):
        event.elapsed_time(event)


@pytest.mark.parametrize(
    ("handle", "error", "explanation"),
    [
        (b"", ValueError, "empty handle"),
        (b"1:2", RuntimeError, "no handle of an event"),
        (b"1:2:zz", RuntimeError, "no handle of an event"),
        (b"999999999:3:1", RuntimeError, "cannot be opened"),
    ],
)
def test_what_is_no_handle_is_refused(handle: bytes, error: type[Exception], explanation: str) -> None:
    with pytest.raises(error, match=explanation):
        mydev.Event.from_ipc_handle(0, handle)


def test_handle_of_an_event_that_is_gone_is_refused() -> None:
    handle = mydev.Event(interprocess=True).ipc_handle()
    gc.collect()
    with pytest.raises(RuntimeError, match="cannot be opened|has no such event"):
        mydev.Event.from_ipc_handle(0, handle)


def test_it_is_done_until_it_is_recorded() -> None:
    event = mydev.Event(interprocess=True)
    other = mydev.Event.from_ipc_handle(0, event.ipc_handle())
    assert event.query() and other.query()
    event.record()
    mydev.current_stream().wait_event(other)
    other.synchronize()
    assert event.query() and other.query()


def test_each_record_counts_anew() -> None:
    event = mydev.Event(interprocess=True)
    other = mydev.Event.from_ipc_handle(0, event.ipc_handle())
    for recorder, waiter in [(event, other), (other, event), (event, event)] * 3:
        x = torch.ones(64, 64, device="mydev")
        y = x @ x
        recorder.record()
        waiter.synchronize()
        assert y.sum().item() == 64.0**3


def test_it_is_not_captured() -> None:
    event = mydev.Event(interprocess=True)
    with pytest.raises(RuntimeError, match="several processes"), mydev.graph(mydev.MyDevGraph()):
        event.record()
    event.record()
    event.synchronize()


# The child's stream waits for the parent's event, and the parent's for the child's.
TWO_PROCESSES = """
import torch, torch_mydev
from torch import multiprocessing

def child(event, flag, go_on, answers):
    event.wait()
    seen = flag.clone()  # after the parent has set it
    torch.mydev.synchronize()
    answers.put(seen.item())
    back = torch.mydev.Event(interprocess=True)
    flag.fill_(2)
    back.record()
    answers.put(back)
    go_on.get()

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    go_on, answers = context.Queue(), context.Queue()
    flag = torch.zeros(1, device="mydev")
    flag.share_memory_()
    event = torch.mydev.Event(interprocess=True)
    process = context.Process(target=child, args=(event, flag, go_on, answers))
    torch.mydev._sleep(300_000_000)
    flag.fill_(1)
    event.record()
    process.start()
    assert answers.get() == 1
    assert event.query()
    back = answers.get()
    torch.mydev.current_stream().wait_event(back)
    assert flag.item() == 2
    assert back.query()
    go_on.put(None)
    process.join()
    assert process.exitcode == 0
    print("both waited")
"""


@pytest.mark.any_driver
@pytest.mark.parametrize("driver", ["host", "host:async"])
def test_streams_of_two_processes_wait_for_each_other(run_python: Run, tmp_path: Path, driver: str) -> None:
    program = tmp_path / "two.py"
    program.write_text(TWO_PROCESSES)
    code = f"import runpy, sys; sys.argv = [{str(program)!r}]; runpy.run_path({str(program)!r}, run_name='__main__')"
    result = run_python(code, fresh=True, MYDEV_DRIVER=driver)
    assert "both waited" in result.stdout, result.stderr


RECORDER_ENDS = """
import subprocess, sys
import torch, torch_mydev
event = torch.mydev.Event(interprocess=True)
code = '''
import os, sys, torch, torch_mydev
event = torch.mydev.Event.from_ipc_handle(0, sys.argv[1].encode())
torch.mydev._sleep(10**12)
event.record()
os._exit(0)
'''
subprocess.run([sys.executable, "-c", code, event.ipc_handle().decode()], check=True)
assert not event.query()
for wait in (event.synchronize, lambda: (event.wait(), torch.mydev.synchronize())):
    try:
        wait()
    except RuntimeError as error:
        assert "has ended before the event was done" in str(error), error
        print("reported")
event.record()
event.synchronize()
print("works again")
"""


def test_who_waits_for_a_process_that_has_ended_is_told(run_python: Run) -> None:
    result = run_python(RECORDER_ENDS, MYDEV_DRIVER="host:async")
    assert result.stdout.split("\n")[:3] == ["reported", "reported", "works again"], result.stderr
