"""The model set in eager mode: the device against the CPU in predictions, gradients and losses of training."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from support.models import MODELS, build

pytestmark = pytest.mark.parametrize("name", MODELS)


def test_predicts_as_on_the_cpu(name: str, device: torch.device) -> None:
    example = build(name)
    example.module.eval()
    prediction = example.to(device).predict()
    assert prediction.device.type == device.type
    assert_close(prediction.cpu(), example.predict())


def test_gradients_are_the_cpus(name: str, device: torch.device) -> None:
    example = build(name)
    moved = example.to(device)
    example.loss().backward()
    moved.loss().backward()
    expected = {key: parameter.grad for key, parameter in example.module.named_parameters()}
    actual = {key: parameter.grad.cpu() for key, parameter in moved.module.named_parameters()}
    assert_close(actual, expected)


def test_trains_as_on_the_cpu(name: str, device: torch.device) -> None:
    example = build(name)
    moved = example.to(device)
    assert_close(moved.train(), example.train())


def test_same_batch_and_weights_each_time(name: str) -> None:
    first, second = build(name), build(name)
    assert_close(second.module.state_dict(), first.module.state_dict(), rtol=0, atol=0)
    assert_close(second.inputs, first.inputs, rtol=0, atol=0)
