"""``mydev kernels`` and ``mydev include``: each action on sound kernels, on broken libraries and on wrong words."""

from __future__ import annotations

import importlib.util
import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import torch_mydev
from support.checkout import ROOT, environment
from torch_mydev.cli import main
from torch_mydev.cli.kernels import actions, elf_file, new_library
from torch_mydev.cli.kernels.operands import parse_attribute

BUILD_EXAMPLE = ROOT / "examples" / "custom_calls" / "build_library.py"

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs an action in this process: exit code, output, errors."""

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            code = actions.run(arguments)
        except SystemExit as exit_:
            code = int(str(exit_.code))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture(scope="module")
def library() -> str:
    """The example's library, loaded."""
    spec = importlib.util.spec_from_file_location("build_custom_calls", BUILD_EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path = str(module.build())
    torch_mydev.load_custom_calls(path)
    return path


# --- list, info -------------------------------------------------------------------------------------------------------


def test_list_shows_kernels_of_libraries(cli: Cli, library: str) -> None:
    code, out, _ = cli("list")
    assert code == 0
    assert "example.rms_norm_rope" in out
    assert "original_device" in out
    assert "\nmydev.add" not in out
    assert "built-in kernels not shown" in out


def test_list_with_a_pattern_and_built_in_kernels(cli: Cli, library: str) -> None:
    code, out, _ = cli("list", "softmax", "--all")
    assert code == 0
    assert "mydev.softmax" in out
    assert "example." not in out


def test_list_as_json_is_what_the_records_say(cli: Cli, library: str) -> None:
    code, out, _ = cli("list", "example.", "--json")
    assert code == 0
    rows = {row["name"]: row for row in json.loads(out) if row["file"] == library}
    assert len(rows) == 12
    assert rows["example.status_sqrt"]["kind"] == "status_host"
    assert "example.softcap" in rows


def test_info_shows_signature_gradient_and_schema(cli: Cli, library: str) -> None:
    code, out, _ = cli("info", "example.rms_norm_rope")
    assert code == 0
    assert "example_rms_norm_rope(Tensor x, Tensor weight, Tensor rotation, *, float eps=1e-06) -> Tensor" in out
    assert "(...,t,d),(d),(t,d)->(...,t,d)" in out
    assert "example.rms_norm_rope_grad" in out
    assert "cosines, then sines" in out


def test_info_as_json(cli: Cli, library: str) -> None:
    code, out, _ = cli("info", "example.csr_matmul", "--json")
    assert code == 0
    assert json.loads(out)["gradient"]["wrt"] == [2, 3]


def test_info_of_no_kernel_is_a_problem_that_names_near_ones(cli: Cli, library: str) -> None:
    code, _, err = cli("info", "example.softcab")
    assert code == 1
    assert "example.softcap" in err


# --- call, bench, opcheck ---------------------------------------------------------------------------------------------


def test_call_of_an_operator(cli: Cli, library: str) -> None:
    code, out, _ = cli("call", "example.softcap", "f32[2,2]=0,1,-1,1000", "cap=2.0", "--json")
    assert code == 0
    (result,) = json.loads(out)
    assert result["type"] == "f32[2,2]"
    np.testing.assert_allclose(result["values"], 2 * np.tanh(np.array([[0, 1], [-1, 1000]]) / 2), rtol=1e-6)


def test_call_takes_options_anywhere(cli: Cli, library: str) -> None:
    words = ("example.softcap", "--load", library, "f32[1]=0", "--seed", "1", "cap=2.0")
    code, out, _ = cli("call", *words, "--json")
    assert code == 0
    assert json.loads(out) == [{"type": "f32[1]", "values": [0.0]}]


def test_call_loads_arrays_and_prints_for_people(cli: Cli, library: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 3), dtype=np.float64))
    code, out, _ = cli("call", "example.softcap", str(tmp_path / "x.npy"))
    assert code == 0
    assert out.startswith("f64[2,3]\n[[0., 0., 0.]")


def test_call_of_a_kernel_without_a_signature(cli: Cli, library: str) -> None:
    opaque = "opaque=hex:" + struct.pack("@qf0q", 3, 2.0).hex()
    operands = ("f32[3]=1,2,3", "f32[3]=10,20,30")
    code, out, _ = cli("call", "example.original_axpy_device", *operands, opaque, "--result", "f32[3]", "--json")
    assert code == 0
    assert json.loads(out)[0]["values"] == [12, 24, 36]


def test_call_of_several_results_with_text_for_opaque(cli: Cli, library: str) -> None:
    code, out, _ = cli("call", "example.unified_polynomial", "s64[]=2", "f32[2]=1,2", "opaque='0 0 1'", "--json")
    assert code == 0
    assert [result["values"] for result in json.loads(out)] == [[1, 4], [2, 4]]


def test_call_repeats_its_random_numbers(cli: Cli, library: str) -> None:
    first, again = (cli("call", "example.softcap", "f32[4]=random") for _ in range(2))
    other = cli("call", "example.softcap", "f32[4]=random", "--seed", "1")
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("f33[2]=1,2",), "there is no dtype f33"),
        (("f32[2]=1,2,3",), "are 3 numbers for the 2 of shape"),
        (("f32[2]=one,two",), "'one' is no number"),
        (("nothing.npy",), "No such file"),
        (("what",), "neither an operand nor an attribute"),
        (("f32[2]=1,2", "opaque=hex:0"), "attribute value"),
    ],
    ids=["dtype", "count", "number", "file", "word", "hex"],
)
def test_call_with_words_that_make_no_sense(cli: Cli, library: str, arguments: tuple[str, ...], message: str) -> None:
    code, _, err = cli("call", "example.softcap", *arguments)
    assert code == 2
    assert message in err


def test_call_without_the_results_that_it_needs(cli: Cli, library: str) -> None:
    code, _, err = cli("call", "example.original_axpy_device", "f32[1]=1")
    assert code == 2
    assert "--result" in err


def test_call_that_the_kernel_refuses(cli: Cli, library: str) -> None:
    code, _, err = cli("call", "example.softcap", "s64[2]=1,2")
    assert code == 1
    assert "example.softcap" in err


def test_bench_prints_a_time(cli: Cli, library: str) -> None:
    code, out, _ = cli("bench", "example.softcap", "f32[64]=random", "--rounds", "2", "--json")
    assert code == 0
    timing = json.loads(out)
    assert 0 < timing["fastest"] <= timing["median"]
    assert timing["bytes"] == 2 * 64 * 4


def test_opcheck_makes_its_own_operands(cli: Cli, library: str) -> None:
    code, out, _ = cli("opcheck", "example.rms_norm_rope", "--json")
    findings = {finding["subject"]: finding for finding in json.loads(out)}
    assert code == 0, findings
    assert findings["gradcheck"]["state"] == "ok"
    assert findings["test_autograd_registration"]["state"] == "ok"


def test_opcheck_of_a_kernel_that_is_no_operator(cli: Cli, library: str) -> None:
    code, _, err = cli("opcheck", "example.status_sqrt_device")
    assert code == 2
    assert "no operator" in err


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("-1.5", -1.5), ("1e-3", 1e-3), ("true", True), ("[1, 2]", [1, 2]), ("'5'", "5"), ("add", "add")],
)
def test_attribute_values(text: str, value: object) -> None:
    parsed = parse_attribute(text)
    assert parsed == value
    assert type(parsed) is type(value)


# --- check ------------------------------------------------------------------------------------------------------------

RECORD = """
#include "mydev/custom_call.h"
static mydev_code entry(const mydev_frame* frame) { (void)frame; return MYDEV_OK; }
static const mydev_kernel record = {.struct_size = sizeof(mydev_kernel), .name = NAME, .entry = entry};
static const mydev_kernel* const kernels[] = {&record};
static const mydev_library library = {.struct_size = sizeof(mydev_library), .version_major = MAJOR, .name = "broken",
                                      .version = "1", .kernels = kernels, .num_kernels = COUNT};
MYDEV_EXPORT const mydev_library* QUERY(uint32_t major, uint32_t minor) { (void)major, (void)minor; return RESULT; }
"""
DEFINITIONS = {
    "NAME": '"cli.kernel"',
    "MAJOR": "1",
    "COUNT": "1",
    "QUERY": "mydev_custom_call_query",
    "RESULT": "&library",
}


@pytest.fixture
def compile_library(tmp_path: Path) -> Callable[..., Path]:
    """Compiles a library of one record; keyword arguments replace its definitions."""

    def build(*flags: str, extra: str = "", name: str = "library.so", **definitions: str) -> Path:
        source, target = tmp_path / "library.c", tmp_path / name
        source.write_text(RECORD + extra)
        defined = [f"-D{key}={value}" for key, value in {**DEFINITIONS, **definitions}.items()]
        include = f"-I{ROOT / 'csrc' / 'include'}"
        command = [
            "cc",
            "-shared",
            "-fPIC",
            "-fvisibility=hidden",
            include,
            *defined,
            "-o",
            str(target),
            str(source),
            *flags,
        ]
        subprocess.run(command, check=True)
        return target

    return build


def problems(cli: Cli, path: Path) -> dict[str, str]:
    """What `check` finds wrong, by subject."""
    code, out, _ = cli("check", str(path), "--json")
    found = {finding["subject"]: finding["text"] for finding in json.loads(out) if finding["state"] == "problem"}
    assert code == int(bool(found))
    return found


def test_check_of_a_sound_library(cli: Cli, library: str) -> None:
    code, out, _ = cli("check", library)
    assert code == 0
    assert "example kernels 1.0, 12 kernels" in out
    assert "example_softcap(Tensor x" in out


@pytest.mark.parametrize(
    ("changes", "subject", "message"),
    [
        ({"NAME": '"a b"'}, "record 0", "'a b'"),
        ({"MAJOR": "9"}, "handshake", "ABI 9.0"),
        ({"COUNT": "4000000000u"}, "layout", "the table of kernels is not one"),
        ({"QUERY": "another_query"}, "handshake", "does not export mydev_custom_call_query"),
        ({"RESULT": "NULL"}, "handshake", "does not work with version 1.0"),
    ],
    ids=["name", "version", "count", "query", "refusal"],
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
            "came to no end within 5 seconds while loading it",
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


# --- why --------------------------------------------------------------------------------------------------------------


def why(name: str, **variables: str) -> tuple[int, dict[str, str]]:
    """In a process of its own, since what is found is found once."""
    result = subprocess.run(
        [sys.executable, "-m", "torch_mydev", "kernels", "why", name, "--json"],
        env={**environment(), **variables},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout, result.stderr
    return result.returncode, {finding["subject"]: finding["text"] for finding in json.loads(result.stdout)}


def test_why_a_kernel_is_there(compile_library: Callable[..., Path]) -> None:
    path = compile_library()
    code, found = why("cli.kernel", MYDEV_CUSTOM_CALLS=str(path))
    assert code == 0
    assert str(path) in found["cli.kernel"]


def test_why_a_kernel_is_not_there(compile_library: Callable[..., Path]) -> None:
    code, found = why("cli.colonel", MYDEV_CUSTOM_CALLS=str(compile_library()))
    assert code == 1
    assert found["cli.colonel"] == "is not registered"


def test_why_names_the_file_that_is_shadowed(compile_library: Callable[..., Path]) -> None:
    first, second = compile_library(name="first.so"), compile_library(name="second.so")
    code, found = why("cli.kernel", MYDEV_CUSTOM_CALLS=f"{first}:{second}")
    assert code == 1
    assert str(first) in found["cli.kernel"]
    assert str(second) in found["shadowed"]


def test_why_tells_what_was_refused(compile_library: Callable[..., Path]) -> None:
    path = compile_library()
    path.chmod(0o777)
    code, found = why("cli.kernel", MYDEV_CUSTOM_CALLS=str(path))
    assert code == 1
    assert "world-writable" in found["refused"]


# --- new --------------------------------------------------------------------------------------------------------------


def test_new_refuses_a_directory_with_something_in_it(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    code, _, err = cli("new", "frame", str(tmp_path), "--name", "mine")
    assert code == 1
    assert "is not empty" in err


def test_new_refuses_a_name_that_is_no_identifier(cli: Cli, tmp_path: Path) -> None:
    code, _, err = cli("new", "frame", str(tmp_path / "3d"))
    assert code == 1
    assert "--name" in err


def test_new_makes_a_name_of_the_directorys(cli: Cli, tmp_path: Path) -> None:
    assert cli("new", "frame", str(tmp_path / "typed-ffi.v2"))[0] == 0
    assert "project(typed_ffi_v2 " in (tmp_path / "typed-ffi.v2" / "CMakeLists.txt").read_text()


def test_new_with_no_such_template(cli: Cli, tmp_path: Path) -> None:
    code, _, err = cli("new", "nothing", str(tmp_path))
    assert code == 2
    assert "frame" in err


@pytest.mark.parametrize("template", new_library.TEMPLATES)
def test_new_project_builds_and_passes_its_test(cli: Cli, tmp_path: Path, template: str) -> None:
    if template == "typed-ffi" and importlib.util.find_spec("jaxlib") is None:
        pytest.skip("needs XLA's headers, which jaxlib brings")
    directory, build = tmp_path / "project", tmp_path / "build"
    code, out, _ = cli("new", template, str(directory), "--name", "fresh", "--json")
    assert code == 0
    assert str(directory / "CMakeLists.txt") in json.loads(out)
    cmake = [sys.executable, "-m", "cmake"]
    options = [f"-DPython_EXECUTABLE={sys.executable}", f"-DMYDEV_INCLUDE_DIR={torch_mydev.include_dir()}"]
    for command in (
        [*cmake, "-S", str(directory), "-B", str(build), *options],
        [*cmake, "--build", str(build)],
        [*cmake, "--build", str(build), "--target", "test"],
    ):
        result = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
        log = build / "Testing" / "Temporary" / "LastTest.log"
        assert result.returncode == 0, result.stdout + result.stderr + (log.read_text() if log.exists() else "")


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nothing",),
        ("info",),
        ("list", "--nothing"),
        ("info", "x", "y"),
        ("check", "x.so", "--timeout", "0"),
        ("bench", "x", "--rounds", "0"),
    ],
    ids=str,
)
def test_words_that_are_no_command(cli: Cli, arguments: tuple[str, ...]) -> None:
    assert cli(*arguments)[0] == 2


def test_include_prints_where_the_headers_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["include"]) == 0
    directory = Path(capsys.readouterr().out.strip())
    assert (directory / "mydev" / "custom_call.h").exists()
    assert str(directory) == torch_mydev.include_dir()


def test_json_of_findings_has_one_form(cli: Cli, tmp_path: Path) -> None:
    _, out, _ = cli("check", str(tmp_path / "nothing.so"), "--json")
    rows: list[dict[str, Any]] = json.loads(out)
    assert set(rows[0]) == {"state", "subject", "text", "remedy"}
