"""The model set under torch.compile on the device, in its default backend, against the same in eager mode."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.testing import assert_close

from support.models import MODELS, build

pytestmark = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_trains_as_in_eager_mode(name: str, device: torch.device) -> None:
    eager, compiled = build(name).to(device), build(name).to(device)
    run = torch.compile(compiled.module, fullgraph=True)
    eager.loss().backward()
    compiled.loss(run).backward()
    expected = {key: parameter.grad for key, parameter in eager.module.named_parameters()}
    actual = {key: parameter.grad for key, parameter in compiled.module.named_parameters()}
    assert_close(actual, expected)
    assert_close(compiled.train(run), eager.train())


def test_predicts_as_in_eager_mode(name: str, device: torch.device) -> None:
    example = build(name).to(device)
    example.module.eval()
    assert_close(example.predict(torch.compile(example.module, fullgraph=True)), example.predict())
