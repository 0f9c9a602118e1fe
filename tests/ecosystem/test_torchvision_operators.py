"""Operators that torchvision has in C++, for the CPU and CUDA: the device runs the CPU's, by fallback."""

from __future__ import annotations

import pytest

from support.programs import assert_same, program

extension = pytest.importorskip("torchvision.extension", reason="torchvision is not installed")

# Its packages for CUDA do not load beside the CPU's torch; tools/test_torch.sh installs one that fits its torch.
pytestmark = pytest.mark.skipif(not extension._has_ops(), reason="torchvision's C++ operators do not load")


def test_boxes_and_regions_are_those_of_the_cpu() -> None:
    run = program("detection")
    result = run("mydev")
    assert result["device"] == "mydev:0"
    assert_same(result, run("cpu"))
