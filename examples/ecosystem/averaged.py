"""A moving average of weights and of batch normalization's buffers: python averaged.py [device]"""

import json
import sys

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


def run(device: str, steps: int = 4) -> dict:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4)).to(device)
    moving = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(8, 16).to(device)).square().mean().backward()
        optimizer.step()
        moving.update_parameters(model)
    inputs = torch.randn(8, 16).to(device)
    values = moving.eval()(inputs).mean(1).tolist()
    count = moving.module[1].num_batches_tracked.item()
    return {"device": str(inputs.device), "values": values, "count": count}


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:] or ["mydev"])))
