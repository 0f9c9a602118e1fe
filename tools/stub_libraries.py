"""Writes empty stand-ins for shared libraries that others link to and that are not installed.

torch_xla wants a torch that is only published with CUDA. Its libraries link to some fifteen of NVIDIA's, several GB
that a machine without such a GPU has no use for: the loader wants the names and the symbols, and nobody calls them. A
stand-in has each symbol that is asked of it, with its version; a function returns 0, cudaGetDeviceCount that there is
no device.

    python tools/stub_libraries.py .../site-packages/torch/lib OUTPUT; LD_LIBRARY_PATH=OUTPUT python ...

Wants readelf and a C compiler. x86-64 and aarch64.
"""

from __future__ import annotations

import platform
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

_NO_DEVICE = 100  # cudaErrorNoDevice
_RETURN = {"x86_64": "mov ${}, %eax\nret", "aarch64": "mov w0, #{}\nret"}[platform.machine()]
# Symbols of the interpreter, and of the linker.
_ELSEWHERE = re.compile(r"_?Py[A-Z_]|_ITM_|__gmon_start__|__cxa_finalize|__tls_get_addr")


def _readelf(*arguments: str) -> list[str]:
    command = ["readelf", "-W", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def _installed() -> set[str]:
    """The libraries that the loader finds by itself."""
    lines = subprocess.run(["/sbin/ldconfig", "-p"], check=True, capture_output=True, text=True).stdout.splitlines()
    return {line.split()[0] for line in lines[1:]}


def missing_symbols(libraries: list[Path]) -> dict[str, dict[str, set[str]]]:
    """The symbols wanted of each missing library, by its name and their version ("" for none)."""
    needed: set[str] = set()
    defined: set[str] = set()
    plain: set[str] = set()  # wanted without a version: of any library
    wanted: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for library in libraries:
        needed.update(re.findall(r"\(NEEDED\).*\[(.+)\]", "\n".join(_readelf("-d", str(library)))))
        owner: dict[str, str] = {}
        file = ""
        for line in _readelf("-V", str(library)):
            if match := re.search(r"Version: \d+ +File: (\S+)", line):
                file = match[1]
            elif match := re.search(r"Name: (\S+) +Flags: .* Version: \d+", line):
                owner[match[1]] = file
        for line in _readelf("--dyn-syms", str(library)):
            fields = line.split()
            if len(fields) < 8 or fields[4] == "LOCAL":
                continue
            name, _, version = fields[7].partition("@")
            if fields[6] != "UND":
                defined.add(name)
            elif version:
                wanted[owner[version]][version].add(name)
            elif not _ELSEWHERE.match(name):
                plain.add(name)
    missing = sorted(needed - _installed() - {path.name for path in libraries})
    if missing:
        wanted[missing[0]][""] |= plain - defined
    return {name: wanted[name] for name in missing}


def write_stub(name: str, symbols: dict[str, set[str]], folder: Path) -> None:
    """Builds the library `name` in `folder`."""
    with tempfile.TemporaryDirectory() as scratch:
        source, versions = Path(scratch) / "stub.s", Path(scratch) / "versions.map"
        with source.open("w") as file:
            file.write(".text\n")
            for symbol in sorted(set().union(*symbols.values())):
                code = _RETURN.format(_NO_DEVICE if symbol == "cudaGetDeviceCount" else 0)
                file.write(f".globl {symbol}\n.type {symbol}, %function\n{symbol}:\n{code}\n")
            file.write('.section .note.GNU-stack,"",%progbits\n')
        groups = [
            f"{version} {{ {'; '.join(sorted(of))}; }};" for version, of in sorted(symbols.items()) if of and version
        ]
        versions.write_text("\n".join(groups))
        command = ["cc", "-shared", "-nostdlib", f"-Wl,-soname,{name}", "-o", str(folder / name), str(source)]
        subprocess.run(command + ([f"-Wl,--version-script={versions}"] if groups else []), check=True)


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    libraries, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for name, symbols in missing_symbols(sorted(libraries.glob("*.so*"))).items():
        write_stub(name, symbols, folder)


if __name__ == "__main__":
    main()
