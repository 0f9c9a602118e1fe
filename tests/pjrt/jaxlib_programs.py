"""StableHLO programs as jaxlib's bindings of MLIR read and write them: what the project's reader is compared with.

jaxlib is imported when a function is called: where it is absent, tests are skipped by a reason that says so.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.checkout import BUILD

PRINTER = BUILD / "tests" / "cpp" / "print_stablehlo"

# Parts of jaxlib's text that the project's reader does not keep: dictionaries that are empty, how Shardy is to shard
# operators, and the meshes that JAX states in addition.
NOT_KEPT = [
    r"(?:arg|res)_attrs = \[(?:\{\}(?:, )?)+\], ",
    r" \{stablehlo\.mesh = [^\n]*\}(?= :)",
    r"(?:, )?sdy\.sharding_rule = #sdy\.op_sharding_rule<[^\n]*?, custom>",
]


def require(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{sys.executable} has no {module}: pip install {module}==0.10.2")
    if not PRINTER.exists():
        pytest.skip(f"{PRINTER} is not built: configure with -DMYDEV_BUILD_TESTS=ON")


def context() -> Any:
    """A context with the dialects that JAX's programs have."""
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import chlo, sdy, stablehlo

    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    made = ir.Context()
    made.append_dialect_registry(registry)
    made.load_all_available_dialects()
    for dialect in (chlo, sdy, stablehlo):
        dialect.register_dialect(made)
    return made


def serialize(module: Any, version: str) -> bytes:
    """Serializes a module as JAX does for a plugin that reads this version."""
    from jaxlib.mlir.dialects import stablehlo

    return bytes(stablehlo.serialize_portable_artifact(module, version, allow_other_dialects=True))


def deserialized(program: bytes) -> str:
    """Returns jaxlib's text of a serialized program, without the parts that the project's reader does not keep."""
    from jaxlib.mlir.dialects import stablehlo

    with context() as made:
        text = str(stablehlo.deserialize_portable_artifact(made, program).operation.get_asm(print_generic_op_form=True))
    for pattern in NOT_KEPT:
        text = re.sub(pattern, "", text)
    return text.replace(" {}", "")


def normalized(text: str) -> str:
    """Returns a program's text as jaxlib prints it."""
    from jaxlib.mlir import ir

    with context():
        return str(ir.Module.parse(text).operation.get_asm(print_generic_op_form=True)).replace(" {}", "")


def printed(program: bytes, directory: Path) -> str:
    """Returns the text that the project's reader makes of a program in bytecode or text."""
    path = directory / "program"
    path.write_bytes(program)
    result = subprocess.run([PRINTER, path], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    text = result.stdout.partition("\n")[2]
    assert not text.startswith("error:"), text
    return text
