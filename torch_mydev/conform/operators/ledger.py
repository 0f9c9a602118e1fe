"""Facts about operators on any device: which raise, whose results are undefined, which draw random numbers.

Keys are OpInfo names with their variant (``name`` or ``name.variant``); values say why. Nothing here may be a wrong
value or a crash: those are never acceptable. In the project's own tests an operator that is declared to raise and does
not fails the suite until it is removed.
"""

from __future__ import annotations

#: Forward does not run on the device.
FORWARD_RAISES: dict[str, str] = {
    "tensor_split": "torch wants the indices of tensor_split on the CPU, whatever the accelerator",
}

#: Backward does not run on the device.
BACKWARD_RAISES: dict[str, str] = {}

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

#: Gradients of least-squares solutions. The condition of the system magnifies each rounding, and how the CPU's library
#: rounds depends on the processor and on where operands lie. An element may be as far from what float64 gives as twice
#: the CPU's farthest element is.
ILL_CONDITIONED_BACKWARD: frozenset[str] = frozenset({"linalg.lstsq", "linalg.lstsq.grad_oriented"})
