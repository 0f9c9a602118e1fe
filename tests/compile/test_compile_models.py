"""The model set under torch.compile on the device, in its default backend, against the same in eager mode.

Three models; all of them with --all-models."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from support.like_eager import graphs
from support.models import MODELS, build

#: Attention and indices, images that lie channels-last, and steps that a compiler unrolls: with each change.
FEW = ["gpt2", "resnet", "lstm"]

pytestmark = pytest.mark.usefixtures("fresh_compiler")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("name", list(MODELS) if metafunc.config.getoption("all_models") else FEW)


def assert_compiled() -> None:
    """Each graph was: for the host, or to programs."""
    assert {graph.reason for graph in graphs()} == {None}, "a graph was not compiled"


@pytest.mark.slow
def test_trains_as_in_eager_mode(name: str, device: torch.device) -> None:
    eager, compiled = build(name).to(device), build(name).to(device)
    run = torch.compile(compiled.module, fullgraph=True)
    eager.loss().backward()
    compiled.loss(run).backward()
    expected = {key: parameter.grad for key, parameter in eager.module.named_parameters()}
    actual = {key: parameter.grad for key, parameter in compiled.module.named_parameters()}
    assert_close(actual, expected)
    assert_close(compiled.train(run), eager.train())
    assert_compiled()


def test_predicts_as_in_eager_mode(name: str, device: torch.device) -> None:
    example = build(name).to(device)
    example.module.eval()
    assert_close(example.predict(torch.compile(example.module, fullgraph=True)), example.predict())
    assert_compiled()
