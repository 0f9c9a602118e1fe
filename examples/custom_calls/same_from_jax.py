"""The kernels of this library called from JAX and from PyTorch, in one process: the same results, and gradients.

    python examples/custom_calls/same_from_jax.py [the library]

Without a library it builds it. Exits with 1 where the two sides differ in a bit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import torch
from build_library import build
from torch import Tensor

import pjrt_mydev
import torch_mydev
from torch_mydev.jax import from_jax, to_jax

DEVICE = torch_mydev.device_name


# [docs: from-jax]
def capped_attention(queries: jax.Array, keys: jax.Array) -> jax.Array:
    """Scores, capped by the kernel; differentiable, under jit, vmap and the rest."""
    softcap = pjrt_mydev.kernel("example.softcap")
    return jax.nn.softmax(softcap(queries @ keys.T, cap=50.0))


# [docs: end]


def operands() -> dict[str, tuple[Sequence[Tensor], dict[str, Any]]]:
    """The arguments of each kernel, by its name."""
    torch.manual_seed(0)
    angles = torch.outer(torch.arange(6.0), 100 ** -torch.arange(0, 1, 0.5))
    matrix = torch.randn(5, 7) * (torch.rand(5, 7) < 0.4)
    sparse = matrix.to_sparse_csr()
    given = {
        "example.softcap": ([torch.randn(4, 5) * 40], {"cap": 20.0}),
        "example.rms_norm_rope": (
            [torch.randn(2, 6, 4), torch.rand(4), torch.cat([angles.cos(), angles.sin()], 1)],
            {"eps": 1e-5},
        ),
        "example.csr_matmul": (
            [sparse.crow_indices().int(), sparse.col_indices().int(), sparse.values(), torch.randn(7, 3)],
            {},
        ),
    }
    return {name: ([tensor.to(DEVICE) for tensor in tensors], options) for name, (tensors, options) in given.items()}


def by_torch(name: str, tensors: Sequence[Tensor], options: dict[str, Any]) -> list[Tensor]:
    """The result, and the gradients of its sum of squares."""
    leaves = [tensor.detach().requires_grad_(tensor.is_floating_point()) for tensor in tensors]
    operator: Callable[..., Tensor] = getattr(torch.ops.mydev_cc, name.replace(".", "_"))
    wrt = torch_mydev.kernel_info(name)["differentiable"]
    leaves = [leaf if i in wrt else leaf.detach() for i, leaf in enumerate(leaves)]
    result = operator(*leaves, **options)
    (result * result).sum().backward()
    return [result.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]


def by_jax(name: str, tensors: Sequence[Tensor], options: dict[str, Any]) -> list[Tensor]:
    """The same, of the same memory."""
    kernel = pjrt_mydev.kernel(name)
    wrt = tuple(kernel.info["differentiable"])

    def squares(*arrays: jax.Array) -> tuple[jax.Array, jax.Array]:
        result = kernel(*arrays, **options)
        return (result * result).sum(), result

    (_, result), gradients = jax.jit(jax.value_and_grad(squares, argnums=wrt, has_aux=True))(*map(to_jax, tensors))
    return [from_jax(array) for array in (result, *gradients)]


def main() -> int:
    jax.config.update("jax_platforms", DEVICE)
    library = Path(sys.argv[1]) if len(sys.argv) > 1 else build()
    torch_mydev.load_custom_calls(library)  # the registry is one: JAX finds them too
    same = True
    for name, (tensors, options) in operands().items():
        pairs = list(zip(by_torch(name, tensors, options), by_jax(name, tensors, options), strict=True))
        equal = [torch.allclose(a.cpu(), b.cpu(), rtol=1e-5, atol=1e-4) for a, b in pairs]
        print(f"{name}: result and {len(pairs) - 1} gradients {'are the same' if all(equal) else f'differ: {equal}'}")
        same = same and all(equal)
    batch = jnp.ones((2, 3, 4))
    print(f"batched scores: {jax.vmap(capped_attention)(batch, batch).shape}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
