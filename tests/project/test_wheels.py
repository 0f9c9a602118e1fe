"""Both wheels, in environments apart from the tree: mydev where there is no torch, and torch_mydev beside it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mydev import __version__
from support.checkout import ROOT
from support.wheels import Environment, make_wheels

pytestmark = [pytest.mark.any_driver, pytest.mark.slow]

TRY_WHEELS = ROOT / "tools" / "try_wheels.py"
INSTALL = f"pip install torch_mydev=={__version__}"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_wheels(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def without_torch(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("without_torch"), wheels["mydev"])


@pytest.fixture(scope="module")
def with_torch(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Both wheels, with the torch and JAX that are here."""
    environment = Environment(tmp_path_factory.mktemp("with_torch"), *wheels.values())
    environment.add_others()
    return environment


def test_wheel_of_mydev_is_for_any_python(wheels: dict[str, Path]) -> None:
    assert wheels["mydev"].name.startswith(f"mydev-{__version__}-py3-none-linux_")
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert wheels["torch_mydev"].name.startswith(f"torch_mydev-{__version__}-{version}-{version}-linux_")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["mydev", "doctor"], INSTALL),
        (["mydev", "conform", "driver", "loads", "fill"], "0 failed"),
        (["mydev", "--help"], "report"),
        (["python", "-c", "import pjrt_mydev; assert pjrt_mydev.library_path().exists(); print('there')"], "there"),
    ],
    ids=["doctor", "driver", "help", "plugin"],
)
def test_mydev_works_without_torch(without_torch: Environment, command: list[str], said: str) -> None:
    assert without_torch.run("python", "-c", "import torch").returncode == 1
    result = without_torch.run(*command)
    assert result.returncode == 0, result.stdout + result.stderr
    assert said in result.stdout


@pytest.mark.parametrize(
    "words", [["conform", "operators"], ["report", "script.py"], ["kernels", "list"]], ids=" ".join
)
def test_commands_for_torch_say_what_to_install(without_torch: Environment, words: list[str]) -> None:
    result = without_torch.run("mydev", *words)
    command = f"mydev {words[0]}" + ("" if words[0] == "report" else f" {words[1]}")
    line = f"error: '{command}' comes with torch_mydev, for PyTorch, which is not installed: {INSTALL}\n"
    assert (result.returncode, result.stdout, result.stderr) == (1, "", line)


def test_torch_mydev_trains_beside_it(with_torch: Environment) -> None:
    result = with_torch.run("python", TRY_WHEELS, "works")
    assert result.returncode == 0, result.stderr
    assert str(with_torch.packages) in result.stdout


def test_torch_mydev_adds_its_commands(with_torch: Environment) -> None:
    result = with_torch.run("mydev", "conform", "operators", "--help")
    assert result.stdout.startswith("usage: mydev conform operators"), result.stderr


def test_jax_finds_the_plugin(with_torch: Environment) -> None:
    pytest.importorskip("jax", reason="needs JAX")
    code = "import sys, jax; print(jax.numpy.ones(4).sum(), jax.devices()[0].platform, 'torch' in sys.modules)"
    result = with_torch.run("python", "-c", code, JAX_PLATFORMS="mydev")
    assert result.stdout == "4.0 mydev False\n", result.stderr


def test_torch_mydev_without_mydev_steps_aside(with_torch: Environment) -> None:
    package, elsewhere = with_torch.packages / "mydev", with_torch.packages / "elsewhere"
    package.rename(elsewhere)
    result = with_torch.run("python", TRY_WHEELS, "refuses")
    elsewhere.rename(package)
    assert result.returncode == 0, result.stderr
    assert f"pip install mydev=={__version__}" in result.stdout
