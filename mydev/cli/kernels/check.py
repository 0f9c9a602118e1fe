"""``kernels check``: whether a file is a library of kernels that will load, and what is wrong if it is not.

Policy. This process reads the file only; it is loaded in child processes, first with nothing but ctypes, then by
torch_mydev, where that is installed. A crash there is a finding that says what was being done.
"""

from __future__ import annotations

import os
import platform
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mydev.cli import added
from mydev.cli.child import Child, run_child
from mydev.cli.finding import Finding
from mydev.cli.kernels import elf_file
from mydev.wording import counted

TIMEOUT = 60.0  #: seconds that loading a library may take
ADDED = "kernels.register"
QUERY = "mydev_custom_call_query"
_PACKAGE = Path(__file__).parents[2]
_PROBE = Path(__file__).parent / "_probe.py"
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_KINDS = 8
_FFI_LIBRARY = "libmydev_xla_ffi.so"  # what self-registering handlers are linked with
_STATUS_PREFIX = "XlaCustomCallStatusSet"
_FRAMEWORKS = re.compile(r"lib(torch|c10|python|mydev)")

# Loads a library as a program would, and prints what torch_mydev says of it.
_LOAD = f"import sys; from mydev.cli import added; added.load('{ADDED}')(sys.argv[1])"


def run_python(*arguments: str, timeout: float) -> Child:
    """Runs this Python in a process of its own, in which the package is found."""
    path = os.pathsep.join(filter(None, [str(_PACKAGE.parent), os.environ.get("PYTHONPATH", "")]))
    return run_child([sys.executable, *arguments], timeout=timeout, environment={"PYTHONPATH": path})


def probe(path: Path, undefined: list[str], timeout: float = TIMEOUT) -> Child:
    """Loads a library in a process of its own and reads its table."""
    before = [str(_status_library())] if any(name.startswith(_STATUS_PREFIX) for name in undefined) else []
    child = run_python(str(_PROBE), str(path), *before, timeout=timeout)
    if not child.failure and child.value("done") is None:
        return replace(child, failure="ended with exit code 0")
    return child


def _status_library() -> Path:
    """Defines XLA's status functions where a process has none."""
    return _PACKAGE / "lib" / "libmydev_custom_call_status.so"


def check(path: Path, timeout: float = TIMEOUT) -> list[Finding]:
    """Everything there is to say about the file, in the order in which things depend on each other."""
    try:
        elf = elf_file.read_elf(path)
    except OSError as error:
        return [Finding("problem", "file", f"{path} cannot be read: {error.strerror}")]
    except elf_file.ElfError as error:
        return [Finding("problem", "file", f"{path} {error}", "build it as a shared object: add_library(… MODULE …)")]
    registers_itself = _FFI_LIBRARY in elf.needed
    findings = [*_examine_file(path, elf)]
    findings += _examine_handshake(probe(path, elf.undefined, timeout), registers_itself)
    if any(finding.state == "problem" and finding.subject != "security" for finding in findings):
        return findings
    if added.is_added(ADDED):
        return [*findings, *_examine_loading(run_python("-c", _LOAD, str(path), timeout=timeout))]
    text = f"not tried: {added.PACKAGE} is not installed"
    return [*findings, Finding("note", "registering", text, f"{added.INSTALL}, to see the kernels as operators")]


# --- read -------------------------------------------------------------------------------------------------------------


def _examine_file(path: Path, elf: elf_file.ElfFile) -> Iterator[Finding]:
    machine = {"x86_64": "x86-64"}.get(platform.machine(), platform.machine())
    state = "ok" if elf.machine == machine else "problem"
    yield Finding("ok" if state == "ok" else "problem", "file", f"{path}, a shared object for {elf.machine}")
    if path.stat().st_mode & stat.S_IWOTH:
        text = "anybody may write to the file; MYDEV_CUSTOM_CALLS will not take it"
        yield Finding("problem", "security", text, f"chmod o-w {path}")
    if elf.executable_stack:
        remedy = "link with -Wl,-z,noexecstack; assembler files need a .note.GNU-stack section"
        yield Finding("problem", "security", "it asks for an executable stack", remedy)
    if elf.text_relocations:
        yield Finding("problem", "security", "its code is written to when it is loaded", "compile with -fPIC")
    for entry in elf.search_paths:
        yield from _examine_search_path(entry)
    frameworks = [name for name in elf.needed if _FRAMEWORKS.match(name)]
    if frameworks:
        text = f"it is linked with {', '.join(frameworks)}"
        yield Finding("note", "libraries", text, "a library of kernels needs the header only, and then runs everywhere")
    else:
        yield Finding("ok", "libraries", f"it needs {', '.join(elf.needed) or 'no other'}")
    others = [name for name in elf.exported if name != QUERY]
    if others:
        text = f"it exports {counted(len(others), 'symbol')} besides {QUERY}, such as {others[0]}"
        yield Finding("note", "symbols", text, "compile with -fvisibility=hidden")


def _examine_search_path(entry: str) -> Iterator[Finding]:
    if not entry or not entry.startswith(("/", "$ORIGIN", "${ORIGIN}")):
        text = f"its RPATH has the relative entry '{entry}': what is loaded depends on the current directory"
        yield Finding("problem", "security", text, "link without it, or with $ORIGIN")
    elif entry.startswith("/"):
        writable = Path(entry).is_dir() and bool(Path(entry).stat().st_mode & stat.S_IWOTH)
        text = f"its RPATH has {entry}" + (", to which anybody may write" if writable else ": it will not travel")
        yield Finding("problem" if writable else "note", "security" if writable else "libraries", text, "use $ORIGIN")


# --- try --------------------------------------------------------------------------------------------------------------


def _examine_handshake(child: Child, registers_itself: bool) -> Iterator[Finding]:
    if child.failure:
        step = child.value("step") or "starting Python"
        yield Finding("problem", "loading", f"a process that loads it {child.failure} while {step}")
        return
    error = child.value("load_error")
    if error is not None:
        missing = re.search(r"undefined symbol: (\S+)", error)
        remedy = f"link with the library that defines {missing[1]}" if missing else ""
        yield Finding("problem", "loading", error, remedy)
        return
    if child.value("missing_query") and registers_itself:
        yield Finding("note", "handshake", f"it does not export {QUERY}: its handlers register themselves")
        return
    if child.value("missing_query"):
        remedy = 'declare it with MYDEV_EXPORT, in C++ also with extern "C"'
        yield Finding("problem", "handshake", f"it does not export {QUERY}", remedy)
        return
    if child.value("refused_version"):
        text = f"it does not work with version {child.value('refused_version')} of the ABI"
        yield Finding("problem", "handshake", text, "build it with this package's header")
        return
    table = next(found for found in child.objects if "abi" in found)
    if table["struct_size"] < table["least_size"]:
        yield _too_small("layout", "mydev_library", table)
        return
    kernels = counted(table["num_kernels"], "kernel")
    text = f"{table['name']} {table['version']}, {kernels}, built with ABI {table['abi']}"
    yield Finding("ok" if table["same_major"] else "problem", "handshake", text)
    if child.value("absurd_table"):
        yield Finding("problem", "layout", "the table of kernels is not one")
    yield from _examine_records(child)


def _examine_records(child: Child) -> Iterator[Finding]:
    names: set[str] = set()
    for found in child.objects:
        if "record" not in found:
            continue
        record = found["record"]
        subject = f"record {record['index']}"
        if record.get("null"):
            yield Finding("problem", subject, "is NULL")
            continue
        if record["struct_size"] < record["least_size"]:
            yield _too_small(subject, "mydev_kernel", record)
            continue
        name = record["name"] or ""
        if not _NAME.fullmatch(name):
            yield Finding("problem", subject, f"is named {name!r}", "use 1 to 128 of A-Z a-z 0-9 _ . : -")
        if name in names:
            yield Finding("problem", subject, f"the name {name} is there twice")
        names.add(name)
        if not 0 <= record["kind"] < _KINDS:
            yield Finding("problem", subject, f"is of kind {record['kind']}; kinds go from 0 to {_KINDS - 1}")
        elif not record["callable"]:
            pointer = "entry" if record["kind"] == 0 else "execute"
            yield Finding("problem", subject, f"{name} has no function", f"set .{pointer}")


def _too_small(subject: str, struct: str, found: Mapping[str, Any]) -> Finding:
    text = f"struct_size of its {struct} is {found['struct_size']}, the least is {found['least_size']}"
    return Finding("problem", subject, text, f"set .struct_size = sizeof({struct})")


def _examine_loading(child: Child) -> Iterator[Finding]:
    if child.failure:
        last = " ".join(child.stderr.splitlines()[-1:])
        yield Finding("problem", "registering", f"a process that registers its kernels {child.failure}: {last}")
        return
    error = child.value("error")
    if error is not None:
        yield Finding("problem", "registering", error)
        return
    for name, schema in child.value("kernels"):
        yield Finding("ok", name, schema or "no signature: called by name")
