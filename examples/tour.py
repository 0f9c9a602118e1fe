"""Training on the device in some ten lines, and what fell back. README.md shows the marked part and its output."""

# [docs: tour]
import torch
from torch import nn

import torch_mydev

torch.manual_seed(0)
x = torch.randn(256, 4, device="mydev")
y = (x.sum(1, keepdim=True) > 0).float()  # computed on the device
model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1)).to("mydev")
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
with torch_mydev.fallback_census() as census:
    for _ in range(100):
        loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"{loss.device} is {torch.mydev.get_device_name()}: loss {loss.item():.2f}")
print(census)  # which operators ran on the CPU instead, how often, and from which line
# [docs: end]
