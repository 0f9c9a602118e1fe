"""The plugin's library: its layouts are those of the PJRT C API, and an independent client finds nothing wrong."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pjrt_mydev
from pjrt.clients import DRIVERS, output_of, require
from pjrt_mydev._jax_version import explain_unsupported
from pjrt_mydev._library import check_library
from support.checkout import ROOT

C_API = ROOT / "csrc" / "pjrt" / "c_api"
STRUCT = re.compile(r"typedef struct ((?:PJRT|PLUGIN)_\w+) \{(.*?)\} \1;", re.DOTALL)
HEADERS = "".join(f'#include "pjrt/c_api/{header.name}"\n' for header in sorted(C_API.glob("*.h")))
C_COMPILER = ["cc", "-std=c11", "-I", str(ROOT / "csrc")]
#: The headers have a prefix of the table of functions, as they have of structs that grew after version 0.104.
TABLE = "PJRT_Api"
#: Their header is C++, and pypjrt does not read it. JAX's transfers between processes use them (test_jax_processes.py).
WITHOUT_TABLE = ("PJRT_Transfers_", "PJRT_CrossHostTransfers_")


def declared_fields() -> dict[str, list[str]]:
    """The fields of each struct that the headers declare, but for those of nested unions."""
    command = [*C_COMPILER, "-E", "-P", "-x", "c", "-"]
    code = subprocess.run(command, input=HEADERS, capture_output=True, text=True, check=True).stdout
    structs: dict[str, list[str]] = {}
    for name, body in STRUCT.findall(code):
        fields = re.findall(r"\(\*(\w+)\)|(\w+);", re.sub(r"union \{.*?\};", "", body, flags=re.DOTALL))
        structs[name] = [a or b for a, b in fields]
    return structs


def layout_checks() -> list[str]:
    """A static assertion for each field, with what the table of pypjrt says."""
    from pypjrt._abi import pjrt_0_114 as abi

    checks = []
    for name, fields in declared_fields().items():
        if name == TABLE or name.startswith(WITHOUT_TABLE):
            continue
        struct = getattr(abi, name)
        for field in fields:
            offset, size = getattr(struct, field).offset, getattr(struct, field).size
            where = f"offsetof({name}, {field})"
            checks.append(f"_Static_assert({where} == {offset} && sizeof((({name}*)0)->{field}) == {size}, {field!r});")
    for function, slot in abi.SLOT.items():
        if slot <= abi.SLOT["PJRT_Executable_ParameterMemoryKinds"]:
            checks.append(
                f"_Static_assert(offsetof(PJRT_Api, {function}) == {abi.VTABLE_OFFSET + 8 * slot}, {function!r});"
            )
    return [check.replace("'", '"') for check in checks]


def test_layouts_are_those_of_the_interface(tmp_path: Path) -> None:
    require("pypjrt", "pypjrt")
    checks = layout_checks()
    assert len(checks) > 800
    source = tmp_path / "layouts.c"
    source.write_text("#include <stddef.h>\n" + HEADERS + "\n".join(checks) + "\n")
    result = subprocess.run([*C_COMPILER, "-fsyntax-only", str(source)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_numbers_are_those_of_the_interface() -> None:
    require("pypjrt", "pypjrt")
    from pypjrt._abi import pjrt_0_114 as abi

    code = "".join(header.read_text() for header in sorted(C_API.glob("*.h")))
    enumerations = re.findall(r"typedef enum \w+ PJRT_ENUM_TYPE \{(.*?)\}", code, re.DOTALL)
    numbers = {name: int(value) for body in enumerations for name, value in re.findall(r"(PJRT_\w+) = (\d+)", body)}
    assert len(numbers) > 60
    assert numbers == {name: getattr(abi, name) for name in numbers}


@pytest.mark.parametrize("driver", DRIVERS)
def test_an_independent_client_finds_nothing_wrong(driver: str, tmp_path: Path) -> None:
    """A plugin may lack a function, which is no failure; the functions that it has must work."""
    require("pypjrt", "pypjrt")
    report = tmp_path / "report.json"
    code = f"""
import sys
from pypjrt import conform
sys.argv = ["conform", {str(pjrt_mydev.library_path())!r}, "--json", {str(report)!r}]
conform.main()
"""
    output_of(code, driver)
    results = {check["id"]: check["result"] for check in json.loads(report.read_text())["checks"]}
    assert [check for check, result in results.items() if result == "fail"] == []
    assert results["buffer.from_host"] == "pass"
    assert len([check for check, result in results.items() if result == "pass"]) >= 53


def test_the_library_exports_what_clients_and_the_package_call() -> None:
    library = pjrt_mydev.library_path()
    if not library.exists():
        pytest.skip(f"the plugin was not built: {library} is not there")
    symbols = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True)
    assert [line.split()[-1] for line in symbols.stdout.splitlines()] == [
        "GetPjrtApi",
        "mydev_pjrt_describe_kernel",
        "mydev_pjrt_dtypes",
        "mydev_pjrt_infer_results",
        "mydev_pjrt_lend",
        "mydev_pjrt_load_kernels",
        "mydev_pjrt_program",
        "mydev_pjrt_program_text",
        "mydev_pjrt_register_target",
        "mydev_pjrt_set_callback",
        "mydev_pjrt_set_preparation",
        "mydev_pjrt_wait_for_stream",
        "mydev_pjrt_want_buffer",
    ]


def test_a_library_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"nothing\.so is not there; build it"):
        check_library(tmp_path / "nothing.so")


def test_libraries_of_another_version_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "build_info.json").write_text('{"version": "0.0.9"}')
    monkeypatch.setattr("mydev.libraries.LIBRARIES", tmp_path)
    with pytest.raises(RuntimeError, match=rf"its libraries in {tmp_path} of 0\.0\.9; build it"):
        check_library(tmp_path / "nothing.so")


def test_a_library_that_cannot_be_loaded_is_reported(tmp_path: Path) -> None:
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"no library" * 100)
    with pytest.raises(RuntimeError, match=r"broken\.so cannot be loaded: .*invalid ELF header"):
        check_library(broken)


def test_a_library_of_something_else_is_reported(tmp_path: Path) -> None:
    source, library = tmp_path / "other.c", tmp_path / "other.so"
    source.write_text("int other(void) { return 0; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    with pytest.raises(RuntimeError, match="does not export GetPjrtApi"):
        check_library(library)


@pytest.mark.parametrize("version", ["0.10.0", "0.10.2", "0.12.0.1", "1.0"])
def test_versions_of_jax_that_it_works_with(version: str) -> None:
    assert explain_unsupported(version) == ""


@pytest.mark.parametrize("version", ["0.9.1", "0.4.37", "unknown"])
def test_older_versions_of_jax_are_refused(version: str) -> None:
    assert explain_unsupported(version) == (
        f"jax {version} is installed, and the PJRT plugin works with jax 0.10 or newer; install that"
    )


def test_the_package_imports_neither_torch_nor_jax() -> None:
    code = "import sys, pjrt_mydev; print([name for name in ('torch', 'jax', 'torch_mydev') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True).stdout == "[]\n"
