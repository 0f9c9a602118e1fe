"""The doctor explains installations, working and broken ones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import pytest

from mydev.cli.finding import Finding, describe
from support.checkout import ROOT, linked_library

pytestmark = pytest.mark.any_driver


def doctor(package_parent: Path, *arguments: str, **environment: str) -> tuple[int, list[dict[str, Any]]]:
    """Exit code and findings of the doctor of the package in that directory."""
    result = subprocess.run(
        [sys.executable, "-m", "mydev", "doctor", "--json", *arguments],
        env={**os.environ, "PYTHONPATH": str(package_parent), **environment},
        cwd=package_parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout, result.stderr
    return result.returncode, json.loads(result.stdout)


def problems(findings: list[dict[str, Any]]) -> list[str]:
    return [f"{finding['subject']}: {finding['text']}" for finding in findings if finding["state"] == "problem"]


@pytest.fixture
def copied_package(tmp_path: Path) -> Path:
    """A copy of the packages, made of links, that a test may break."""
    for name in ("mydev", "torch_mydev"):
        shutil.copytree(ROOT / name, tmp_path / name, copy_function=os.symlink)
    metadata = tmp_path / "torch_mydev-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_mydev\nVersion: 0.1.0\n")
    (metadata / "entry_points.txt").write_text("[mydev.commands]\ndoctor = torch_mydev.cli.doctor:TorchPart\n")
    return tmp_path


def replace(path: Path, content: str) -> None:
    """Gives a file other content; the file that it was a link to is left alone."""
    path.unlink()
    path.write_text(content)


def torch_part(package_parent: Path) -> Path:
    (part,) = (package_parent / "torch_mydev" / "lib").glob("torch-*")
    return part


def test_working_installation_has_no_problem() -> None:
    code, findings = doctor(ROOT)
    assert problems(findings) == []
    assert code == 0
    subjects = [finding["subject"] for finding in findings]
    assert {"python", "torch", "native part", "autoload", "start", "kernels", "mydev:0", "computation"} <= set(subjects)


def test_report_is_readable_without_json() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "mydev", "doctor"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "the device works"


def test_report_is_wrapped_to_the_columns_that_there_are() -> None:
    command = [sys.executable, "-m", "mydev", "doctor"]
    variables = {**os.environ, "COLUMNS": "60"}
    result = subprocess.run(command, env=variables, cwd=ROOT, capture_output=True, text=True, check=True)
    texts = {line: line.split("  ")[-1].split() for line in result.stdout.splitlines()}
    assert [line for line, words in texts.items() if len(line) > 60 and len(words) > 1] == []


FINDINGS = [
    Finding("ok", "python", "one two three four five six"),
    Finding("problem", "file", f"/{'x' * 30} is not there", "make it before you load it"),
]


def test_findings_are_wrapped_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    first, second = describe(FINDINGS)
    assert first.splitlines() == ["ok    python  one two three four five", f"{'':14}six"]
    assert second.splitlines() == [
        f"FAIL  file    /{'x' * 30}",
        f"{'':14}is not there",
        f"{'':14}-> make it before you load",
        f"{'':14}   it",
    ]


def test_findings_are_not_wrapped_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(sys, "__stdout__", None)
    (text,) = describe([Finding("ok", "word", "word " * 99)])
    assert len(text.splitlines()) == 1


def test_missing_native_part(copied_package: Path) -> None:
    shutil.rmtree(copied_package / "torch_mydev" / "lib")
    code, findings = doctor(copied_package)
    assert code == 1
    assert any("is missing" in text for text in problems(findings))


@pytest.mark.parametrize("library", ["libmydev_kernels.so", "libmydev_host_driver.so"])
def test_missing_library(copied_package: Path, library: str) -> None:
    (path,) = (copied_package / "mydev" / "lib").glob(f"{library}*")
    path.unlink()
    code, findings = doctor(copied_package)
    assert code == 1
    assert any(f"lacks {path.name}" in text for text in problems(findings))


def test_missing_host_driver_is_named_with_its_path(copied_package: Path) -> None:
    missing = copied_package / "mydev" / "lib" / "libmydev_host_driver.so"
    missing.unlink()
    result = subprocess.run(
        [sys.executable, "-c", "import torch, torch_mydev; torch.ones(1, device=torch_mydev.device_name)"],
        env={**os.environ, "PYTHONPATH": str(copied_package), "MYDEV_DRIVER": "host"},
        cwd=copied_package,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode != 0
    assert f"there is no {missing}" in result.stderr


def test_build_for_another_python(copied_package: Path) -> None:
    part = torch_part(copied_package)
    for suffix in EXTENSION_SUFFIXES:
        (part / f"_C{suffix}").unlink(missing_ok=True)
    info = part / "build_info.json"
    replace(info, json.dumps({**json.loads(info.read_text()), "python": "3.8.1"}))
    code, findings = doctor(copied_package)
    assert code == 1
    assert any("built for Python 3.8.1" in text for text in problems(findings))


def test_build_with_another_torch(copied_package: Path) -> None:
    torch_part(copied_package).rename(copied_package / "torch_mydev" / "lib" / "torch-2.12")
    code, findings = doctor(copied_package)
    assert code == 1
    assert any("built with torch 2.12," in text for text in problems(findings))


def test_library_that_cannot_be_loaded(copied_package: Path) -> None:
    replace(linked_library(copied_package / "mydev", "mydev_runtime"), "not a library")
    code, findings = doctor(copied_package)
    assert code == 1
    assert any("cannot be loaded" in text for text in problems(findings))


def test_torch_is_not_installed(copied_package: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-S", "-m", "mydev", "doctor", "--json"],  # -S: no site-packages
        cwd=copied_package,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert any("torch: is not installed" in text for text in problems(json.loads(result.stdout)))


def test_driver_that_is_not_there() -> None:
    code, findings = doctor(ROOT, MYDEV_DRIVER="/nowhere/libdriver.so")
    assert code == 1
    assert any("/nowhere/libdriver.so" in text for text in problems(findings))


def test_variable_with_a_slip_of_the_pen() -> None:
    code, findings = doctor(ROOT, MYDEV_DIVER="host")
    assert code == 1
    assert any("MYDEV_DIVER; did you mean MYDEV_DRIVER?" in text for text in problems(findings))


def test_effective_variables_are_listed() -> None:
    _, findings = doctor(ROOT, MYDEV_DRIVER="host:devices=2")
    assert any(finding["text"].startswith("MYDEV_DRIVER=host:devices=2") for finding in findings)
    assert "mydev:1" in [finding["subject"] for finding in findings]


def test_autoload_that_is_switched_off_is_noted() -> None:
    code, findings = doctor(ROOT, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert code == 0
    assert any(finding["subject"] == "autoload" and finding["text"].startswith("off") for finding in findings)


def test_unknown_subcommand_is_refused_with_the_list() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "mydev", "surgery"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "doctor" in result.stderr
