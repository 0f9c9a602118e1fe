"""The files of the source distribution, by the list that setuptools makes: nothing is built."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from mydev.new_device import TEMPLATE
from support.checkout import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMED = re.compile(r"\b(?:benchmarks|csrc|docs|examples|tests|tools)/[\w./-]*\w")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The files, from the root of the tree."""
    metadata = tmp_path_factory.mktemp("metadata")
    command = [sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", str(metadata)]
    subprocess.run(command, cwd=ROOT, check=True)
    names = (metadata / "torch_mydev.egg-info" / "SOURCES.txt").read_text().splitlines()
    return set(map(os.path.normpath, names))


def named_in(page: Path) -> set[str]:
    """The files of this tree that the page names, to be copied, run or read."""
    return {name for name in NAMED.findall(page.read_text(encoding="utf-8")) if (ROOT / name).is_file()}


def test_files_that_the_documentation_names(files: set[str]) -> None:
    named = set().union(*map(named_in, PAGES))
    assert {"tests/drivers/broken_driver.cpp", "examples/train_digits_jax.py"} < named
    assert named <= files


def test_files_of_new_packages(files: set[str]) -> None:
    written = {str(path.relative_to(ROOT)) for path in TEMPLATE.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert len(written) > 20
    assert written <= files


def test_files_that_the_makefile_needs(files: set[str]) -> None:
    needed = {"Makefile", "CMakeLists.txt", "CHANGELOG.md", "LICENSE", ".clang-format", ".clang-tidy"}
    assert needed <= files
    assert {f"requirements/{path.name}" for path in (ROOT / "requirements").iterdir()} <= files


def test_nothing_that_was_made_of_the_sources(files: set[str]) -> None:
    assert [name for name in files if re.search(r"(^|/)build/|__pycache__|\.pyc$|\.so\b", name)] == []


def test_versions_are_the_same_everywhere() -> None:
    quoted = r'"(\d+\.\d+\.\d+)"'
    places = {
        "pyproject.toml": f"^version = {quoted}$",
        "packaging/mydev/pyproject.toml": f"^version = {quoted}$",
        "mydev/version.py": f"^__version__ = {quoted}$",
        "torch_mydev/_version.py": f"^__version__ = {quoted}$",
        "CMakeLists.txt": r"^project\(mydev VERSION (\S+) ",
    }
    found = {place: re.findall(pattern, (ROOT / place).read_text(), re.MULTILINE) for place, pattern in places.items()}
    assert len({tuple(versions) for versions in found.values()}) == 1, found
    assert all(len(versions) == 1 for versions in found.values()), found


@pytest.mark.slow
def test_source_distribution_of_mydev_is_the_tree_under_its_own_name(tmp_path: Path, files: set[str]) -> None:
    project = ROOT / "packaging" / "mydev"
    command = [sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", str(tmp_path)]
    subprocess.run(command, cwd=project, check=True)
    (archive,) = tmp_path.glob("mydev-*.tar.gz")
    with tarfile.open(archive) as content:
        names = {name.partition("/")[2] for name in content.getnames()}
        folder = archive.name.removesuffix(".tar.gz")
        text = content.extractfile(f"{folder}/pyproject.toml")
        assert text is not None and text.read() == (project / "pyproject.toml").read_bytes()
    assert {name for name in files if "torch_mydev.egg-info" not in name} <= names
