"""Programs for the reader of StableHLO, as text: one for each operator."""

from __future__ import annotations

import re
from pathlib import Path

UNARY_FLOAT = """cbrt ceil cosine exponential exponential_minus_one floor log log_plus_one logistic round_nearest_afz
    round_nearest_even rsqrt sine sqrt tan tanh"""
UNARY_ANY = "abs negate sign"
UNARY_INTEGER = "count_leading_zeros not popcnt"
BINARY_FLOAT = "add atan2 divide maximum minimum multiply power remainder subtract"
BINARY_INTEGER = "and or xor shift_left shift_right_arithmetic shift_right_logical"
#: (operators, the type of elements, how many operands)
POINTWISE = [
    (UNARY_FLOAT, "f32", 1),
    (UNARY_ANY, "f64", 1),
    (UNARY_INTEGER, "ui32", 1),
    (BINARY_FLOAT, "bf16", 2),
    (BINARY_INTEGER, "i64", 2),
]


def pointwise(operator: str, element: str, operands: int) -> str:
    tensor = f"tensor<4x{element}>"
    names = [f"%x{i}" for i in range(operands)]
    arguments = ", ".join(f"{name}: {tensor}" for name in names)
    return f"""module @{operator} {{
  func.func @main({arguments}) -> {tensor} {{
    %0 = stablehlo.{operator} {", ".join(names)} : {tensor}
    return %0 : {tensor}
  }}
}}
"""


def programs() -> dict[str, str]:
    """The text of a module for each operator, by its name; "sharded" is one of several, with shardings."""
    written = (Path(__file__).parent / "operators.mlir").read_text().split("// -----\n")
    found = {}
    for text in written:
        module = re.search(r"^module @(\w+)", text, re.MULTILINE)
        assert module is not None, text
        found[module[1]] = text
    for operators, element, operands in POINTWISE:
        found |= {operator: pointwise(operator, element, operands) for operator in operators.split()}
    return found
