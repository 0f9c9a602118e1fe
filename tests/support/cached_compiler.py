"""The compiler of torch.compile in the tests: its earlier result for a source is copied instead of made again.

Inductor's own cache is new in each session, so that all of Inductor and of torch_mydev.compile runs every time. The C++
compiler takes most of the time to compile, and gives the same result for the same input. Its results are kept between
sessions, outside the checkout, and shared by checkouts. A result depends on the source; the command, but for where this
checkout and the session keep their files; torch's build, the compiler and the processor. A command that is not
Inductor's runs as it is.

``use()`` makes cached-g++, which runs this file, the compiler of this process and its children, by CXX and:

CACHED_COMPILER            the real compiler
CACHED_COMPILER_DIRECTORY  where its results are kept; ``XDG_CACHE_HOME=… pytest`` starts with none
CACHED_COMPILER_PYTHON     the interpreter that runs this file
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FORGET_AFTER_DAYS = 30


def use() -> None:
    """Sets the environment. Leaves it alone where the compiler is not GCC or nothing can be kept."""
    compiler = os.environ.get("CXX", "g++")
    if "CACHED_COMPILER" in os.environ or "g++" not in Path(compiler).name or not shutil.which(compiler):
        return
    try:
        directory = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "torch_mydev" / "inductor"
        directory.mkdir(parents=True, exist_ok=True)
        _forget(directory)
    except (OSError, RuntimeError):  # there is no home, or not one to write to
        return
    os.environ["CACHED_COMPILER"] = str(shutil.which(compiler))
    os.environ["CACHED_COMPILER_DIRECTORY"] = str(directory)
    os.environ["CACHED_COMPILER_PYTHON"] = sys.executable
    os.environ["CXX"] = str(Path(__file__).with_name("cached-g++"))


def _forget(directory: Path) -> None:
    """Removes what no session has asked for in a long time."""
    oldest = time.time() - FORGET_AFTER_DAYS * 24 * 3600
    for entry in directory.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another session may do the same
            if entry.stat().st_mtime < oldest:
                entry.unlink()


def main(arguments: list[str]) -> int:
    command = [os.environ["CACHED_COMPILER"], *arguments]
    key = _key(arguments)
    if key is None:
        os.execv(command[0], command)
    output = arguments[arguments.index("-o") + 1]
    entry = os.path.join(os.environ["CACHED_COMPILER_DIRECTORY"], key)
    try:
        _copy(entry, output)
        os.utime(entry)
    except FileNotFoundError:
        code = subprocess.run(command, check=False).returncode
        if code != 0:
            return code
        _copy(output, entry)
    return 0


def _copy(source: str, target: str) -> None:
    """Copies a file such that nobody sees a part of it, nor a change of one that is in use."""
    with open(source, "rb") as file:
        handle, path = tempfile.mkstemp(dir=os.path.dirname(target))
        with open(handle, "wb") as copy:
            shutil.copyfileobj(file, copy, 1 << 20)
    os.chmod(path, 0o755)
    os.replace(path, target)


def _key(arguments: list[str]) -> str | None:
    """Returns a hash of all that the result depends on; None for a command that is not understood in full."""
    sources = [argument for argument in arguments if argument.endswith((".cpp", ".h"))]
    if "TORCH_INDUCTOR_CPP_WRAPPER" not in arguments or "-o" not in arguments or "-E" in arguments or not sources:
        return None
    digest = hashlib.sha256(_machine().encode())
    previous = ""
    for argument in arguments:
        content: bytes | None = argument.encode()
        if argument in sources:
            content = _read(argument)
        elif previous == "-o":
            content = b""
        elif argument.startswith(("-I", "-L")):
            content = _place(argument[2:])
        elif argument.startswith("/") or argument.endswith((".o", ".a", ".so")) or argument == "-isystem":
            content = None
        if content is None:
            return None
        digest.update(b"\0%d\0" % len(content) + content)
        previous = argument
    return digest.hexdigest()


def _place(directory: str) -> bytes | None:
    """A directory by what lies there: torch by its build, wherever it is installed; Python's by its name."""
    for parent in [Path(directory), *Path(directory).parents]:
        if parent.name == "torch" and (parent / "version.py").exists():
            return f"torch/{Path(directory).relative_to(parent)}\n".encode() + (parent / "version.py").read_bytes()
    is_python = directory.startswith(sys.base_prefix)
    return directory.encode() if is_python else None


def _read(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except OSError:
        return None


def _machine() -> str:
    """The compiler, and the processor, for which -march=native compiles."""
    compiler = os.stat(os.environ["CACHED_COMPILER"])
    described = [os.environ["CACHED_COMPILER"], str(compiler.st_size), str(compiler.st_mtime_ns), sys.version]
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.isspace():
                break
            if line.startswith(("vendor_id", "cpu family", "model", "stepping", "flags", "Features", "CPU ")):
                described.append(line)
    return "".join(described)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
