"""contracts.json, beside the installed headers: the contracts of built-in kernels for programs that write kernels."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from mydev.headers import include_dir
from torch_mydev import _C

FUNCTIONS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "neg": lambda a: -a,
    "exp": math.exp,
}


@pytest.fixture(scope="module")
def contracts() -> dict[str, dict[str, Any]]:
    data = json.loads((Path(include_dir()) / "mydev" / "contracts.json").read_text())
    return {contract["kernel"]: contract for contract in data["contracts"]}


def compute(tree: Any, **names: float) -> float:
    if not isinstance(tree, dict):
        return float(tree)
    if "name" in tree:
        return names[tree["name"]]
    return FUNCTIONS[tree["function"]](*(compute(argument, **names) for argument in tree["arguments"]))


def named(entries: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in entries}


def test_each_contract_is_there_with_its_text(contracts: dict[str, dict[str, Any]]) -> None:
    for listed in _C.kernel_contracts():
        text = {key: value for key, value in contracts[listed["kernel"]].items() if key != "parsed"}
        assert text == listed
    assert len(contracts) == len(_C.kernel_contracts()) > 150


def test_expressions_are_trees(contracts: dict[str, dict[str, Any]]) -> None:
    assert compute(contracts["mydev.add"]["parsed"]["computes"][""], a=2, b=3, alpha=10) == 32
    gate, up, grad = 0.3, 2.0, 5.0
    sigmoid = 1 / (1 + math.exp(-gate))
    results = contracts["mydev.swiglu_backward"]["parsed"]["computes"]
    assert compute(results["grad_up"], gate=gate, up=up, grad=grad) == pytest.approx(grad * gate * sigmoid)
    expected = grad * up * sigmoid * (1 + gate * (1 - sigmoid))
    assert compute(results["grad_gate"], gate=gate, up=up, grad=grad) == pytest.approx(expected)


def test_operands_and_attributes_say_what_may_be(contracts: dict[str, dict[str, Any]]) -> None:
    product = contracts["mydev.matmul"]["parsed"]
    operands = named(product["operands"])
    assert operands["a"]["shapes"] == [["batch...", "m", "k"]]
    assert operands["addend"]["may_be_left_out"]
    assert product["results"][0]["updated"] and product["results"][0]["may_be"] == ["addend"]
    variables = named(product["variables"])
    assert variables["T"]["dtypes"] == ["f16", "f32", "bf16"]
    assert {"f64", "s8", "c64"} <= set(variables["T"]["dtypes_on_request"])
    assert variables["R"]["like"] == "T"
    assert {"dtypes": ["s32"], "where_like_is": ["s8", "u8"]} in variables["R"]["conditions"]
    assert (product["least_list"], product["greatest_list"]) == (0, 1)

    alpha = named(contracts["mydev.add"]["parsed"]["attributes"])["alpha"]
    assert (alpha["kind"], alpha["default"]) == ("number", 1)
    convolution = contracts["mydev.convolution"]["parsed"]
    assert named(convolution["attributes"])["stride"] == {
        "name": "stride",
        "kind": "ints",
        "length": "...",
        "low": 1,
        "high": None,
        "default": None,
    }
    assert [fact["size"] for fact in convolution["facts"]] == ["p", "q", "v"]
