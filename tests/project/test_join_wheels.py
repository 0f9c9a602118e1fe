"""Wheels that were built with several versions of torch become one."""

from __future__ import annotations

import runpy
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.checkout import ROOT

TOOL = runpy.run_path(str(ROOT / "tools" / "join_wheels.py"))
join: Callable[[list[Path], Path], Path] = TOOL["join"]
CannotJoin: type[Exception] = TOOL["CannotJoin"]

NAME = "torch_mydev-0.1.0-cp311-cp311-linux_x86_64.whl"
INFO = "torch_mydev-0.1.0.dist-info"
pytestmark = pytest.mark.any_driver


def wheel(directory: Path, minor: str, name: str = NAME, **changes: str) -> Path:
    """Makes a small wheel like one from a build with that torch."""
    files = {
        "torch_mydev/__init__.py": "",
        "torch_mydev/py.typed": f"of the build with {minor}",
        f"torch_mydev/lib/torch-{minor}/libtorch_mydev.so": f"bound to {minor}",
        f"{INFO}/METADATA": f"Name: torch_mydev\nRequires-Dist: torch=={minor}.*\nRequires-Dist: rich>=13\n\nText.\n",
        f"{INFO}/RECORD": "",
        **changes,
    }
    directory.mkdir(exist_ok=True)
    path = directory / name
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return path


def wheels(directory: Path, *minors: str) -> list[Path]:
    return [wheel(directory / minor, minor) for minor in minors]


def contents(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_each_torch_has_its_part_and_the_rest_is_there_once(tmp_path: Path) -> None:
    content = contents(join(wheels(tmp_path, "2.13", "2.14"), tmp_path / "out"))
    assert content["torch_mydev/lib/torch-2.13/libtorch_mydev.so"] == "bound to 2.13"
    assert content["torch_mydev/lib/torch-2.14/libtorch_mydev.so"] == "bound to 2.14"
    assert content["torch_mydev/py.typed"] == "of the build with 2.13"


@pytest.mark.parametrize(
    ("minors", "requirement"),
    [
        (["2.13"], "torch>=2.13,<2.14"),
        (["2.13", "2.14"], "torch>=2.13,<2.15"),
        (["2.15", "2.13"], "torch>=2.13,<2.16,!=2.14.*"),
    ],
)
def test_requirement_is_of_the_versions_that_are_there(tmp_path: Path, minors: list[str], requirement: str) -> None:
    metadata = contents(join(wheels(tmp_path, *minors), tmp_path / "out"))[f"{INFO}/METADATA"]
    assert metadata == f"Name: torch_mydev\nRequires-Dist: {requirement}\nRequires-Dist: rich>=13\n\nText.\n"


def test_record_names_every_file_with_its_digest(tmp_path: Path) -> None:
    content = contents(join(wheels(tmp_path, "2.13", "2.14"), tmp_path / "out"))
    rows = [line.split(",") for line in content[f"{INFO}/RECORD"].splitlines()]
    assert {row[0] for row in rows} == content.keys()
    empty = "sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"  # of no bytes
    assert ["torch_mydev/__init__.py", empty, "0"] in rows
    assert rows[-1] == [f"{INFO}/RECORD", "", ""]


def another_python(directory: Path) -> list[Path]:
    return [wheel(directory / "a", "2.13"), wheel(directory / "b", "2.14", NAME.replace("cp311", "cp312"))]


def another_source(directory: Path) -> list[Path]:
    return [wheel(directory / "a", "2.13"), wheel(directory / "b", "2.14", **{"torch_mydev/__init__.py": "x = 1"})]


def one_torch_twice(directory: Path) -> list[Path]:
    return [wheel(directory / "a", "2.13"), wheel(directory / "b", "2.13")]


def not_a_wheel(directory: Path) -> list[Path]:
    path = directory / NAME
    path.write_text("not an archive")
    return [path]


def without_a_part(directory: Path) -> list[Path]:
    path = directory / NAME
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("torch_mydev/__init__.py", "")
    return [path]


@pytest.mark.parametrize(
    ("make", "explanation"),
    [
        (another_python, "different names"),
        (another_source, "they differ in torch_mydev/__init__.py"),
        (one_torch_twice, "both have torch_mydev/lib/torch-2.13/libtorch_mydev.so"),
        (not_a_wheel, "cannot be read"),
        (without_a_part, "has no torch_mydev/lib/torch-<minor>"),
    ],
)
def test_wheels_that_do_not_belong_together(
    tmp_path: Path, make: Callable[[Path], list[Path]], explanation: str
) -> None:
    with pytest.raises(CannotJoin, match=explanation):
        join(make(tmp_path), tmp_path / "out")
    assert not (tmp_path / "out" / NAME).exists()


def test_a_wheel_is_not_overwritten(tmp_path: Path) -> None:
    of_one: Any = wheel(tmp_path, "2.13")
    before = of_one.read_bytes()
    with pytest.raises(CannotJoin, match="choose another --output"):
        join([of_one], tmp_path)
    assert of_one.read_bytes() == before
