"""Attention with a bias by distance and a causal block mask: python flexible_attention.py [device]"""

import json
import sys

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def run(device: str, compiled: bool = False, gradient: bool = True) -> dict:
    def bias(score, batch, head, query, key):
        return score + (key - query) * 0.01

    def causal(batch, head, query, key):
        return query >= key

    torch.manual_seed(0)
    attention = torch.compile(flex_attention) if compiled else flex_attention
    needs_gradient = gradient and device != "cpu"  # where torch has none
    query, key, value = (torch.randn(2, 4, 256, 32).to(device).requires_grad_(needs_gradient) for _ in range(3))
    mask = create_block_mask(causal, 2, 4, 256, 256, device=device)
    result = attention(query, key, value, score_mod=bias, block_mask=mask)
    if needs_gradient:
        result.sum().backward()
    return {"device": str(result.device), "values": result.detach().cpu().mean((0, 1, 3))[:8].tolist()}


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:] or ["mydev"])))
