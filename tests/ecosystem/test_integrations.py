"""Integrations: libraries learn of the device once imported, if their version is known and they are not left out."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from torch_mydev.integrations.integration import Integration, UnfamiliarError

pytestmark = pytest.mark.any_driver
_names = (f"some_library_{number}" for number in itertools.count())


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Installs a library of that version and gives its name, another one each time."""

    def install(version: str) -> str:
        name = next(_names)
        (tmp_path / f"{name}.py").write_text("value = 1\n")
        metadata = tmp_path / f"{name}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        monkeypatch.syspath_prepend(tmp_path)
        return name

    return install


def integration(name: str, action: Callable[[Any], None]) -> Integration:
    return Integration(name, name, since=(1, 4), before=(2, 0), actions={name: action})


def double(module: ModuleType) -> None:
    module.value *= 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", ["1.4.0", "1.10", "1.99.3rc1"])
def test_known_versions_are_told_when_they_are_imported(library: Callable[[str], str], version: str) -> None:
    name = library(version)
    integration(name, double).apply()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert importlib.import_module(name).value == 2


def test_what_is_imported_already_is_told_at_once(library: Callable[[str], str]) -> None:
    name = library("1.4")
    module = importlib.import_module(name)
    integration(name, double).apply()
    assert module.value == 2


def test_a_library_that_others_look_for_first_is_told_when_it_is_imported(library: Callable[[str], str]) -> None:
    name = library("1.4")
    integration(name, double).apply()
    assert importlib.util.find_spec(name) is not None
    assert importlib.util.find_spec(name) is not None
    assert importlib.import_module(name).value == 2


def test_a_library_whose_import_fails_is_told_when_it_succeeds(library: Callable[[str], str], tmp_path: Path) -> None:
    name = library("1.4")
    path = tmp_path / f"{name}.py"
    path.write_text("raise ImportError('a part of it is not installed')\n")
    integration(name, double).apply()
    with pytest.raises(ImportError, match="a part of it is not installed"):
        importlib.import_module(name)
    path.write_text("value = 100\n")
    importlib.invalidate_caches()
    assert importlib.import_module(name).value == 200


def test_a_library_that_another_finder_finds_is_told(
    library: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Packages that are installed in editable form are found in this way."""
    name = library("1.4")
    (tmp_path / "elsewhere").mkdir()
    path = (tmp_path / f"{name}.py").rename(tmp_path / "elsewhere" / f"{name}.py")

    class Elsewhere(importlib.abc.MetaPathFinder):
        def find_spec(
            self, fullname: str, path_of_package: object, target: object = None
        ) -> importlib.machinery.ModuleSpec | None:
            return importlib.util.spec_from_file_location(name, path) if fullname == name else None

    monkeypatch.setattr("sys.meta_path", [*sys.meta_path, Elsewhere()])
    integration(name, double).apply()
    assert importlib.import_module(name).value == 2


@pytest.mark.parametrize("version", ["1.3.9", "2.0.0", "nightly"])
def test_other_versions_are_left_alone_with_a_warning(library: Callable[[str], str], version: str) -> None:
    name = library(version)
    integration(name, double).apply()
    with pytest.warns(UserWarning, match=f"mydev leaves {name} alone: {name} {version} is not one of .* 1.4 up to 2.0"):
        assert importlib.import_module(name).value == 1


@pytest.mark.parametrize("error", [UnfamiliarError("no list of devices"), AttributeError("no list of devices")])
def test_modules_that_changed_are_left_alone_with_a_warning(library: Callable[[str], str], error: Exception) -> None:
    def action(module: ModuleType) -> None:
        raise error

    name = library("1.4")
    integration(name, action).apply()
    with pytest.warns(UserWarning, match="is not as it was: .*: no list of devices"):
        importlib.import_module(name)


@pytest.mark.parametrize(
    ("value", "told"),
    [("all", True), ("", True), ("off", False), ("accelerate", False), ("accelerate,safetensors", True)],
)
def test_variable_chooses_libraries(
    run_python: Callable[..., subprocess.CompletedProcess[str]], value: str, told: bool
) -> None:
    code = "import torch, safetensors\nprint(isinstance(safetensors.safe_open, type))"
    result = run_python(code, fresh=True, MYDEV_INTEGRATIONS=value)
    assert result.stdout == f"{not told}\n", result.stderr
