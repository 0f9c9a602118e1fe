"""Random programs of eager mode, as lines of Python, and what the device makes of them beside the CPU."""

from __future__ import annotations

import random
import warnings
from typing import Any

import torch
import torch.nn.functional as F


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


DTYPES = (
    "float32",
    "float32",
    "float16",
    "bfloat16",
    "float64",
    "int64",
    "int32",
    "uint8",
    "int8",
    "bool",
    "complex64",
)
SHAPES = ((2, 3), (3,), (1, 3), (2, 1), (2, 3, 4), (4,), (), (3, 3), (0, 3), (5, 2), (1,), (2, 3, 1, 2))
VALUES = (0.0, -0.0, 1.0, -1.0, 2.0, 3.0, -2.5, 0.5, 0.1, 7.0, 100.0, -30.0, 1e-3, 250.0)
SPECIAL = ("inf", "-inf", "nan", 1e-30, 3e38, 65504.0, 1e-8)
NUMBERS = (
    *(0, 1, -1, 2, 3, 7, 0.5, -2.5, 0.1, 1e-9, 65536, 7e4, 1e10, -0.0, 300, -129, 2**31, 2**40, True, False),
    *("inf", "-inf", "nan"),
)

UNARY = words(
    "abs acos acosh angle asin asinh atan atanh bitwise_not ceil conj_physical cos cosh deg2rad digamma erf erfc "
    "erfinv exp exp2 expm1 floor frac i0 isfinite isinf isnan isneginf isposinf isreal lgamma log log10 log1p log2 "
    "logical_not logit nan_to_num neg positive rad2deg reciprocal round rsqrt sgn sigmoid sign sin sinc "
    "sinh sqrt square tan tanh trunc zeros_like ones_like clone relu selu nonzero count_nonzero flatten"
)
UNARY_OF_F = words(
    "relu relu6 elu celu selu silu mish softplus softsign tanhshrink hardswish hardsigmoid hardtanh logsigmoid "
    "leaky_relu hardshrink softshrink"
)
BINARY = words(
    "add sub mul div true_divide floor_divide remainder fmod pow atan2 maximum minimum fmax fmin eq ne lt le gt ge "
    "logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift "
    "copysign hypot nextafter ldexp logaddexp logaddexp2 xlogy heaviside gcd lcm float_power"
)
NUMBER_RIGHT = words(
    "add sub mul div true_divide floor_divide remainder fmod pow eq ne lt le gt ge bitwise_and bitwise_or "
    "bitwise_xor clamp_min clamp_max float_power"
)
IN_PLACE = words(
    "add sub mul div floor_divide remainder fmod pow atan2 eq ne lt le gt ge logical_and logical_or logical_xor "
    "bitwise_and bitwise_or bitwise_xor copy hypot"
)
IN_PLACE_UNARY = words("abs ceil exp floor neg sqrt sigmoid tanh zero relu square trunc logical_not t reciprocal")
REDUCTIONS = words(
    "sum mean amax amin any all logsumexp std var nansum nanmean norm cumsum cumprod softmax log_softmax sort "
    "argsort flip unbind cummax cummin logcumsumexp diff count_nonzero mode"
)
VIEWS = (
    "{x}.t()",
    "{x}.transpose(0, -1)",
    "{x}[1:]",
    "{x}[..., ::2]",
    "{x}[..., -1]",
    "{x}[None]",
    "{x}.unsqueeze(-1)",
    "{x}.squeeze()",
    "{x}.expand(2, *{x}.shape)",
    "{x}.flatten()",
    "{x}.reshape(-1)",
    "{x}.narrow({d}, 0, 1)",
    "{x}.movedim(0, -1)",
    "{x}.diagonal()",
    "{x}.unfold({d}, 2, 1)",
    "{x}.real",
    "{x}.conj()",
    "{x}.imag",
    "{x}.detach()",
    "{x}.view(-1)",
    "{x}.swapaxes(0, 1)",
)
TERNARY = (
    "torch.where({b}, {x}, {y})",
    "torch.where({b}, {x}, {n})",
    "torch.addcmul({x}, {y}, {z}, value={n})",
    "torch.addcdiv({x}, {y}, {z}, value={n})",
    "torch.lerp({x}, {y}, {z})",
    "torch.lerp({x}, {y}, {n})",
    "torch.clamp({x}, {n}, {m})",
    "torch.clamp({x}, {y}, {z})",
    "torch.add({x}, {y}, alpha={n})",
    "torch.sub({x}, {y}, alpha={n})",
    "torch.rsub({x}, {n})",
    "{n} - {x}",
    "{n} / {x}",
    "{n} ** {x}",
    "torch.div({x}, {y}, rounding_mode='floor')",
    "torch.div({x}, {n}, rounding_mode='trunc')",
    "F.threshold({x}, {n}, {m})",
    "{x}.masked_fill({b}, {n})",
    "{x}.masked_fill_({b}, {n})",
    "{x}.fill_({n})",
    "{x}.clamp_({n}, {m})",
    "{x}.to(torch.{dtype})",
    "{x}.to(torch.{dtype})",
    "{x}.contiguous()",
    "{x}.copy_({y})",
)
SHAPED = (
    "torch.cat([{x}, {y}], {d})",
    "torch.stack([{x}, {x}], {d})",
    "torch.matmul({x}, {y})",
    "torch.matmul({x}, {x}.mT)",
    "F.linear({x}, {y})",
    "torch.outer({x}.flatten(), {y}.flatten())",
    "torch.dot({x}.flatten(), {x}.flatten())",
    "F.pad({x}, (1, 2), value={n})",
    "torch.roll({x}, 1, {d})",
    "torch.tril({x})",
    "{x}.repeat(2, *[1] * {x}.dim())",
    "{x}.repeat_interleave(2, {d})",
    "{x}[{x} > 0]",
    "{x}[{b}]",
    "{x}.__setitem__({b}, {n})",
    "{x}[{i}.long() % 2]",
    "{x}.index_select({d}, torch.tensor([0, -1 % {x}.shape[{d}]], device=device))",
    "{x}.gather({d}, torch.zeros_like({x}, dtype=torch.long))",
    "{x}.scatter({d}, torch.zeros_like({x}, dtype=torch.long), {n})",
    "{x}.scatter_add({d}, torch.zeros_like({x}, dtype=torch.long), {x})",
    "{x}.index_add({d}, torch.zeros(1, dtype=torch.long, device=device), {x}.narrow({d}, 0, 1))",
    "{x}.index_fill({d}, torch.zeros(1, dtype=torch.long, device=device), {n})",
    "torch.topk({x}, 1, {d})",
    "torch.einsum('...i,...i->...', {x}, {y})",
    "F.layer_norm({x}.clamp(-99, 99), {x}.shape[-1:])",
    "F.gelu({x}.clamp(-99, 99))",
    "{x}.clamp(-9, 9).prod({d})",
    "{x}.float().argmax({d})",
    "{x}.float().argmin()",
    "{x}.contiguous().median({d})",
    "F.rms_norm({x}, {x}.shape[-1:])",
    "F.mse_loss({x}, {y})",
    "F.l1_loss({x}, {y}, reduction='sum')",
    "F.softmax({x}, {d})",
    "F.normalize({x}, dim={d})",
    "F.avg_pool1d({x}, 2)",
    "F.max_pool1d({x}.float(), 2)",
    "F.conv1d({x}, {x})",
    "torch.bincount({i}.flatten().abs() % 5)",
    "torch.isin({x}.contiguous(), {y}.contiguous())",
    "torch.equal({x}, {y})",
    "torch.searchsorted({x}.flatten().sort()[0], {y})",
    "torch.unique({x})",
    "torch.linalg.vector_norm({x}, {n}, dim={d})",
    "torch.renorm({x}, 2, {d}, 1.0)",
    "torch.cdist({x}, {x})",
    "torch.meshgrid({x}.flatten(), {y}.flatten(), indexing='ij')",
    "torch._foreach_add([{x}, {y}], 7)",
    "torch._foreach_mul([{x}, {y}], [{y}, {x}])",
)
OUT = (
    "torch.add({x}, {y}, out={z})",
    "torch.mul({x}, {n}, out={z})",
    "torch.lt({x}, {y}, out={z})",
    "torch.sum({x}, {d}, out={w})",
    "torch.matmul({x}, {x}, out={w})",
    "torch.cat([{x}, {x}], out={z})",
    "torch.neg({x}, out={z})",
    "torch.index_select({x}, 0, torch.zeros(1, dtype=torch.long, device=device), out={w})",
    "torch.cumsum({x}, {d}, out={w})",
)

# The device takes bools where the CPU takes none (argmax), and integers (max_pool1d); it gives gelu(inf) in half
# precision and the layer norm of values beyond the root of the dtype's range, where the CPU gives NaN. The CPU's median
# of elements that share memory is no median. So lines do not ask for any of these.
TOLERANCES = {
    torch.float16: (4e-3, 1e-3),
    torch.bfloat16: (3e-2, 1e-2),
    torch.float32: (2e-5, 1e-6),
    torch.complex64: (2e-5, 1e-6),
}


class EagerProgram:
    """Makes itself line by line: each runs on the CPU and on the device, and all variables are compared."""

    tolerance: tuple[float, float] | None = None  # each dtype's own
    numbers: tuple[float | str, ...] = NUMBERS
    avoided: tuple[str, ...] = ()  # parts of lines

    def __init__(self, seed: int, device: str, functional: bool = False) -> None:
        self.random = random.Random(seed)
        self.seed, self.functional = seed, functional
        self.lines: list[str] = []
        self.refused = 0
        self.ended = False
        self.cpu: dict[str, Any] = self._namespace("cpu")
        self.device: dict[str, Any] = self._namespace(device)
        self.names: list[str] = []

    def _namespace(self, device: str) -> dict[str, Any]:
        return {"torch": torch, "F": F, "device": device, "inf": float("inf"), "nan": float("nan")}

    def run(self) -> str | None:
        """Returns the first difference from the CPU; None if there is none."""
        for _ in range(self.random.randint(2, 4)):
            problem = self.step(self._leaf())
            if problem:
                return problem
        for _ in range(self.random.randint(8, 24) if self.names else 0):
            problem = self.step(self._line())
            if problem or self.ended:
                return problem
        return None

    def script(self) -> str:
        head = "import torch\nimport torch.nn.functional as F\nfrom math import inf, nan\ndevice = 'mydev'"
        return "\n".join([f"# eager program {self.seed}", head, *self.lines])

    # --- making lines ------------------------------------------------------------------------------------------------

    def _leaf(self) -> str:
        dtype, shape = self.random.choice(DTYPES), self.random.choice(SHAPES)
        count = torch.Size(shape).numel()
        pool = VALUES + SPECIAL if self.random.random() < 0.3 else VALUES
        values = [self.random.choice(pool) for _ in range(count)]
        if dtype not in ("float16", "bfloat16", "float32", "float64", "complex64"):
            values = [int(v) % 101 for v in (self.random.choice(VALUES) for _ in range(count))]
        text = ", ".join(str(value) for value in values)
        return f"{self._new()} = torch.tensor([{text}], dtype=torch.{dtype}, device=device).view({shape})"

    def _new(self) -> str:
        return f"x{len(self.names)}"

    def _line(self) -> str:
        kind = self.random.choices(
            ("unary", "binary", "in place", "reduction", "view", "ternary", "shaped", "out", "leaf"),
            (3, 5, 0 if self.functional else 4, 3, 5, 5, 5, 0 if self.functional else 2, 1),
        )[0]
        choose = self.random.choice
        if kind == "leaf":
            return self._leaf()
        if kind == "unary":
            name = choose(UNARY_OF_F) if self.random.random() < 0.3 else ""
            call = f"F.{name}({{x}})" if name else f"torch.{choose(UNARY)}({{x}})"
        elif kind == "binary":
            if self.random.random() < 0.5:
                call = f"torch.{choose(BINARY)}({{x}}, {{y}})"
            else:
                call = f"torch.{choose(NUMBER_RIGHT)}({{x}}, {{n}})"
        elif kind == "in place":
            form = self.random.random()
            if form < 0.5:
                call = f"{{x}}.{choose(IN_PLACE)}_({{y}})"
            elif form < 0.8:
                call = f"{{x}}.{choose(NUMBER_RIGHT[:-3])}_({{n}})"
            else:
                call = f"{{x}}.{choose(IN_PLACE_UNARY)}_()"
        elif kind == "reduction":
            call = f"{{x}}.{choose(REDUCTIONS)}({choose(('{d}', '{d}', ''))})"
        else:
            call = choose({"view": VIEWS, "ternary": TERNARY, "shaped": SHAPED, "out": OUT}[kind])
        if self.functional and (".copy_" in call or "fill_(" in call or "clamp_(" in call or "__setitem__" in call):
            return self._line()
        if any(part in call for part in self.avoided):
            return self._line()
        return f"{self._new()} = {self._fill(call)}"

    def _fill(self, call: str) -> str:
        choose = self.random.choice
        x = choose(self.names)
        bools = [name for name in self.names if self.cpu[name].dtype == torch.bool]
        integers = [name for name in self.names if self.cpu[name].dtype in (torch.int64, torch.int32, torch.uint8)]
        # A call that writes where it reads, or writes one element several times, is an error, or means nothing.
        others = self.names
        if writes(call):
            if has_shared_elements(self.cpu[x]):
                return f"{x}.clone()"
            others = [name for name in self.names if name == x or not shares_memory(self.cpu[name], self.cpu[x])]
        y = choose(others)
        apart = [name for name in others if not any(shares_memory(self.cpu[name], self.cpu[read]) for read in (x, y))]
        results = [name for name in apart if not has_shared_elements(self.cpu[name])]
        return call.format(
            x=x,
            y=y,
            z=choose(results if "out=" in call and results else others),
            w=choose(results) if results else "torch.empty(0, device=device)",
            b=choose(bools) if bools else f"({x} > 0)",
            i=choose(integers) if integers else f"{x}.long()",
            n=choose(self.numbers),
            m=choose(self.numbers),
            d=choose((0, -1, 1)),
            dtype=choose(DTYPES),
        )

    # --- running lines -----------------------------------------------------------------------------------------------

    def step(self, line: str) -> str | None:
        return self._judge(line, self._attempt(line, self.cpu), self._attempt(line, self.device))

    def _judge(self, line: str, expected: Exception | None, actual: Exception | None) -> str | None:
        self.lines.append(line)
        if isinstance(expected, Exception) or isinstance(actual, Exception):
            related = isinstance(expected, type(actual)) or isinstance(actual, type(expected))
            # A portable kernel has one error for all numbers in memory that it refuses.
            if not related and not (expected is not None and "in compiled." in str(actual)):
                return f"{line}\non the CPU: {expected!r}\non the device: {actual!r}"
            self.refused += 1
            self.lines[-1] = f"# refused: {line}"
            if writes(line):  # the CPU may have resized or written a part
                self.ended = True
        else:
            self._keep(line)
        return None if self.ended else self._compare(line)

    def _attempt(self, line: str, namespace: dict[str, Any]) -> Exception | None:
        try:
            exec(line, namespace)
            if namespace["device"] != "cpu":
                torch.accelerator.synchronize()  # where errors of asynchronous work are reported
        except Exception as error:
            return error
        return None

    def _keep(self, line: str) -> None:
        """Keeps the value that the line made, if it is a tensor of a size that is worth going on with."""
        name = line.partition(" = ")[0]
        for namespace in (self.cpu, self.device):
            if isinstance(namespace[name], tuple | list):
                namespace[name] = next(iter(namespace[name]), None)
            if isinstance(namespace[name], bool | int | float):
                namespace[name] = torch.tensor(namespace[name], device=namespace["device"])
        if isinstance(self.cpu[name], torch.Tensor) and self.cpu[name].numel() < 500:
            self.names.append(name)

    def _compare(self, line: str) -> str | None:
        for name in self.names:
            expected, actual = self.cpu[name], self.device[name]
            problem = difference(expected, actual, self.tolerance)
            if problem:
                return f"{line}\n{name}: {problem}\non the CPU: {expected}\non the device: {actual.cpu()}"
            if expected.dtype in TOLERANCES or expected.dtype == torch.float64:
                self._follow(expected, actual)
        return None

    def _follow(self, expected: torch.Tensor, actual: torch.Tensor) -> None:
        """Small differences are not to grow from line to line."""
        if not torch.equal(expected.resolve_conj(), actual.cpu().resolve_conj()):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    actual.detach().copy_(expected.detach())
                except RuntimeError:  # elements that share memory
                    return


class GradientProgram(EagerProgram):
    """A program that writes nothing in place, of which each tensor that depends on the leaves is differentiated."""

    tolerance = (1e-3, 1e-4)  # differences grow from line to line
    # These parts make much of small differences.
    avoided = ("rounding_mode", "floor", "ceil", "round", "trunc", "frac", "remainder", "fmod", "sgn", "sign(", "mode(")
    # The CPU's power of a tiny number depends on how many elements there are.
    numbers = tuple(n for n in NUMBERS if isinstance(n, int | float) and abs(n) < 10 and n != 1e-9)

    def __init__(self, seed: int, device: str) -> None:
        super().__init__(seed, device, functional=True)
        self.gradients = 0

    def _leaf(self) -> str:
        shape = self.random.choice(SHAPES[:8])
        values = ", ".join(
            str(self.random.choice((0.3, -1.2, 2.5, 0.7, -0.4, 1.1))) for _ in range(torch.Size(shape).numel())
        )
        dtype = self.random.choice(("float32", "float32", "float64"))
        tensor = f"torch.tensor([{values}], dtype=torch.{dtype}, device=device).view({shape})"
        return f"{self._new()} = {tensor}.requires_grad_()"

    def _follow(self, expected: torch.Tensor, actual: torch.Tensor) -> None:
        """Nothing: what backwards read is not to change."""

    def run(self) -> str | None:
        problem = super().run()
        return problem or next(filter(None, map(self._differentiate, list(self.names))), None)

    def _differentiate(self, name: str) -> str | None:
        leaves = [leaf for leaf in self.names if self.cpu[leaf].requires_grad and self.cpu[leaf].is_leaf]
        if not self.cpu[name].requires_grad or self.cpu[name].is_leaf or not leaves:
            return None
        inputs = ", ".join(leaves)
        weights = f"torch.linspace(1, 2, {name}.numel(), device=device).view({name}.shape)"
        line = f"g = torch.autograd.grad(({name} * {weights}).sum(), [{inputs}], retain_graph=True, allow_unused=True)"
        self.lines.append(line)
        errors = [type(self._attempt(line, namespace)) for namespace in (self.cpu, self.device)]
        if errors[0] is not errors[1]:
            return f"{line}: {errors[1]}, on the CPU {errors[0]}"
        if errors[0] is not type(None):
            return None
        for leaf, expected, actual in zip(leaves, self.cpu["g"], self.device["g"], strict=True):
            if (expected is None) != (actual is None):
                return f"{line}: the gradient of {leaf} is {actual}, on the CPU {expected}"
            if expected is None:
                continue
            self.gradients += 1
            problem = difference(expected.contiguous(), actual.contiguous(), self.tolerance)
            if problem:
                return f"{line}: {leaf}: {problem}\non the CPU: {expected}\non the device: {actual}"
        return None


def writes(call: str) -> bool:
    return "_(" in call or "__setitem__" in call or "out=" in call


def has_shared_elements(tensor: torch.Tensor) -> bool:
    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    if tensor.numel() == 0:
        return False
    places = torch.arange(span).as_strided(tensor.shape, tensor.stride())
    return places.unique().numel() < tensor.numel()


def shares_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def difference(
    expected: torch.Tensor, actual: torch.Tensor, tolerance: tuple[float, float] | None = None
) -> str | None:
    if expected.dtype != actual.dtype:
        return f"dtype {actual.dtype}, not {expected.dtype}"
    if expected.shape != actual.shape:
        return f"shape {tuple(actual.shape)}, not {tuple(expected.shape)}"
    if expected.numel() > 0 and expected.stride() != actual.stride():
        return f"strides {actual.stride()}, not {expected.stride()}"
    rtol, atol = tolerance or TOLERANCES.get(expected.dtype, (1e-9, 1e-9))
    try:
        torch.testing.assert_close(actual.cpu(), expected, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as error:
        return str(error).partition("\n")[0]
    return None
