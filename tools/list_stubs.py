"""Prints the dispatch stubs that the installed torch lets a backend register kernels in, one a line.

A stub counts if a header of the wheel declares it and libtorch_cpu exports it.
"""

from __future__ import annotations

import argparse
import mmap
import re
from dataclasses import dataclass
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent

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
    sources = (path for path in (ROOT / "csrc" / "aten").rglob("*") if path.suffix in (".cpp", ".h"))
    return {a or b for path in sources for a, b in _REGISTRATION.findall(path.read_text(encoding="utf-8"))}


def listing() -> str:
    """A line for each stub: which kernels it has, its header, its name, and the type of a kernel."""
    version = torch.__version__.partition("+")[0]
    all_stubs, ours = stubs(), registered()
    lines = [f"{len(all_stubs)} stubs of torch {version}. CPU: its kernel can be called; here: torch_mydev has one"]
    for stub in all_stubs:
        marks = f"{'CPU' if stub.has_cpu_kernel else '':<3}  {'here' if stub.name in ours else '':<4}"
        lines.append(f"{marks}  {stub.header}  {stub.name}  {stub.signature}")
    return "\n".join(lines)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(listing())
