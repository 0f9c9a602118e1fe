"""Trains and runs mixtures of experts, Mixtral and Qwen3-MoE: python mixture_of_experts.py [device]"""

import json
import sys

import torch
from transformers import MixtralConfig, MixtralForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

SIZES = {
    "vocab_size": 100,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_experts_per_tok": 2,
}


def run(device: str, name: str = "Mixtral", steps: int = 3) -> dict:
    torch.manual_seed(0)
    if name == "Mixtral":
        model = MixtralForCausalLM(MixtralConfig(**SIZES, num_local_experts=4))
    else:
        model = Qwen3MoeForCausalLM(Qwen3MoeConfig(**SIZES, num_experts=4, moe_intermediate_size=64, head_dim=16))
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(0, 100, (2, 16)).to(device)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    words = model.eval().generate(tokens[:1], max_new_tokens=8, do_sample=False)
    return {"device": str(words.device), "losses": losses, "words": words.tolist()}


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:] or ["mydev"])))
