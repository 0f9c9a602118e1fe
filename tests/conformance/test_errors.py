"""Input that PyTorch's own database calls wrong raises on the device, as on the CPU and with the same words."""

from __future__ import annotations

import re
import warnings

import pytest
from torch.testing._internal.opinfo.core import ErrorInput, OpInfo

from torch_mydev.conform.operators import harness

from . import ledger

CASES = [
    pytest.param(op, id=harness.case_name(op))
    for op in harness.OPERATORS
    if op.error_inputs_func is not None and op.name not in ledger.REPLACED
]


def _refused_by_cpu(op: OpInfo, wrong: ErrorInput) -> bool:
    """Some inputs are wrong on other devices only."""
    try:
        harness.run(op, wrong.sample_input)
    except wrong.error_type:
        return True
    return False


@pytest.mark.parametrize("op", CASES)
def test_raises_as_the_cpu_does(op: OpInfo) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for wrong in harness.error_inputs(op):
            if not _refused_by_cpu(op, wrong):
                continue
            with pytest.raises(wrong.error_type) as caught:
                harness.run(op, harness.on_device(wrong.sample_input))
            assert re.search(wrong.error_regex, str(caught.value)), str(caught.value)
