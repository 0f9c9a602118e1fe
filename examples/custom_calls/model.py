"""A small transformer whose attention normalises and rotates its queries and keys: by PyTorch's operators, or by the
fused kernel of this library.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def rotation_table(length: int, width: int, base: float = 10_000.0) -> Tensor:
    """Per position the cosines, then the sines, of the angles by which the halves of a row turn."""
    frequencies = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.outer(torch.arange(length, dtype=torch.float64), frequencies)
    return torch.cat([angles.cos(), angles.sin()], -1).float()


# [docs: composed]
def composed_norm_rope(x: Tensor, weight: Tensor, rotation: Tensor, eps: float = 1e-6) -> Tensor:
    """Computes example.rms_norm_rope by PyTorch's operators. x: (..., time, width)."""
    x = F.rms_norm(x, x.shape[-1:], weight, eps)
    cosines, sines = rotation.chunk(2, -1)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cosines - b * sines, b * cosines + a * sines], -1)


def fused_norm_rope(x: Tensor, weight: Tensor, rotation: Tensor, eps: float = 1e-6) -> Tensor:
    """The same by one kernel, after torch_mydev.load_custom_calls."""
    return torch.ops.mydev_cc.example_rms_norm_rope(x, weight, rotation, eps=eps)


# [docs: end]


class Attention(nn.Module):
    """Causal self-attention."""

    rotation: Tensor

    def __init__(self, width: int, heads: int, length: int, fused: bool) -> None:
        super().__init__()
        self.heads = heads
        self.norm_rope = fused_norm_rope if fused else composed_norm_rope
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.query_weight = nn.Parameter(torch.ones(width // heads))
        self.key_weight = nn.Parameter(torch.ones(width // heads))
        self.register_buffer("rotation", rotation_table(length, width // heads))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        # Heads before time, as views: the kernel reads any strides.
        query, key, value = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        query = self.norm_rope(query, self.query_weight, self.rotation)
        key = self.norm_rope(key, self.key_weight, self.rotation)
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention and a perceptron, each with its norm and its way around."""

    def __init__(self, width: int, heads: int, length: int, fused: bool) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.RMSNorm(width, eps=1e-6) for _ in range(2)])
        self.attention = Attention(width, heads, length, fused)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norms[0](x))
        return x + self.down(F.silu(self.up(self.norms[1](x))))


class Transformer(nn.Module):
    """Scores of the next token, at every position."""

    def __init__(
        self, vocabulary: int, length: int, width: int = 64, heads: int = 4, blocks: int = 2, fused: bool = True
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.Sequential(*[Block(width, heads, length, fused) for _ in range(blocks)])
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.head = nn.Linear(width, vocabulary, bias=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=1 / math.sqrt(width))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.embedding(tokens))))
