"""Trains a small model in PyTorch on the device, calls the custom call, and prints what ran on the CPU instead."""

import torch
from torch import nn

import torch_mydev

# [docs: train]
torch.manual_seed(0)
x = torch.randn(256, 4, device="acme")
y = (x.sum(1, keepdim=True) > 0).float()
model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1)).acme()
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
with torch_mydev.fallback_census() as census:
    for _ in range(50):
        loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"{loss.device} is {torch.acme.get_device_name()}: loss {loss.item():.2f}")
print(census)
# [docs: end]
assert loss.item() < 0.2, loss

capped = torch.ops.mydev_cc.acme_softcap(x, cap=2.0)
torch.testing.assert_close(capped.cpu(), 2 * torch.tanh(x.cpu() / 2))
torch.testing.assert_close(torch.ops.acme.twice(x).cpu(), 2 * x.cpu())
