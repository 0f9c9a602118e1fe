"""What is known to raise, declared case by case: one that starts to pass fails the suite until it is removed.

Keys are OpInfo names with their variant (``name`` or ``name.variant``); values say why. Nothing here may be a wrong
value or a crash: those are never acceptable. BREADTH alone holds answers that differ in value, and a case of it
that passes is not reported.
"""

from __future__ import annotations

#: Forward does not run on the device.
FORWARD_RAISES: dict[str, str] = {
    "tensor_split": "torch wants the indices of tensor_split on the CPU, whatever the accelerator",
}

#: Backward does not run on the device.
BACKWARD_RAISES: dict[str, str] = {}

#: What an example of extending replaces for good in the process that runs its tests, for some dtypes only.
REPLACED: frozenset[str] = frozenset({"logit"})

#: Questions of breadth.py that the device answers otherwise than the CPU: patterns of a case's name, and why.
BREADTH: dict[str, str] = {
    "tensor_split-*": "torch wants the indices of tensor_split on the CPU, whatever the accelerator",
    "nn.functional.gelu-out-apart-*": "the CPU writes elsewhere than to the elements of such a result",
    "nn.functional.max_pool1d-neg-*": "the CPU's kernel does not see the negative bit",
    "nn.functional.linear_cross_entropy.chunked_none-*-float16": "six operators, each rounded to half precision",
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

#: Contents are undefined: only shape, dtype, strides and device are compared.
UNDEFINED_CONTENTS: frozenset[str] = frozenset(
    {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
)

#: Draw random numbers: shape, dtype and device are compared, and that a seed gives the same numbers again.
RANDOM: frozenset[str] = frozenset(
    {
        "bernoulli",
        "cauchy",
        "exponential",
        "geometric",
        "log_normal",
        "multinomial",
        "nn.functional.alpha_dropout",
        "nn.functional.dropout",
        "nn.functional.dropout2d",
        "nn.functional.dropout3d",
        "nn.functional.feature_alpha_dropout.with_train",
        "nn.functional.fractional_max_pool2d",
        "nn.functional.fractional_max_pool3d",
        "nn.functional.rrelu",
        "normal",
        "normal.in_place",
        "normal.number_mean",
        "pca_lowrank",
        "rand_like",
        "randint",
        "randint_like",
        "randn",
        "randn_like",
        "svd_lowrank",
        "uniform",
    }
)

#: Draw random numbers where this argument (a keyword, or a position after the first) is a probability above 0; such a
#: sample is compared as the operators of RANDOM are.
DROPOUT_ARGUMENT: dict[str, str | int] = {
    "nn.functional.multi_head_attention_forward": 9,
    "nn.functional.scaled_dot_product_attention": "dropout_p",
}
