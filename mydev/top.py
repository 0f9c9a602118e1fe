"""``top``: which processes of this user use the devices, and how much memory of them; torch and JAX need not be there.

Each process that uses a device writes a page twice a second (csrc/runtime/memory/memory_page.h), unless it has
MYDEV_TOP=off. The pages lie in one folder. Pages of processes that are gone are removed here. Processes of other users,
and those of other containers, are not shown. Nothing of a device or its driver is asked by this process.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import math
import os
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_MAGIC, _VERSION = b"MYDEVTOP", 1
_HEADER = struct.Struct("<8sIIqQQQd32s32s")  # MemoryPage
_DEVICE = struct.Struct("<iIQQQQddd40s")  # MemoryPageDevice
_SEQUENCE = struct.Struct("<Q")
_SEQUENCE_AT = 40
_TRIES = 100  # to read a page between two writes of its process, each of which takes microseconds


@dataclass(frozen=True)
class DeviceUse:
    """The statement of one process about one device. Sizes are in bytes."""

    pid: int
    command: str
    device: str  #: "mydev:0"
    name: str
    driver: str
    total: int  #: that the device has
    in_use: int  #: that tensors, and buffers of JAX, occupy
    cached: int  #: that the process keeps for later
    peak: int  #: the most that was in use
    utilization: float | None  #: percent of the time in which the device computed, whoever used it; None: not known
    temperature: float | None  #: degrees Celsius
    power: float | None  #: watts
    age: float  #: seconds since the process wrote it

    @property
    def held(self) -> int:
        """Bytes that the process has from the driver."""
        return self.in_use + self.cached


def folder() -> Path:
    """The folder of the pages: ``$XDG_RUNTIME_DIR/mydev``, or ``/tmp/mydev-<uid>``."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    return Path(f"{runtime}/mydev" if runtime.startswith("/") else f"/tmp/mydev-{os.geteuid()}")


def snapshot() -> list[DeviceUse]:
    """The statements of all processes about the devices that they use, by device and process.

    Removes the pages of ended ones.
    """
    path, found = folder(), list[DeviceUse]()
    try:
        own = path.lstat().st_uid == os.geteuid() and not path.is_symlink()
        pages = sorted(path.iterdir()) if own else []
    except FileNotFoundError:
        return []
    for page in pages:
        found += _read(page)
    return sorted(found, key=lambda use: (use.device, use.pid))


# --- pages ------------------------------------------------------------------------------------------------------------


def _read(path: Path) -> list[DeviceUse]:
    """The statements of a page; nothing where it is of another version or namespace, or of an ended process."""
    data = _whole(path)
    if data is None:
        return []
    magic, version, count, pid, start, namespace, _, written, device_type, driver = _HEADER.unpack_from(data)
    if magic != _MAGIC or version != _VERSION or namespace != _namespace():
        return []
    if _start_of(pid) != start:
        with contextlib.suppress(OSError):
            path.unlink()
        return []
    command, age = _command_of(pid), max(0.0, time.time() - written)
    uses = []
    for position in range(count):
        row = _DEVICE.unpack_from(data, _HEADER.size + position * _DEVICE.size)
        index, _, total, allocated, reserved, peak, *measures, name = row
        utilization, temperature, milliwatts = (None if math.isnan(value) else value for value in measures)
        uses.append(
            DeviceUse(
                pid=pid,
                command=command,
                device=f"{_text(device_type)}:{index}",
                name=_text(name),
                driver=_text(driver),
                total=total,
                in_use=allocated,
                cached=max(0, reserved - allocated),
                peak=peak,
                utilization=utilization,
                temperature=temperature,
                power=None if milliwatts is None else milliwatts / 1e3,
                age=age,
            )
        )
    return uses


def _whole(path: Path) -> bytes | None:
    """The bytes of a page that its process did not write meanwhile; None where there are none."""
    for _ in range(_TRIES):
        try:
            data = path.read_bytes()
            again = path.read_bytes()
        except OSError:
            return None
        if len(data) < _HEADER.size + _DEVICE.size or len(again) < _HEADER.size:
            return None
        (before,), (after,) = (_SEQUENCE.unpack_from(text, _SEQUENCE_AT) for text in (data, again))
        if before == after and before % 2 == 0:
            return data
    return None


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode(errors="replace")


def _namespace() -> int:
    """The namespace of this process's ids, which name other processes elsewhere."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def _start_of(pid: int) -> int | None:
    """When the process began, in ticks since the machine did; None where there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may have blanks
    return None if fields[0] in "ZX" else int(fields[19])  # an ended one that its parent has not asked for is no user


def _command_of(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return " ".join(word.decode(errors="replace") for word in words if word)


# --- report -----------------------------------------------------------------------------------------------------------


def size_text(size: float) -> str:
    """ "1.5 GiB"."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def _measures(use: DeviceUse) -> str:
    parts = [
        f"{use.utilization:.0f} % busy" if use.utilization is not None else "",
        f"{use.temperature:.0f} °C" if use.temperature is not None else "",
        f"{use.power:.0f} W" if use.power is not None else "",
    ]
    return ", ".join(filter(None, parts))


def report(uses: Sequence[DeviceUse], width: int = 0) -> str:
    """The table, cut to ``width`` columns unless that is 0: a line for each device, and below it its processes."""
    if not uses:
        return "no process of yours uses a device"
    lines = []
    for device in dict.fromkeys((use.device, use.driver) for use in uses):
        users = [use for use in uses if (use.device, use.driver) == device]
        newest = min(users, key=lambda use: use.age)
        held = f"{size_text(sum(use.held for use in users))} of {size_text(newest.total)}"
        parts = [f"{device[0]}  {newest.name}", f"driver {device[1]}", held, _measures(newest)]
        lines.append("  ".join(filter(None, parts)))
        lines.append(f"  {'pid':>8}  {'in use':>10}  {'cached':>10}  {'peak':>10}  command")
        lines += [
            f"  {use.pid:>8}  {size_text(use.in_use):>10}  {size_text(use.cached):>10}  {size_text(use.peak):>10}  "
            f"{use.command}"
            for use in users
        ]
    return "\n".join(line[:width] if width else line for line in lines)


def _print_csv(uses: Sequence[DeviceUse], header: bool) -> None:
    writer = csv.writer(sys.stdout)
    fields = list(DeviceUse.__dataclass_fields__)
    if header:
        writer.writerow(["time", *fields])
    now = f"{time.time():.3f}"
    for use in uses:
        writer.writerow([now, *("" if value is None else value for value in asdict(use).values())])


def _print(uses: Sequence[DeviceUse], options: argparse.Namespace, first: bool) -> None:
    if options.json:
        value: dict[str, Any] = {"time": time.time(), "uses": [asdict(use) for use in uses]}
        print(json.dumps(value, indent=2 if options.once else None))
    elif options.csv:
        _print_csv(uses, first)
    elif options.once or not sys.stdout.isatty():
        print(report(uses))
    else:
        clear = "\x1b[H\x1b[2J"
        print(f"{clear}{time.strftime('%H:%M:%S')}  (end with Ctrl-C)\n{report(uses, os.get_terminal_size().columns)}")
    sys.stdout.flush()


def run(arguments: Sequence[str]) -> int:
    """The subcommand: prints what there is, again and again unless ``--once``; returns 0."""
    parser = argparse.ArgumentParser(prog="mydev top", description="Shows which processes use the devices' memory.")
    parser.add_argument("--once", action="store_true", help="print it once, and end")
    parser.add_argument("--interval", type=float, default=1.0, metavar="SECONDS", help="between two (%(default)g)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON, an object a line")
    form.add_argument("--csv", action="store_true", help="print CSV, a row for each process and device")
    options = parser.parse_args(arguments)
    if not 0.1 <= options.interval <= 86400:
        parser.error(f"--interval {options.interval:g}: it takes seconds from 0.1 to 86400")
    first = True
    try:
        while True:
            _print(snapshot(), options, first)
            if options.once:
                return 0
            first = False
            time.sleep(options.interval)
    except KeyboardInterrupt:
        return 0
