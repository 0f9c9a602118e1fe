"""``mydev top``: processes that use devices are shown while they live, and no longer."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mydev import top
from support.checkout import environment

pytestmark = pytest.mark.any_driver

_TORCH = """
import torch
kept = torch.ones(1 << 20, device="mydev")
gone = torch.ones(3 << 20, device="mydev")
del gone
import time; time.sleep({wait})
print("ready", flush=True)
{then}
"""
_JAX = """
import jax
kept = jax.device_put(jax.numpy.ones(1 << 20), jax.devices("mydev")[0]).block_until_ready()
import time; time.sleep({wait})
print("ready", flush=True)
{then}
"""
_WAIT = "import sys; sys.stdin.read()"


@pytest.fixture(autouse=True)
def runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "mydev"


@contextmanager
def program(code: str, then: str = _WAIT, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has used a device for longer than a page's period; it ends with the block."""
    command = [sys.executable, "-c", code.format(wait=0.7, then=then)]
    settings = environment(MYDEV_DRIVER="host", JAX_PLATFORMS="mydev,cpu", **variables)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=settings) as process:
        assert process.stdout is not None and process.stdin is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.stdin.close()


def test_a_process_is_shown_while_it_lives(runtime_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with program(_TORCH) as process:
        (use,) = top.snapshot()
        assert (use.pid, use.device, use.driver) == (process.pid, "mydev:0", "host")
        assert use.in_use == 4 << 20
        assert use.cached >= 12 << 20
        assert use.peak == 16 << 20
        assert use.utilization is not None and 0 <= use.utilization <= 100
        assert (use.temperature, use.power) == (None, None)
        assert use.age < 10
        assert runtime_folder.stat().st_mode & 0o777 == 0o700
        assert top.run(["--once"]) == 0
        assert f"{process.pid}     4.0 MiB" in capsys.readouterr().out
        assert top.run(["--once", "--json"]) == 0
        (row,) = json.loads(capsys.readouterr().out)["uses"]
        assert row["in_use"] == 4 << 20
        assert top.run(["--once", "--csv"]) == 0
        (read,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
        assert (read["pid"], read["in_use"], read["power"]) == (str(process.pid), str(4 << 20), "")
    assert top.snapshot() == []
    assert list(runtime_folder.iterdir()) == []


@pytest.mark.slow
def test_a_process_of_jax_is_shown() -> None:
    pytest.importorskip("jax")
    with program(_JAX) as process:
        (use,) = top.snapshot()
        assert use.pid == process.pid
        assert use.in_use >= 4 << 20


@pytest.mark.slow
def test_neither_a_forked_child_nor_a_killed_process_leaves_a_ghost(runtime_folder: Path) -> None:
    fork = (
        "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nelse: raise SystemExit\nprint('forked', flush=True)\n"
    )
    with program(_TORCH, then=fork + _WAIT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "forked\n"
        assert [use.pid for use in top.snapshot()] == [process.pid]
        process.kill()
        process.wait()
        assert len(list(runtime_folder.iterdir())) == 1
        assert top.snapshot() == []
        assert list(runtime_folder.iterdir()) == []


@pytest.mark.slow
def test_off_makes_no_page(runtime_folder: Path) -> None:
    with program(_TORCH, MYDEV_TOP="off"):
        assert not runtime_folder.exists()
        assert top.snapshot() == []


@pytest.mark.slow
def test_a_folder_open_to_others_gets_no_page(runtime_folder: Path) -> None:
    runtime_folder.mkdir()
    runtime_folder.chmod(0o755)
    with program(_TORCH, MYDEV_LOG="debug"):
        assert list(runtime_folder.iterdir()) == []


def test_pages_that_are_none_are_left_alone(runtime_folder: Path) -> None:
    runtime_folder.mkdir(mode=0o700)
    (runtime_folder / "1-2").write_bytes(b"MYDEVTOP" + bytes(4088))  # of version 0
    (runtime_folder / "short").write_text("x")
    assert top.snapshot() == []
    assert len(list(runtime_folder.iterdir())) == 2


def test_a_page_whose_process_id_is_another_processes_is_removed(runtime_folder: Path) -> None:
    runtime_folder.mkdir(mode=0o700)
    namespace = os.stat("/proc/self/ns/pid").st_ino
    header = top._HEADER.pack(b"MYDEVTOP", 1, 1, os.getpid(), 1, namespace, 2, 0.0, b"mydev", b"host")
    (runtime_folder / "page").write_bytes(header.ljust(4096, b"\0"))
    assert top.snapshot() == []
    assert list(runtime_folder.iterdir()) == []


def test_an_interval_that_makes_no_sense_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        top.run(["--interval", "0"])
    assert "it takes seconds from 0.1 to 86400" in capsys.readouterr().err
