"""Two hosts, as network namespaces with one link between them. Tests are skipped where none can be made."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

ADDRESSES = "10.77.0.1", "10.77.0.2"
LINK = "veth0"  #: its name on both hosts


def _ip(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)


def _make(*arguments: str) -> None:
    made = _ip(*arguments)
    if made.returncode != 0:
        pytest.skip(f"network namespaces cannot be made here: {made.stderr.strip()}")


@dataclass(frozen=True)
class Host:
    name: str

    @property
    def prefix(self) -> list[str]:
        """The beginning of a command that runs on this host."""
        return ["ip", "netns", "exec", self.name]

    def lose(self, percent: int) -> None:
        """Loses so many of the packets that it sends. The test is skipped where the kernel cannot."""
        lossy = subprocess.run(
            ["tc", "-n", self.name, "qdisc", "add", "dev", LINK, "root", "netem", "loss", f"{percent}%"],
            capture_output=True,
            text=True,
            check=False,
        )
        if lossy.returncode != 0:
            pytest.skip(f"this kernel cannot lose packets: {lossy.stderr.strip()}")

    def cut(self) -> None:
        """Nothing passes the link from now on, and nobody is told."""
        assert _ip("-n", self.name, "link", "set", LINK, "down").returncode == 0


@contextlib.contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    if shutil.which("ip") is None:
        pytest.skip("network namespaces cannot be made here: there is no ip command")
    names = f"mydev-{os.getpid()}-a", f"mydev-{os.getpid()}-b"
    try:
        for name in names:
            _make("netns", "add", name)
        _make("link", "add", LINK, "netns", names[0], "type", "veth", "peer", "name", LINK, "netns", names[1])
        for name, address in zip(names, ADDRESSES, strict=True):
            _make("-n", name, "addr", "add", f"{address}/24", "dev", LINK)
            _make("-n", name, "link", "set", LINK, "up")
            _make("-n", name, "link", "set", "lo", "up")
        yield Host(names[0]), Host(names[1])
    finally:
        for name in names:
            _ip("netns", "del", name)
