"""The documentation: its code is tested code, its links lead somewhere, its tables are those of the program."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mydev.new_device import TEMPLATE
from support.checkout import ROOT
from torch_mydev import _C

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PAGE_NAMES = [str(path.relative_to(ROOT)) for path in PAGES]


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))


def test_what_there_is_not_of_torch_cuda_is_listed() -> None:
    table = read("docs/torch-cuda.md")
    absent = [name for name in torch.cuda.__all__ if not hasattr(torch.mydev, name) and not name.endswith("Storage")]
    assert [name for name in absent if f"`{name}`" not in table] == []
    listed = re.findall(r"`(\w+)`", "".join(re.findall(r"^\|(.*)\| absent", table, flags=re.MULTILINE)))
    assert [name for name in listed if hasattr(torch.mydev, name)] == []


# --- code -------------------------------------------------------------------------------------------------------------


def load_tool(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def updated(text: str) -> str:
    """The page with its code blocks as their sources are now."""
    result: str = load_tool("docs_code").updated(text)
    return result


@pytest.mark.parametrize("page", PAGE_NAMES)
def test_code_is_that_of_its_source(page: str) -> None:
    assert updated(read(page)) == read(page), "run python tools/docs_code.py"


@pytest.mark.parametrize("page", PAGE_NAMES)
def test_all_code_has_a_tested_source(page: str) -> None:
    blocks = re.findall(r"^(.*)\n```(?:python|c|cpp)$", read(page), re.MULTILINE)
    assert [line for line in blocks if not line.startswith("<!-- code: ")] == []


@pytest.mark.parametrize(
    ("example", "expected"),
    [
        ("tutorial.py", r"test accuracy 9[5-9]\.\d%"),
        ("debugging.py", r"out of memory on mydev:0: tried to allocate"),
        ("typed.py", r"^True$"),
        ("collectives.py", r"mydev:acmeccl sum 4\.0"),
        ("compiled.py", r"backward   mydev:0"),
        ("trace.py", r"\[launch\] kernel=\[mydev\.relu\]"),
    ],
)
def test_example_runs(run_python: Callable[..., Any], example: str, expected: str) -> None:
    code = f"import torch_mydev, runpy; runpy.run_path({str(ROOT / 'examples' / example)!r}, run_name='__main__')"
    result = run_python(code)
    assert result.returncode == 0, result.stderr
    assert re.search(expected, result.stdout), result.stdout


def test_readme_shows_what_its_program_prints(run_python: Callable[..., Any]) -> None:
    shown = re.search(r"```python\n.*?```\n\n```text\n(.*?)```", read("README.md"), re.DOTALL)
    assert shown is not None
    result = run_python(f"import runpy; runpy.run_path({str(ROOT / 'examples' / 'tour.py')!r})")
    assert result.stdout == shown[1], result.stderr


def test_reference_of_kernels_is_that_of_the_program() -> None:
    tool = load_tool("list_kernels")
    assert tool.page() == read("docs/reference/kernels.md"), "run python tools/list_kernels.py"


def test_status_is_that_of_the_program(run_python: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    tool, page = load_tool("list_status"), read("docs/status.md")

    def fallbacks_of(driver: str) -> Any:
        of_tools = f"import runpy, sys; sys.path.append({str(ROOT / 'tools')!r})"
        code = f"{of_tools}; print(runpy.run_path({tool.__file__!r})['fallbacks']())"
        return ast.literal_eval(run_python(code, MYDEV_DRIVER=driver).stdout)

    monkeypatch.setattr(tool, "fallbacks_of", fallbacks_of)
    assert tool.updated(page) == page, "run python tools/list_status.py"


def test_a_run_of_another_version_takes_the_place_of_the_earlier_one(tmp_path: Path) -> None:
    tool, file = load_tool("list_status"), tmp_path / "run.xml"
    suite = '<testsuites><testsuite name="{}" tests="9" failures="1" errors="2" skipped="3"/></testsuites>'
    file.write_text(suite.format("PyTorch 2.15.0, Python 3.11: make test-torch TORCH=2.15.0"))
    run = tool.recorded(file)
    assert [run[name] for name in ("framework", "version", "python")] == ["PyTorch", "2.15.0", "3.11"]
    assert [run[name] for name in ("passed", "failed", "skipped")] == [3, 3, 3]
    earlier, other = run | {"passed": 1}, run | {"version": "2.9.0"}
    assert tool.with_run([earlier, other], run) == [other, run]
    assert json.loads(tool.as_lines([other, run])) == [other, run]

    file.write_text(suite.format("pytest"))
    with pytest.raises(ValueError, match=r"'pytest' is not of the form '<framework> <version>, Python"):
        tool.recorded(file)


def test_kernel_groups_are_those_of_the_reference() -> None:
    documented = re.findall(r"^## (.*)$", read("docs/reference/kernels.md"), re.MULTILINE)
    rows = re.findall(r"^\| ([a-z, ]+) \| .*`csrc/host_kernels/", read("docs/kernels.md"), re.MULTILINE)
    assert documented == rows


def test_the_ways_to_a_kernel_are_described_alike() -> None:
    pages = ("kernels", "custom-calls", "extending")
    tables = [
        re.findall(r"^Three ways lead to a kernel:\n\n((?:\|.*\n)+)", read(f"docs/{page}.md"), re.MULTILINE)
        for page in pages
    ]
    assert [len(found) for found in tables] == [1, 1, 1]
    assert tables[0] == tables[1] == tables[2]
    assert all(f"[{page}.md]({page}.md)" in tables[0][0] for page in pages)


# --- links ------------------------------------------------------------------------------------------------------------


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, made as code hosts make them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: str) -> list[str]:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(read(page))):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        if not file.exists() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            broken.append(target)
    return broken


@pytest.mark.parametrize("page", PAGE_NAMES)
def test_links_lead_somewhere(page: str) -> None:
    assert broken_links(page) == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        targets = re.findall(r"\]\(([^)\s#]+\.md)", page.read_text(encoding="utf-8"))
        waiting += [(page.parent / target).resolve() for target in targets]
    assert set(PAGES) - reached == set()


@pytest.mark.parametrize("page", PAGE_NAMES)
def test_files_that_are_named_exist(page: str) -> None:
    directories = "csrc|torch_mydev|tests|tools|examples|benchmarks|cmake|requirements"
    named = [Path(name) for name in re.findall(rf"`((?:{directories})/[\w./-]+)`", read(page))]
    if page == "docs/bring-up.md":  # those of the package that it is about, whose C may be C++
        named = [
            TEMPLATE / (name.with_suffix(".c") if (TEMPLATE / name.with_suffix(".c")).exists() else name)
            for name in named
        ]
    assert [name for name in named if not (ROOT / name).exists()] == []


# --- tables -----------------------------------------------------------------------------------------------------------


def test_environment_table_is_that_of_the_program() -> None:
    def row(variable: dict[str, str]) -> str:
        choices = "`" + variable["choices"].replace("|", "`, `") + "`" if variable["choices"] else "text"
        default = f"`{variable['default']}`" if variable["default"] else "none"
        return f"| `{variable['name']}` | {choices} | {default} | {variable['doc']} |"

    expected = [row(variable) for variable in _C.config_variables()]
    documented = re.findall(r"^\| `MYDEV_.*$", read("docs/environment.md"), re.MULTILINE)
    assert documented == expected, "the table must be:\n" + "\n".join(expected)
