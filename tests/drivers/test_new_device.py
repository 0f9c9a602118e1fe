"""``mydev new-device``: the package that it writes is built from the wheels, installed, and asked for its own tests.

Once it is called acme and once zorro, which shows names that are written out anywhere.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from mydev.cli import main
from mydev.new_device import COMPILERS, LANGUAGES, write
from support.wheels import Environment, make_wheels

pytestmark = pytest.mark.any_driver

OPTIONS = {"acme": (), "zorro": ("--language=c", "--compiler=c++")}


@dataclass(frozen=True)
class Package:
    sources: Path
    environment: Environment  #: with both wheels and the package

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs Python where the package is installed, in its folder."""
        return self.environment.run("python", *arguments, cwd=self.sources)


@cache
def package_of(name: str, folder: Path) -> Package:
    """The package as it is written, built against the installed wheels."""
    sources = folder / name
    environment = Environment(folder / "environment", *make_wheels(folder / "wheels").values())
    environment.add_others()
    written = environment.run("mydev", "new-device", name, *OPTIONS[name], "--output", sources)
    assert written.returncode == 0, written.stderr
    environment.install("--no-build-isolation", sources)
    return Package(sources, environment)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("devices")


# --- what it writes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiler", ["", *COMPILERS])
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_name_is_the_only_one_that_is_written(tmp_path: Path, language: str, compiler: str) -> None:
    files = write("zorro", tmp_path / "new", language=language, compiler=compiler)
    assert set(files) == {path for path in (tmp_path / "new").rglob("*") if path.is_file()}
    for file in files:
        text = f"{file.relative_to(tmp_path)} {file.read_text()}"
        assert "acme" not in text.lower(), file
        assert "[docs: " not in text and "[end]" not in text and "compiler]" not in text, file


def test_a_driver_is_short(tmp_path: Path) -> None:
    write("zorro", tmp_path / "new", compiler="opencl-c")
    lines = (tmp_path / "new" / "csrc" / "driver.cpp").read_text().splitlines()
    assert len(lines) <= 300


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("cuda", "'cuda' is taken: PyTorch, JAX or this project has it; call the device otherwise"),
        ("torch", "'torch' is taken: PyTorch, JAX or this project has it; call the device otherwise"),
        ("optim", "'optim' is taken: torch or torch.Tensor has an attribute of that name; call it otherwise"),
        ("mydev", "'mydev' is taken: PyTorch, JAX or this project has it; call the device otherwise"),
        ("relu", "'relu' is taken: torch or torch.Tensor has an attribute of that name; call it otherwise"),
        ("x1", "'x1' is no name for a device; take letters a to z and _, and no word of Python's"),
        ("class", "'class' is no name for a device; take letters a to z and _, and no word of Python's"),
        ("../acme", "'../acme' is no name for a device; take letters a to z and _, and no word of Python's"),
    ],
)
def test_a_wrong_name_is_one_line(
    name: str, problem: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new-device", name]) == 1
    assert capsys.readouterr().err == f"mydev new-device: {problem}\n"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_files_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes").write_text("mine")
    assert main(["new-device", "acme", "--output", str(tmp_path)]) == 1
    problem = f"{tmp_path} is there and not empty; name a new folder with --output"
    assert capsys.readouterr().err == f"mydev new-device: {problem}\n"
    assert (tmp_path / "notes").read_text() == "mine"


# --- the package that was built ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("name", "chosen"), [("acme", ""), ("zorro", "driver or compiler or in_torch")])
def test_its_own_tests_pass(folders: Path, name: str, chosen: str) -> None:
    result = package_of(name, folders / name).run("-m", "pytest", "-q", "-rs", "-k", chosen, "tests")
    assert result.returncode == 0, result.stdout
    assert " failed" not in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("imports", ["import torch", "import torch_mydev, torch", "import torch, torch_mydev"])
def test_it_adds_an_operator_once_the_device_is_there(folders: Path, imports: str) -> None:
    package = package_of("acme", folders / "acme")
    result = package.run("-c", f"{imports}\nprint(torch.ops.acme.twice(torch.ones(2).acme()))")
    assert "Warning" not in result.stderr
    assert result.stdout == "tensor([2., 2.], device='acme:0')\n", result.stderr


@pytest.mark.slow
def test_its_libraries_know_nothing_of_where_they_were_built(folders: Path) -> None:
    package = package_of("acme", folders / "acme")
    libraries = list((package.environment.packages / "acme_driver").glob("*.so"))
    assert len(libraries) == 3
    assert [library.name for library in libraries if bytes(package.sources) in library.read_bytes()] == []
