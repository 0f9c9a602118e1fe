"""``mydev kernels check``: sound libraries, broken ones, and files that are none; reading ELF files."""

from __future__ import annotations

import ctypes
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mydev.cli.kernels import _probe, elf_file
from support.checkout import ROOT

pytestmark = pytest.mark.any_driver

Cli = Callable[..., tuple[int, str, str]]


def problems(cli: Cli, path: Path) -> dict[str, str]:
    """Returns the problems that `check` finds, by subject."""
    code, out, _ = cli("check", str(path), "--json")
    found = {finding["subject"]: finding["text"] for finding in json.loads(out) if finding["state"] == "problem"}
    assert code == int(bool(found))
    return found


def test_check_of_a_sound_library(cli: Cli, library: str) -> None:
    code, out, _ = cli("check", library)
    assert code == 0
    assert "example kernels 1.0, 11 kernels" in out
    assert "example_softcap(Tensor x" in out


def test_check_of_a_new_project_finds_nothing(cli: Cli, tmp_path: Path) -> None:
    assert cli("new", "frame", str(tmp_path), "--name", "fresh")[0] == 0
    sources = [str(tmp_path / name) for name in ("library.c", "kernel.c")]
    path = tmp_path / "fresh.so"
    flags = ["-shared", "-fPIC", "-fvisibility=hidden", "-I", str(ROOT / "csrc" / "include")]
    subprocess.run(["cc", *flags, "-o", str(path), *sources], check=True)
    code, out, _ = cli("check", str(path), "--json")
    findings = {finding["subject"]: finding for finding in json.loads(out)}
    assert {finding["state"] for finding in findings.values()} == {"ok"}, findings
    assert findings["handshake"]["text"] == "fresh 0.1, 1 kernel, built with ABI 1.2"
    assert code == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"SIZE": "offsetof(mydev_kernel, driver_data) + sizeof(void*)"},
        {"SIZE": "offsetof(mydev_kernel, limits)"},
        {"RESULT": "(minor == MYDEV_CUSTOM_CALL_VERSION_MINOR ? &library : NULL)"},
        {"SIZE": "sizeof(mydev_kernel) + 64", "TABLE_SIZE": "sizeof(mydev_library) + 64"},
    ],
    ids=["least", "1.0", "this version", "newer"],
)
def test_check_of_a_library_of_any_minor_version_finds_nothing(
    cli: Cli, compile_library: Callable[..., Path], changes: dict[str, str]
) -> None:
    code, out, _ = cli("check", str(compile_library(**changes)), "--json")
    findings = json.loads(out)
    assert {finding["state"] for finding in findings} == {"ok"}, findings
    assert code == 0


def test_check_of_a_record_that_only_a_driver_can_run(cli: Cli, compile_library: Callable[..., Path]) -> None:
    assert not problems(cli, compile_library(CODE="driver_data"))


def test_structs_are_read_as_the_header_lays_them_out() -> None:
    structs = {"mydev_library": _probe.Library, "mydev_kernel": _probe.Kernel}
    version = zip(("MAJOR", "MINOR"), _probe.VERSION, strict=True)
    facts = [f"MYDEV_CUSTOM_CALL_VERSION_{part} == {number}" for part, number in version]
    for name, struct in structs.items():
        for field, kind in struct._fields_:
            facts.append(f"offsetof({name}, {field}) == {getattr(struct, field).offset}")
            facts.append(f"sizeof((({name}*)0)->{field}) == {ctypes.sizeof(kind)}")
    source = '#include "mydev/custom_call.h"\n' + "".join(f'_Static_assert({fact}, "{fact}");\n' for fact in facts)
    command = ["cc", "-fsyntax-only", "-I", str(ROOT / "csrc" / "include"), "-x", "c", "-"]
    result = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("changes", "subject", "message"),
    [
        ({"NAME": '"a b"'}, "record 0", "'a b'"),
        ({"MAJOR": "9"}, "handshake", "ABI 9.0"),
        ({"COUNT": "4000000000u"}, "layout", "the table of kernels is not one"),
        ({"QUERY": "another_query"}, "handshake", "does not export mydev_custom_call_query"),
        ({"RESULT": "NULL"}, "handshake", "does not work with version 1.2"),
        ({"SIZE": "40"}, "record 0", "struct_size of its mydev_kernel is 40, the least is 48"),
        ({"TABLE_SIZE": "16"}, "layout", "struct_size of its mydev_library is 16, the least is 44"),
    ],
    ids=["name", "version", "count", "query", "refusal", "record's size", "table's size"],
)
def test_check_of_a_bad_table(
    cli: Cli, compile_library: Callable[..., Path], changes: dict[str, str], subject: str, message: str
) -> None:
    assert message in problems(cli, compile_library(**changes))[subject]


@pytest.mark.parametrize(
    ("extra", "step"),
    [
        ("__attribute__((constructor)) static void crash(void) { *(volatile int*)0 = 1; }", "loading it"),
        ("", "asking it for its table"),
    ],
    ids=["constructor", "query"],
)
def test_check_survives_a_crash_and_says_where(
    cli: Cli, compile_library: Callable[..., Path], extra: str, step: str
) -> None:
    result = "&library" if extra else "(*(volatile int*)0 = 1, &library)"
    found = problems(cli, compile_library(extra=extra, RESULT=result))
    assert "SIGSEGV" in found["loading"]
    assert step in found["loading"]


CONSTRUCTOR = "__attribute__((constructor)) static void construct(void)"


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (
            f"#include <unistd.h>\n{CONSTRUCTOR} {{ for (;;) pause(); }}",
            "came to no end within 5 seconds (--timeout gives it more) while loading it",
        ),
        (f"#include <stdlib.h>\n{CONSTRUCTOR} {{ _Exit(0); }}", "ended with exit code 0 while loading it"),
        (f"#include <stdlib.h>\n{CONSTRUCTOR} {{ _Exit(3); }}", "ended with exit code 3 while loading it"),
    ],
    ids=["waits", "exits", "fails"],
)
def test_check_of_a_library_that_never_returns(
    cli: Cli, compile_library: Callable[..., Path], extra: str, message: str
) -> None:
    code, out, _ = cli("check", str(compile_library(extra=extra)), "--timeout", "5", "--json")
    found = {finding["subject"]: finding["text"] for finding in json.loads(out)}
    assert code == 1
    assert message in found["loading"]


def test_check_of_a_library_that_prints(cli: Cli, compile_library: Callable[..., Path]) -> None:
    extra = f'#include <stdio.h>\n{CONSTRUCTOR} {{ puts("{{not json"); puts("[1]"); puts("{{\\"done\\": 1}}"); }}'
    assert not problems(cli, compile_library(extra=extra))


def test_check_survives_a_crash_while_registering(cli: Cli, compile_library: Callable[..., Path]) -> None:
    extra = """
static void* handler(void* frame) { (void)frame; *(volatile int*)0 = 1; return 0; }
static const mydev_kernel typed = {.struct_size = sizeof(mydev_kernel), .name = "cli.typed",
                                   .kind = MYDEV_KIND_TYPED_FFI, .execute = (mydev_function)handler};
static const mydev_kernel* const typed_kernels[] = {&typed};
static const mydev_library typed_library = {.struct_size = sizeof(mydev_library), .version_major = 1, .name = "typed",
                                            .version = "1", .kernels = typed_kernels, .num_kernels = 1};
MYDEV_EXPORT const mydev_library* mydev_custom_call_query(uint32_t major, uint32_t minor) {
  (void)major, (void)minor;
  return &typed_library;
}
"""
    found = problems(cli, compile_library(extra=extra, QUERY="unused_query"))
    assert "ended with SIGSEGV" in found["registering"]


def test_check_names_a_missing_symbol(cli: Cli, compile_library: Callable[..., Path]) -> None:
    extra = "extern int nowhere_defined(void); MYDEV_EXPORT int call(void) { return nowhere_defined(); }"
    assert "nowhere_defined" in problems(cli, compile_library(extra=extra))["loading"]


@pytest.mark.parametrize(
    ("flag", "message"),
    [("-Wl,-z,execstack", "executable stack"), ("-Wl,-rpath,lib", "relative entry 'lib'")],
    ids=["stack", "rpath"],
)
def test_check_of_what_is_not_secure(cli: Cli, compile_library: Callable[..., Path], flag: str, message: str) -> None:
    assert message in problems(cli, compile_library(flag))["security"]


def test_check_of_a_file_that_anybody_may_write(cli: Cli, compile_library: Callable[..., Path]) -> None:
    path = compile_library()
    path.chmod(0o777)
    assert "anybody may write" in problems(cli, path)["security"]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "is no ELF file"), (b"#!/bin/sh\n", "is no ELF file"), (b"\x7fELF\x02\x01" + bytes(10), "truncated")],
    ids=["empty", "text", "header only"],
)
def test_check_of_a_file_that_is_no_library(cli: Cli, tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "library.so"
    path.write_bytes(content)
    assert message in problems(cli, path)["file"]


@pytest.mark.parametrize("part", [0.01, 0.3, 0.6, 0.9])
def test_check_of_a_truncated_library(cli: Cli, compile_library: Callable[..., Path], part: float) -> None:
    path = compile_library()
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * part)])
    assert problems(cli, path)


@pytest.mark.parametrize("path", ["/dev/zero", "/tmp"])
def test_check_of_what_is_no_regular_file(cli: Cli, path: str) -> None:
    assert "is no regular file" in problems(cli, Path(path))["file"]


def test_check_of_no_file(cli: Cli, tmp_path: Path) -> None:
    assert "No such file" in problems(cli, tmp_path / "nothing.so")["file"]


def test_elf_file_is_read_without_loading_it(compile_library: Callable[..., Path]) -> None:
    extra = 'int puts(const char*); MYDEV_EXPORT int call(void) { return puts(""); }'
    elf = elf_file.read_elf(compile_library("-Wl,-rpath,$ORIGIN/deps:/opt", extra=extra))
    assert {"mydev_custom_call_query", "call"} <= set(elf.exported)
    assert "puts" in elf.undefined
    assert elf.search_paths == ["$ORIGIN/deps", "/opt"]
    assert any(name.startswith("libc.") for name in elf.needed)
    assert not elf.executable_stack
