"""Users are shown reprs, tables of notebooks, public names, docstrings; type checkers are told of names."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch

import mydev
import pjrt_mydev
import torch_mydev
import torch_mydev.device
import torch_mydev.jax
from mydev.html_page import Cell, Markup, Section, data_script, page, table
from torch_mydev.observe.compile_report import CompileReport, GraphReport
from torch_mydev.observe.fallback import FallbackCensus, FallbackRow

# --- notebooks --------------------------------------------------------------------------------------------------------


def test_a_census_shows_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    row = FallbackRow("aten::sort", 2, 10, 0.5, 0.25, "train.py:3 in <module>", "takes f32 & f64")
    monkeypatch.setattr(FallbackCensus, "rows", [row])
    census = torch_mydev.fallback_census()
    assert repr(census) == str(census)
    assert "train.py:3" in repr(census)
    html = census._repr_html_()
    assert "<td>train.py:3 in &lt;module&gt;</td>" in html
    assert "takes f32 &amp; f64" in html
    monkeypatch.setattr(FallbackCensus, "rows", [])
    assert census._repr_html_() == "<p>no operator fell back to the CPU</p>"


def test_statistics_show_their_table() -> None:
    with torch.mydev.launch_statistics() as statistics:
        torch.ones(3, device="mydev")
        torch.mydev.synchronize()
    assert repr(statistics) == str(statistics)
    assert "mydev.fill" in statistics._repr_html_() or "fill" in statistics._repr_html_()


def test_a_compile_report_shows_its_table() -> None:
    report = CompileReport([GraphReport("forward", "mydev:0", reason="<why>")])
    assert repr(report) == str(report)
    assert "&lt;why&gt;" in report._repr_html_()


def test_a_pool_shows_what_is_in_use() -> None:
    pool = torch.mydev.MemPool()
    with torch.mydev.use_mem_pool(pool):
        kept = torch.empty(1 << 20, dtype=torch.uint8, device="mydev")
    assert f"MemPool id={pool.id}" in repr(pool)
    assert f"{kept.nbytes} of 2097152 bytes in use, in 1 segments" in repr(pool)
    assert '<td class="number" data-order="1.04858e+06">1,048,576</td>' in pool._repr_html_()


def test_streams_and_events_show_whether_they_are_done() -> None:
    stream = torch.mydev.Stream()
    event = stream.record_event()
    stream.synchronize()
    assert f'<td class="number" data-order="{stream.stream_id:g}">' in stream._repr_html_()
    assert "<td>yes</td>" in stream._repr_html_()
    assert f"<td>{event.event_id:#x}</td>" in event._repr_html_()


# --- pages ------------------------------------------------------------------------------------------------------------


def test_pages_escape_all_but_markup() -> None:
    evil = "<script>alert(1)</script>"
    text = page(evil, [Section(evil, [table([evil], [[evil], [Cell(evil, "good", evil)]]), Markup("<b>x</b>")])])
    assert evil not in text
    assert text.count("<script>") == 1  # its own
    assert "<b>x</b>" in text
    assert "</script><" not in data_script("x", "</script><")[:-9]


# --- names ------------------------------------------------------------------------------------------------------------


def test_dir_has_public_names_only() -> None:
    names = dir(torch.mydev)
    assert not [name for name in names if name.startswith("_")]
    assert {"Stream", "synchronize", "FloatTensor", "default_generators", "memory_allocated"} <= set(names)
    assert all(hasattr(torch.mydev, name) for name in names)
    assert not {"torch", "Any", "annotations", "did_you_mean"} & set(names)


def modules() -> Iterator[ModuleType]:
    yield torch_mydev.jax
    for package in (torch_mydev.device, mydev, pjrt_mydev):
        yield package
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if found.name != "pjrt_mydev.torch_xla":  # which needs PyTorch/XLA
                yield importlib.import_module(found.name)


def undocumented(module: ModuleType) -> Iterator[str]:
    """The public functions, classes and methods that a module defines without a docstring."""
    if not module.__doc__:
        yield module.__name__
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if (inspect.isfunction(value) or inspect.isclass(value)) and not inspect.getdoc(value):
            yield f"{module.__name__}.{name}"
        if not inspect.isclass(value):
            continue
        for member in vars(value):
            found = inspect.getattr_static(value, member)
            is_code = isinstance(found, (property, staticmethod, classmethod)) or inspect.isfunction(found)
            if is_code and not member.startswith("_") and not inspect.getdoc(getattr(value, member)):
                yield f"{module.__name__}.{name}.{member}"


def test_every_public_function_has_a_docstring() -> None:
    pytest.importorskip("jax")  # which the modules for JAX import
    assert [name for module in modules() for name in undocumented(module)] == []


# --- types ------------------------------------------------------------------------------------------------------------


def test_the_typed_names_are_torchs_own() -> None:
    from torch_mydev import typing

    assert typing.mydev is torch.mydev
    assert typing.Tensor is torch.Tensor
    assert typing.Module is torch.nn.Module
    x = torch.ones(2)
    assert typing.typed(x) is x
    assert typing.typed(x).mydev().is_mydev
