"""``mydev kernels`` and ``mydev include``: each action on sound kernels, on broken libraries and on wrong words."""

from __future__ import annotations

import importlib.util
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mydev
from cmake import CMAKE_BIN_DIR
from mydev.cli import main
from mydev.cli.kernels import new_library
from support.checkout import ROOT, environment
from torch_mydev.cli.kernels.operands import parse_attribute

pytestmark = pytest.mark.any_driver

Cli = Callable[..., tuple[int, str, str]]


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
    assert len(rows) == 11
    assert rows["example.status_sqrt"]["kind"] == "status_host"
    assert "example.softcap" in rows


def test_info_shows_signature_gradient_and_schema(cli: Cli, library: str) -> None:
    code, out, _ = cli("info", "example.rms_norm_rope")
    assert code == 0
    assert "example_rms_norm_rope(Tensor x, Tensor weight, Tensor rotation, *, float eps=1e-06) -> Tensor" in out
    assert "(...,t,d),(d),(t,d)->(...,t,d)" in out
    assert "example.rms_norm_rope_grad" in out
    assert "rotation T[t,d]; eps: float = 1e-6" in out


def test_info_has_no_blanks_at_its_edges(cli: Cli, library: str) -> None:
    _, out, _ = cli("info", "example.rms_norm_rope")
    assert out.startswith("kernel")
    assert [line for line in out.splitlines() if line != line.rstrip()] == []


def test_info_as_json(cli: Cli, library: str) -> None:
    code, out, _ = cli("info", "example.csr_matmul", "--json")
    assert code == 0
    assert json.loads(out)["gradient"]["wrt"] == [2, 3]


def test_info_of_a_built_in_kernel_shows_its_contract(cli: Cli) -> None:
    code, out, _ = cli("info", "mydev.add")
    assert code == 0
    assert "(out T) <- (a T|number, b T|number; alpha: number = 1) where out may be a or b" in out
    assert "T: pred ints floats complex" in out
    assert "a + alpha * b" in out


def test_info_of_a_built_in_kernel_as_json(cli: Cli) -> None:
    code, out, _ = cli("info", "mydev.matmul", "--json")
    assert code == 0
    contract = json.loads(out)["contract"]
    assert contract["group"] == "matmul"
    assert contract["types"].startswith("T: f16 bf16 f32 | ints f64")
    assert {"f16", "f32", "bf16", "f64", "s8"} <= set(contract["dtypes"]["T"])


def test_info_of_a_kernel_shows_the_contract_that_its_signature_is(cli: Cli, library: str) -> None:
    code, out, _ = cli("info", "example.softcap")
    assert code == 0
    assert "dense (out T) <- (x T; cap: float = 30)" in out
    assert "of the expression" in out


def test_info_of_a_kernel_whose_signature_is_tables_has_no_contract(cli: Cli, library: str) -> None:
    code, out, _ = cli("info", "example.unified_polynomial", "--json")
    assert code == 0
    assert json.loads(out)["contract"] is None


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


# --- why --------------------------------------------------------------------------------------------------------------


def why(name: str, **variables: str) -> tuple[int, dict[str, str]]:
    """In a process of its own, since what is found is found once."""
    result = subprocess.run(
        [sys.executable, "-m", "mydev", "kernels", "why", name, "--json"],
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


@pytest.mark.slow
@pytest.mark.parametrize("template", new_library.TEMPLATES)
def test_new_project_is_built_and_tested_by_the_printed_command(cli: Cli, tmp_path: Path, template: str) -> None:
    if template == "typed-ffi" and importlib.util.find_spec("jaxlib") is None:
        pytest.skip("needs XLA's headers, which jaxlib brings")
    directory = tmp_path / "a project"
    code, out, _ = cli("new", template, str(directory), "--name", "fresh")
    assert code == 0
    command = out.splitlines()[-1]
    variables = environment(PATH=f"{CMAKE_BIN_DIR}{os.pathsep}{os.defpath}")  # no environment of Python's is active
    variables.pop("VIRTUAL_ENV", None)
    result = subprocess.run(command, shell=True, env=variables, capture_output=True, text=True, check=False)
    log = directory / "build" / "Testing" / "Temporary" / "LastTest.log"
    assert result.returncode == 0, result.stdout + result.stderr + (log.read_text() if log.exists() else "")


def test_new_lists_its_files_as_json(cli: Cli, tmp_path: Path) -> None:
    _, out, _ = cli("new", "frame", str(tmp_path), "--name", "fresh", "--json")
    assert sorted(json.loads(out)) == sorted(map(str, tmp_path.iterdir()))


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
    names = {"custom_call.h", "driver.h", "driver_extensions.h", "driver_extensions_draft.h"}
    assert {path.name for path in (directory / "mydev").iterdir()} == {*names, "contracts.json", "language"}
    assert str(directory) == mydev.include_dir()


def test_json_of_findings_has_one_form(cli: Cli, tmp_path: Path) -> None:
    _, out, _ = cli("check", str(tmp_path / "nothing.so"), "--json")
    rows: list[dict[str, Any]] = json.loads(out)
    assert set(rows[0]) == {"state", "subject", "text", "remedy"}
