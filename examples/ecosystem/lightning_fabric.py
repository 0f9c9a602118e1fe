"""Trains a small network with Lightning's Fabric, which chooses the device by itself.

python examples/ecosystem/lightning_fabric.py [accelerator=mydev] [precision=16-mixed]
"""

import json
import sys

import torch
from lightning.fabric import Fabric
from torch import nn


def run(**options) -> dict:
    fabric = Fabric(**options)
    fabric.launch()
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 4))
    inputs = torch.randn(64, 64)
    targets = inputs[:, :4].argmax(1)
    dtypes = set()
    network[0].register_forward_hook(lambda *call: dtypes.add(str(call[2].dtype)))
    model, optimizer = fabric.setup(network, torch.optim.SGD(network.parameters(), lr=0.1))
    inputs, targets = fabric.to_device((inputs, targets))
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        fabric.backward(loss)
        optimizer.step()
        losses.append(loss.item())
    return {"device": str(fabric.device), "computed in": sorted(dtypes), "losses": losses}


if __name__ == "__main__":
    print(json.dumps(run(**dict(argument.split("=") for argument in sys.argv[1:]))))
