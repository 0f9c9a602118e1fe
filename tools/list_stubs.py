"""Writes docs/reference/stubs.md: the dispatch stubs that the installed torch lets a backend register kernels in.

A stub counts if a header of the wheel declares it and libtorch_cpu exports it. Run without arguments to write the file,
with --check to compare only (exit status 1 when it is out of date).
"""

from __future__ import annotations

import mmap
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from written_pages import ROOT, parser, write_or_check

PAGE = ROOT / "docs" / "reference" / "stubs.md"

# DECLARE_DISPATCH(<function type>, <name>): the type may hold parentheses and commas.
_DECLARATION = re.compile(r"^DECLARE_DISPATCH\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*),\s*(\w+)\s*\)", re.MULTILINE)
_REGISTRATION = re.compile(r"REGISTER_PRIVATEUSE1_DISPATCH\((\w+),|\bX\(\w+, (\w+_stub)\)")
_STUB_SYMBOL = re.compile(rb"_ZN2at6native\d+(\w+?)E\0")
_CPU_KERNEL_SYMBOL = re.compile(rb"NS0_\d+((?:(?!NS\d*_)\w)+?)_DECLARE_DISPATCH_typeEE7DEFAULTE\0")


@dataclass(frozen=True, order=True)
class Stub:
    header: str
    name: str
    signature: str
    has_cpu_kernel: bool


def _exported_names() -> tuple[set[str], set[str]]:
    """Names of namespace at::native in libtorch_cpu, and stubs whose CPU kernel can be called."""
    library = Path(torch.__path__[0]) / "lib" / "libtorch_cpu.so"
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        names = {m[1].decode() for m in _STUB_SYMBOL.finditer(content)}
        with_kernel = {m[1].decode() for m in _CPU_KERNEL_SYMBOL.finditer(content)}
    return names, with_kernel


def stubs() -> list[Stub]:
    """The stubs of the installed torch that a backend can register kernels in."""
    include = Path(torch.__path__[0]) / "include"
    exported, with_kernel = _exported_names()
    found: set[Stub] = set()
    for header in (include / "ATen").rglob("*.h"):
        for signature, name in _DECLARATION.findall(header.read_text(encoding="utf-8")):
            if name in exported:
                text = " ".join(signature.split())
                found.add(Stub(str(header.relative_to(include)), name, text, name in with_kernel))
    return sorted(found)


def registered() -> set[str]:
    """The stubs that this project registers."""
    sources = (ROOT / "csrc" / "aten").rglob("*.cpp")
    return {a or b for path in sources for a, b in _REGISTRATION.findall(path.read_text(encoding="utf-8"))}


def page() -> str:
    """The text of docs/reference/stubs.md."""
    all_stubs, ours = stubs(), registered()
    version = torch.__version__.partition("+")[0]
    counts = (
        f"{len(all_stubs)} stubs in {len({s.header for s in all_stubs})} headers; "
        f"{sum(s.has_cpu_kernel for s in all_stubs)} with a CPU kernel; "
        f"{sum(s.name in ours for s in all_stubs)} registered here."
    )
    lines = [
        f"# Dispatch stubs of torch {version}",
        "",
        "Written by `python tools/list_stubs.py`; do not edit. Each of these stubs takes a kernel of a backend by",
        "`REGISTER_PRIVATEUSE1_DISPATCH(stub, function)`. *CPU*: the CPU's kernel can be called.",
        "*Here*: registered by torch_mydev. [How to use them](../extending.md#2-kernels-for-stubs).",
        "",
        counts,
    ]
    header = ""
    for stub in all_stubs:
        if stub.header != header:
            header = stub.header
            lines += ["", f"## {header}", "", "| stub | type of the kernel | CPU | here |", "| --- | --- | --- | --- |"]
        marks = f"{'yes' if stub.has_cpu_kernel else ''} | {'yes' if stub.name in ours else ''}"
        signature = stub.signature.replace("|", "\\|")
        lines.append(f"| `{stub.name}` | `{signature}` | {marks} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: page()}, check=parser(__doc__).parse_args().check))
