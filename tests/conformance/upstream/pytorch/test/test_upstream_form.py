"""Tests in the form of PyTorch's own, for tests/drivers/test_conform_upstream.py: one for each way in which they end.

UPSTREAM_FORM names what some do on a device and not on the CPU: fail,crash.
"""

from __future__ import annotations

import enum
import os
import unittest

import torch
from torch.testing._internal.common_device_type import (
    deviceCountAtLeast,
    dtypes,
    instantiate_device_type_tests,
    onlyCPU,
)
from torch.testing._internal.common_utils import TestCase, parametrize, run_tests

ASKED = os.environ.get("UPSTREAM_FORM", "").split(",")


def asked(what: str, device: str) -> bool:
    """Whether a test of the device is to do that."""
    return what in ASKED and torch.device(device).type != "cpu"


class TestForm(TestCase):
    @dtypes(torch.float32, torch.int64)
    def test_sum(self, device: str, dtype: torch.dtype) -> None:
        numbers = torch.arange(10, device=device, dtype=dtype)
        self.assertEqual(numbers.device.type, torch.device(device).type)
        self.assertEqual(numbers.sum().item(), 45)

    @parametrize("dim", [0, 1])
    def test_softmax(self, device: str, dim: int) -> None:
        self.assertEqual(torch.ones(2, 2, device=device).softmax(dim), torch.full((2, 2), 0.5))

    def test_parts(self, device: str) -> None:
        for size in range(3):
            with self.subTest(size=size):
                self.assertEqual(torch.zeros(size, device=device).numel(), size)

    @unittest.expectedFailure
    def test_is_marked_as_one_that_fails(self, device: str) -> None:
        self.assertEqual(torch.ones(1, device=device), torch.zeros(1, device=device))

    def test_fails_on_each_device(self, device: str) -> None:
        self.assertEqual(torch.ones(1, device=device), torch.zeros(1, device=device), "one is not zero")

    @onlyCPU
    def test_is_for_the_cpu(self, device: str) -> None:
        self.assertEqual(device, "cpu")

    @deviceCountAtLeast(10_000)
    def test_needs_many_devices(self, devices: list[str]) -> None:
        self.fail(f"ran with {len(devices)}")

    def test_fails_when_asked(self, device: str) -> None:
        self.assertFalse(asked("fail", device), "asked to fail")

    def test_crashes_when_asked(self, device: str) -> None:
        if asked("crash", device):
            os.abort()


class TestFixture(TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        raise RuntimeError("the fixture fails")

    def test_first(self, device: str) -> None:
        pass

    def test_second(self, device: str) -> None:
        pass


class HardwareClassification(enum.Enum):
    """The hardware that a class of newer PyTorch's tests is for, which PyTorch 2.13 does not have."""

    ACCELERATOR = "accelerator"
    CPU = "cpu"


class TestAccelerator(TestCase):
    hw_classification = HardwareClassification.ACCELERATOR

    def test_weights_of_the_cpu_move(self, device: str) -> None:
        weights = torch.eye(2)
        self.assertEqual(torch.nn.functional.linear(torch.ones(2, device=device), weights.to(device)), torch.ones(2))


class TestCpu(TestCase):
    hw_classification = HardwareClassification.CPU

    def test_is_never_asked(self, device: str) -> None:
        self.fail("asked")


instantiate_device_type_tests(TestForm, globals())
instantiate_device_type_tests(TestFixture, globals())
instantiate_device_type_tests(TestAccelerator, globals())
instantiate_device_type_tests(TestCpu, globals())

if __name__ == "__main__":
    run_tests()
