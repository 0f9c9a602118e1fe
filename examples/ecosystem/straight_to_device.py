"""Weights read straight to the device, and a model that is placed by itself: python straight_to_device.py"""

import json
import sys
import tempfile
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel


def run(device: str) -> dict:
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=100, n_positions=64, n_embd=32, n_layer=2, n_head=2)).eval()
    tokens = torch.randint(0, 100, (1, 8))
    with tempfile.TemporaryDirectory() as directory:
        model.save_pretrained(directory)
        placed = GPT2LMHeadModel.from_pretrained(directory, device_map="auto" if device != "cpu" else "cpu").eval()
        named = GPT2LMHeadModel.from_pretrained(directory, device_map=device).eval()
        file = Path(directory) / "more.safetensors"
        save_file({"weight": torch.arange(6.0).reshape(2, 3)}, file)
        with safe_open(file, framework="pt", device=device) as opened:
            part = opened.get_slice("weight")[:, 1:]
        whole = load_file(file, device=device)["weight"]
    words = [each.generate(tokens.to(each.device), max_new_tokens=8, do_sample=False) for each in (placed, named)]
    devices = {str(tensor.device) for tensor in (*words, part, whole)}
    return {"device": devices.pop() if len(devices) == 1 else str(devices), "words": [each.tolist() for each in words]}


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:] or ["mydev"])))
