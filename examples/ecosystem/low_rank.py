"""Fine-tunes a small Llama by low-rank adapters of peft, then merges them: python low_rank.py [device]"""

import json
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM


def run(device: str, steps: int = 5) -> dict:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=100,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    model = get_peft_model(LlamaForCausalLM(config), LoraConfig(r=4, target_modules=["q_proj", "v_proj"])).to(device)
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-2)
    tokens = torch.randint(0, 100, (4, 32)).to(device)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    merged = model.merge_and_unload().eval()
    with torch.no_grad():
        losses.append(merged(input_ids=tokens, labels=tokens).loss.item())
    return {"device": str(tokens.device), "losses": losses}


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:] or ["mydev"])))
