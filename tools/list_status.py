"""Writes the tables of docs/status.md that a program can tell: versions, operators, what runs by kernels, kernels.

A table is between the comments `<!-- list_status: part -->` and `<!-- end -->`.

Run without arguments to write the page, with --check to compare only (exit status 1 when it is out of date). The
versions are those of docs/versions.json. `--record FILE` adds to it what pytest wrote in FILE (--junit-xml), as
tools/test_torch.sh and tools/test_jax.sh leave it in build/runs. The suite's name says what was run: "PyTorch 2.15.0,
Python 3.11: <command>". A run takes the place of the earlier one of that name.
"""

from __future__ import annotations

import collections
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

from written_pages import ROOT, parser, write_or_check

PAGE = ROOT / "docs" / "status.md"
VERSIONS = ROOT / "docs" / "versions.json"
_TABLE = re.compile(r"(<!-- list_status: (?P<part>\w+) -->\n)(.*?)(?P<end><!-- end -->\n)", re.DOTALL)

DRIVERS = ("host", "host:remote")

#: Each operation is an expression. Its variables are `x`, 4 x 4 numbers of float32 with gradients; `image`, 2 x 4 x 8 x
#: 8 of them; the indices `i` and the mask `x > 0`. `F` is torch.nn.functional.
OPERATIONS = {
    "arithmetic, comparison, elementary functions": "(x * 2 + x.exp()).where(x > 0, x.tanh())",
    "activations": "F.gelu(x) + F.silu(x) + F.relu(x)",
    "matrix products": "F.linear(x, x) @ x",
    "convolution": "F.conv2d(image, image, padding=1)",
    "2-D pooling": "F.max_pool2d(image, 2) + F.avg_pool2d(image, 2)",
    "sums, means, maxima": "x.sum(0) + x.mean(1) + x.amax(0)",
    "softmax, cross entropy": "x.softmax(1).sum() + F.cross_entropy(x, i)",
    "attention": "F.scaled_dot_product_attention(image, image, image)",
    "batch normalization": "F.batch_norm(image, None, None, training=True)",
    "layer normalization": "F.layer_norm(x, (4,))",
    "group normalization": "F.group_norm(image, 2)",
    "embedding": "F.embedding(i, x)",
    "indexing by a tensor": "x[i]",
    "indexing by a mask": "x[x > 0]",
    "gather": "x.gather(1, i[:, None])",
    "scatter": "x.scatter_add(1, i[:, None], x[:, :1])",
    "concatenation": "torch.cat([x, x]) + torch.stack([x, x]).flatten(0, 1)",
    "cumulative sums": "x.cumsum(0)",
    "sorting": "x.sort().values + x.topk(4).values",
    "padding with a number, by reflection": "F.pad(image, (1, 1)).sum() + F.pad(image, (1, 1, 1, 1), 'reflect').sum()",
    "interpolation, nearest": "F.interpolate(image, scale_factor=2)",
    "interpolation, bilinear": "F.interpolate(image, scale_factor=2, mode='bilinear')",
    "random numbers, dropout": "F.dropout(x + torch.randn_like(x))",
    "Fourier transform": "torch.fft.rfft(x).abs()",
    "linear algebra": "torch.linalg.solve(x, x)",
}


def fallbacks() -> dict[str, list[str]]:
    """The operators that fall back, in this process, for each of OPERATIONS and its gradient."""
    import torch

    import torch_mydev

    device = torch_mydev.device_name
    torch.manual_seed(0)
    names = {
        "torch": torch,
        "F": torch.nn.functional,
        "i": torch.tensor([2, 0, 3, 1], device=device),
        "x": torch.randn(4, 4, device=device, requires_grad=True),
        "image": torch.randn(2, 4, 8, 8, device=device, requires_grad=True),
    }
    found = {}
    for operation, expression in OPERATIONS.items():
        with torch_mydev.fallback_census() as census:
            eval(expression, names).sum().backward()
        found[operation] = sorted(row.op for row in census.rows)
    return found


def fallbacks_of(driver: str) -> dict[str, list[str]]:
    """The same, in a process that has this driver."""
    output = subprocess.run(
        [sys.executable, __file__, "--fallbacks"],
        env=os.environ | {"MYDEV_DRIVER": driver, "PYTHONPATH": str(ROOT)},
        check=True,
        stdout=subprocess.PIPE,
    ).stdout
    result: dict[str, list[str]] = json.loads(output)
    return result


def recorded(file: Path) -> dict[str, Any]:
    """The counts of one run of pytest. Raises ValueError where its name does not say what was run."""
    suite = next(ElementTree.parse(file).iter("testsuite"))
    about = re.fullmatch(
        r"(?P<framework>\S+) (?P<version>\S+), Python (?P<python>\S+): (?P<command>.+)", suite.attrib["name"]
    )
    if about is None:
        raise ValueError(
            f"{file}: '{suite.attrib['name']}' is not of the form '<framework> <version>, Python <version>: <command>'"
        )
    tests, failed, skipped = (int(suite.attrib[name]) for name in ("tests", "failures", "skipped"))
    failed += int(suite.attrib["errors"])
    return {**about.groupdict(), "passed": tests - failed - skipped, "failed": failed, "skipped": skipped}


def with_run(runs: list[dict[str, Any]], run: dict[str, Any]) -> list[dict[str, Any]]:
    """The runs with one more, which takes the place of the earlier one of its name."""

    def name(of: dict[str, Any]) -> list[Any]:
        versions = ([int(number) for number in re.findall(r"\d+", of[key])] for key in ("version", "python"))
        return [of["framework"], *versions, of["command"]]

    return sorted([*(other for other in runs if name(other) != name(run)), run], key=name)


def as_lines(runs: list[dict[str, Any]]) -> str:
    """The runs as JSON, one a line."""
    return "[\n" + ",\n".join(f" {json.dumps(run)}" for run in runs) + "\n]\n"


def _versions() -> list[str]:
    return [
        "| | version | Python | what was run | passed | failed | skipped |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *(
            f"| {run['framework']} | {run['version']} | {run['python']} | `{run['command']}` "
            f"| {run['passed']} | {run['failed']} | {run['skipped']} |"
            for run in json.loads(VERSIONS.read_text(encoding="utf-8"))
        ),
    ]


def _operators() -> list[str]:
    import torch

    from torch_mydev.conform.operators import ledger
    from torch_mydev.conform.operators.harness import OPERATORS

    version = ".".join(torch.__version__.split(".")[:2])
    refused = {"forward": ledger.FORWARD_RAISES, "backward": ledger.BACKWARD_RAISES}
    return [
        "| | |",
        "| --- | --- |",
        f"| operators that PyTorch {version} tests on the CPU, with their variants | {len(OPERATORS)} |",
        *(f"| `{name}`, {when}, raises | {why} |" for when, names in refused.items() for name, why in names.items()),
    ]


def _operations() -> list[str]:
    columns = [fallbacks_of(driver) for driver in DRIVERS]
    lines = [f"| operation | {' | '.join(f'`MYDEV_DRIVER={driver}`' for driver in DRIVERS)} |", "| --- | --- | --- |"]
    for operation in OPERATIONS:
        fallbacks = [", ".join(f"`{op}`" for op in column[operation]) for column in columns]
        cells = [f"CPU: {ops}" if ops else "kernels" for ops in fallbacks]
        lines.append(f"| {operation} | {' | '.join(cells)} |")
    return lines


def _kernels() -> list[str]:
    from torch_mydev import _C

    groups = collections.Counter(contract["group"] for contract in _C.kernel_contracts())
    rows = [f"| {group} | {count} |" for group, count in groups.items()]
    return ["| group | kernels |", "| --- | --- |", *rows, f"| **all** | {groups.total()} |"]


_PARTS = {"versions": _versions, "operators": _operators, "operations": _operations, "kernels": _kernels}


def updated(page: str) -> str:
    """The page with its generated tables as they are now."""
    return _TABLE.sub(lambda match: match[1] + "\n".join(["", *_PARTS[match["part"]](), "", ""]) + match["end"], page)


def main() -> int:
    """Writes or checks the page."""
    program = parser(__doc__)
    program.add_argument("--fallbacks", action="store_true", help="print what falls back in this process, as JSON")
    program.add_argument("--record", metavar="FILE", type=Path, nargs="+", default=[], help="add runs of pytest")
    arguments = program.parse_args()
    if arguments.fallbacks:
        print(json.dumps(fallbacks()))
        return 0
    for file in arguments.record:
        runs = with_run(json.loads(VERSIONS.read_text(encoding="utf-8")), recorded(file))
        VERSIONS.write_text(as_lines(runs), encoding="utf-8")
    return write_or_check({PAGE: updated(PAGE.read_text(encoding="utf-8"))}, check=arguments.check)


if __name__ == "__main__":
    sys.exit(main())
