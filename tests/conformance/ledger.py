"""Questions that only tests ask, and that are known to raise or to differ. They are declared case by case: one that
starts to pass fails the suite until it is removed. torch_mydev/conform/operators/ledger.py has those of any device.

Values say why. Nothing here may be a wrong value or a crash: those are never acceptable. BREADTH alone holds answers
that differ in value.
"""

from __future__ import annotations

#: An example of extending replaces these operators for good in the process that runs its tests, for some dtypes only.
REPLACED: frozenset[str] = frozenset({"logit"})

_UNSTABLE = "without `stable` equal elements, of which there are many, come in the CPU's own order"

#: Questions of breadth.py that the device answers otherwise than the CPU: patterns of a case's name, and why.
BREADTH: dict[str, str] = {
    "tensor_split-[!v]*": "torch wants the indices of tensor_split on the CPU, whatever the accelerator",
    "nn.functional.gelu-out-apart-float32": "the CPU writes elsewhere than to the elements of such a result",
    "nn.functional.max_pool1d-neg-float[36]*": "the CPU's kernel does not see the negative bit",
    "nn.functional.linear_cross_entropy.chunked_none-*-float16": "six operators, each rounded to half precision",
    "argsort-*-bool": _UNSTABLE,
    "argsort-*float16": _UNSTABLE,
    "sort-[!o]*-bool": _UNSTABLE,
    "sort-odd-bools-bool": _UNSTABLE,
    "sort-[!o]*float16": _UNSTABLE,
}

#: Questions of breadth.py whose answers a rounding of the operands moves beyond the tolerance: such an answer may be as
#: far from the CPU's as the CPU's own moves then, which is measured.
ILL_CONDITIONED: frozenset[str] = frozenset(
    {
        "nn.functional.normalize-second-backward-*",
        "linalg.householder_product-*",
        "linalg.lstsq*-second-backward-*",
        "pow-second-backward-*",
        "pow-forward-ad-*",
    }
)

#: Runs on the device in eager mode, but not under torch.compile.
COMPILED_RAISES: dict[str, str] = {}
