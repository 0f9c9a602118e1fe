"""Random arguments of every operator, most of them senseless: what the CPU refuses is refused with the same kind of
exception, and what it takes gives its result."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from fuzz.eager import difference, words
from fuzz.rounds import Fuzz

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

DTYPES = [torch.float32, torch.float32, torch.float32, torch.int64, torch.bool, torch.float16, torch.float64]
SHAPES = [(2, 3), (3,), (), (1, 2, 4, 4), (2, 3, 4), (3, 3), (0, 3), (1, 1, 2, 3), (4,), (2, 2, 3, 3, 3), (1,)]
# Random ones, those whose results no two devices share (storages, strides, order of eigenvectors), those that loop as
# often as a number says, those that read beyond their operands when these are senseless, and those that wait for input.
EXCEPT = words(
    "rand bernoulli normal uniform cauchy exponential geometric dropout poisson gamma dirichlet empty binomial "
    "multinomial resize quantize fbgemm lu_ lstsq nested ormqr chol svd eig qr geqrf unsafe mkldnn miopen cudnn "
    "sparse values indices set_ sync coalesce polynomial zeta polygamma bessel ctc rnn lstm gru cell log_normal "
    "trace as_strided is_ pin_memory record_stream size stride dim item data retain output_nr version from_file "
    "copy_ to detach requires alias lift new_ names align rename refine infinitely unflatten choose sym_ "
    "histogram stft istft fft chunk split _test segment median mode argm sort topk max_pool unique int_repr hspmm "
    "dequantize q_ int8 int4 matrix_exp det inv solve pinv matrix_rank cond range linspace logspace unfold_copy "
    "view_copy corr cov batch_norm_gather batch_norm_reduce layout fill_diagonal grid_sampler group_norm "
    "native_norm embedding_bag log_sigmoid_forward batch_norm_stats batch_norm_elemt soft_margin margin_loss quantile "
    "slow_conv native_batch_norm set fused_moving_avg"
)


def operators() -> list[Any]:
    found = []
    for full in sorted(torch._C._dispatch_get_all_op_names()):
        namespace, _, rest = full.partition("::")
        name, _, overload = rest.partition(".")
        if namespace != "aten" or name.startswith("_") or any(part in name for part in EXCEPT) or "backward" in name:
            continue
        try:
            operator = getattr(getattr(torch.ops.aten, name), overload or "default")
        except AttributeError:
            continue
        kinds = [str(argument.type) for argument in operator._schema.arguments]
        if "Tensor" in kinds and not any(a.is_out for a in operator._schema.arguments) and "out" not in overload:
            found.append(operator)
    return found


class Arguments:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def of(self, operator: Any) -> Iterator[Any]:
        self.shape, self.dtype = self.random.choice(SHAPES), self.random.choice(DTYPES)
        for argument in operator._schema.arguments:
            if argument.kwarg_only:
                return
            if argument.has_default_value() and self.random.random() < 0.5:
                yield argument.default_value
            else:
                yield self._one(str(argument.real_type))

    def _one(self, kind: str) -> Any:
        choose = self.random.choice
        if kind.startswith("Optional["):
            return None if self.random.random() < 0.4 else self._one(kind[9:-1])
        if kind == "Tensor":
            # Most operands fit each other.
            shape = self.shape if self.random.random() < 0.6 else choose(SHAPES)
            dtype = self.dtype if self.random.random() < 0.75 else choose(DTYPES)
            generator = torch.Generator().manual_seed(self.random.randrange(1 << 30))
            return (torch.rand(shape, generator=generator) * 4).to(dtype)
        if kind == "List[Tensor]":
            return [self._one("Tensor") for _ in range(choose((1, 2, 2)))]
        if kind in ("int", "SymInt"):
            return choose((0, 0, 1, 1, -1, 2, 3, -2, 5))
        if kind in ("List[int]", "List[SymInt]"):
            return [self._one("int") for _ in range(choose((1, 2, 2, 3)))]
        if kind in ("float", "number"):
            return choose((0.5, 1, 2, -1.5, 0, 3))
        if kind == "ScalarType":
            return choose(DTYPES)
        if kind == "bool":
            return choose((True, False))
        return None


def outcome(operator: Any, arguments: list[Any]) -> Any:
    try:
        results = torch.utils._pytree.tree_leaves(operator(*arguments))
        torch.accelerator.synchronize()  # where errors of asynchronous work are reported
        return results
    except Exception as error:
        return error


def moved(arguments: list[Any], device: str | torch.device) -> list[Any]:
    return torch.utils._pytree.tree_map(  # type: ignore[no-any-return]
        lambda x: x.clone().to(device) if isinstance(x, torch.Tensor) else x, arguments
    )


def disagreement(expected: Any, actual: Any) -> str | None:
    if isinstance(expected, Exception) or isinstance(actual, Exception):
        related = isinstance(expected, type(actual)) or isinstance(actual, type(expected))
        return None if related else f"{actual!r:.300}, on the CPU {expected!r:.300}"
    for e, a in zip(expected, actual, strict=True):
        if isinstance(e, torch.Tensor) and min(e.shape, default=0) >= 0:  # PyTorch expands to sizes below 0
            problem = difference(e.contiguous(), a.contiguous(), (1e-3, 1e-3))
            if problem:
                return f"{problem}: {a}, on the CPU {e}"
    return None


@pytest.mark.parametrize("part", range(8))
def test_arguments_are_taken_and_refused_as_by_the_cpu(fuzz: Fuzz, device: torch.device, part: int) -> None:
    findings: dict[str, str] = {}
    refused = made = 0
    chosen = operators()[part::8]
    for seed in fuzz.seeds(6, first=part * 1_000_000):
        source = Arguments(seed)
        for operator in chosen:
            arguments = list(source.of(operator))
            expected = outcome(operator, moved(arguments, "cpu"))
            problem = disagreement(expected, outcome(operator, moved(arguments, device)))
            made, refused = made + 1, refused + isinstance(expected, Exception)
            if problem:
                findings.setdefault(str(operator), f"{operator}({arguments}), seed {seed}: {problem}")
    fuzz.made("calls with random arguments", made)
    fuzz.made("calls with random arguments that are refused", refused)
    assert not findings, "\n\n".join(findings.values())
    assert made > refused > 0
