"""The device in twenty lines: make tensors, train, see what fell back, save. README.md shows the marked part."""

# [docs: tour]
import io

import torch
from torch import nn

import torch_mydev

print(torch.mydev.get_device_name(), "x", torch.mydev.device_count())
x = torch.randn(256, 4, device="mydev")  # made on the device
y = (x.sum(1, keepdim=True) > 0).float()  # computed there
model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1)).to("mydev")
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

with torch_mydev.fallback_census() as census:
    for _ in range(100):
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
        loss.backward()
        optimizer.step()
print(f"loss {loss.item():.3f}")  # waits for the device
print(census)  # the operators that ran PyTorch's CPU kernels, and from which line

torch.save(model.state_dict(), file := io.BytesIO())
file.seek(0)
model.cpu().load_state_dict(torch.load(file, map_location="cpu"))
# [docs: end]
