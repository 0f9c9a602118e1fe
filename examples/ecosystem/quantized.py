"""Quantized weights, by torchao and by torch itself: python quantized.py [device] [int8|float8|dynamic]"""

import json
import sys

import torch
from torch import nn


def run(device: str, kind: str = "int8") -> dict:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 64)).eval()
    inputs = torch.randn(8, 128).to(device)
    if kind == "dynamic":
        model = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8).to(device)
    else:
        from torchao.quantization import Float8WeightOnlyConfig, Int8WeightOnlyConfig, quantize_

        model = model.to(device)
        quantize_(model, Int8WeightOnlyConfig(version=2) if kind == "int8" else Float8WeightOnlyConfig())
    with torch.no_grad():
        outputs = model(inputs)
    return {"device": str(outputs.device), "values": outputs.cpu()[:, :4].flatten().tolist()}


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:] or ["mydev"])))
