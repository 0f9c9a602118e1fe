"""``find_package(mydev)``: a project of a user's, outside of this one, that builds a driver and kernels with CMake."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import mydev
import torch_mydev
from mydev.cli import main
from mydev.new_device import write
from support.checkout import ROOT
from torch_mydev.custom_call import ffi_call

PROJECT = """
cmake_minimum_required(VERSION 3.19)
project(users LANGUAGES CXX)
find_package(mydev {version} REQUIRED)
find_package(mydev REQUIRED)  # as a subdirectory may do
set(CMAKE_CXX_STANDARD 20)
find_package(Threads REQUIRED)
file(GLOB sources CONFIGURE_DEPENDS device/csrc/*.cpp)
add_library(users_driver MODULE ${{sources}})
target_link_libraries(users_driver PRIVATE mydev::headers Threads::Threads)
if(XLA_INCLUDE_DIR)
  add_library(users_handler MODULE handler.cpp)
  target_link_libraries(users_handler PRIVATE mydev::xla_ffi)
  target_include_directories(users_handler SYSTEM PRIVATE ${{XLA_INCLUDE_DIR}})
endif()
"""
HANDLER = """
#include "mydev/custom_call.h"
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;

static ffi::Error Twice(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> out) {
  for (size_t i = 0; i < x.element_count(); ++i) out->typed_data()[i] = 2 * x.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(kTwice, Twice, ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
XLA_FFI_REGISTER_HANDLER(XLA_FFI_GetApi(), "users.twice", "Host", kTwice);
"""


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs CMake in ``build``, beside a project that asks for that version of the package, and builds what it found."""
    directory = tmp_path / "a project"
    directory.mkdir()
    write("users", directory / "device")
    (directory / "handler.cpp").write_text(HANDLER)

    def build(version: str, *options: str) -> subprocess.CompletedProcess[str]:
        (directory / "CMakeLists.txt").write_text(PROJECT.format(version=version))
        cmake = [sys.executable, "-m", "cmake"]
        configure = [*cmake, "-S", str(directory), "-B", str(tmp_path / "build"), *options]
        result = subprocess.run(configure, capture_output=True, text=True, check=False)
        if result.returncode == 0:
            result = subprocess.run([*cmake, "--build", str(tmp_path / "build")], capture_output=True, text=True)
        return result

    return build


Project = Callable[..., subprocess.CompletedProcess[str]]
RunPython = Callable[..., subprocess.CompletedProcess[str]]


def test_command_prints_what_python_tells(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cmake"]) == 0
    assert capsys.readouterr().out.strip() == mydev.cmake_dir()


@pytest.mark.slow
def test_a_driver_is_built_by_the_installed_package(project: Project, tmp_path: Path, run_python: RunPython) -> None:
    result = project("0.1", f"-Dmydev_DIR={mydev.cmake_dir()}")
    assert result.returncode == 0, result.stdout + result.stderr
    code = "import torch, torch_mydev; print(torch.ones(3, device=torch_mydev.device_name).sum().item())"
    run = run_python(code, MYDEV_DRIVER=str(tmp_path / "build" / "libusers_driver.so"))
    assert run.stdout == "3.0\n", run.stderr


@pytest.mark.slow
def test_a_handler_is_linked_with_the_installed_library(project: Project, tmp_path: Path) -> None:
    jaxlib = pytest.importorskip("jaxlib", reason="needs XLA's headers, which jaxlib brings")
    # The package is moved: what its files name lies beside them.
    moved = tmp_path / "moved"
    shutil.copytree(mydev.cmake_dir(), moved / "lib" / "cmake" / "mydev")
    (moved / "include").symlink_to(mydev.include_dir())
    for library in Path(mydev.library_dir()).glob("lib*"):
        (moved / "lib" / library.name).symlink_to(library)
    result = project("0.1", f"-DCMAKE_PREFIX_PATH={moved}", f"-DXLA_INCLUDE_DIR={jaxlib.__path__[0]}/include")
    assert result.returncode == 0, result.stdout + result.stderr
    library = torch_mydev.load_custom_calls(tmp_path / "build" / "libusers_handler.so")
    assert library.kernels == ("users.twice",)
    x = torch.arange(3.0)
    on_device = x.to("mydev")
    torch.testing.assert_close(ffi_call("users.twice", on_device)(on_device).cpu(), 2 * x)


@pytest.mark.slow
def test_an_extension_is_built_by_the_installed_package(tmp_path: Path, run_python: RunPython) -> None:
    source = tmp_path / "extending"
    shutil.copytree(ROOT / "examples" / "extending", source)
    cmake = [sys.executable, "-m", "cmake"]
    options = [f"-Dtorch_mydev_DIR={torch_mydev.cmake_dir()}", f"-DPython_EXECUTABLE={sys.executable}"]
    for command in (
        [*cmake, "-S", str(source), "-B", str(tmp_path / "build"), *options],
        [*cmake, "--build", str(tmp_path / "build")],
    ):
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
    code = f"""
import torch, torch_mydev
torch.ops.load_library({str(tmp_path / "build" / "libmydev_extending_example.so")!r})
x = torch.tensor([-1.0, 3.0], device=torch_mydev.device_name)
with torch_mydev.fallback_mode("error"):
    print(torch.ops.example.squared_relu(x).tolist())
"""
    run = run_python(code)
    assert run.stdout == "[0.0, 9.0]\n", run.stderr


def test_another_version_is_refused(project: Project) -> None:
    result = project("9.1", f"-Dmydev_DIR={mydev.cmake_dir()}")
    assert result.returncode != 0
    assert f"version: {torch_mydev.__version__}" in result.stderr
