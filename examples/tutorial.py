"""From the first tensor to a trained model. docs/tutorial.md walks through the marked parts.

python examples/tutorial.py
"""

# ruff: noqa: E402 (the tutorial imports things when it comes to them)

# [docs: first-tensor]
import torch

a = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device="mydev")
b = torch.ones(2, 2, device="mydev")
c = a @ b + 1
print(c)
# [docs: end]

# [docs: where]
print(c.device, c.cpu().device)
try:
    c + torch.ones(2, 2)  # one operand on the device, one on the CPU
except RuntimeError as error:
    print("refused:", error)
# [docs: end]

# [docs: autograd]
w = torch.tensor([2.0, -1.0], device="mydev", requires_grad=True)
loss = (a @ w - 1).square().mean()
loss.backward()
print(loss.item(), w.grad)
# [docs: end]

# [docs: data]
from sklearn.datasets import load_digits

digits = load_digits()  # 1,797 scans of handwritten digits, 8 x 8 pixels
images = torch.tensor(digits.images, dtype=torch.float32).flatten(1) / 16
labels = torch.tensor(digits.target)
order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
images, labels = images[order].to("mydev"), labels[order].to("mydev")
train, test = slice(360, None), slice(0, 360)
# [docs: end]

# [docs: model]
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to("mydev")
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
# [docs: end]

# [docs: train]
import torch_mydev

with torch_mydev.fallback_census() as census:
    for _ in range(20):
        for batch in torch.randperm(len(images[train]), device="mydev").split(64):
            scores = model(images[train][batch])
            loss = nn.functional.cross_entropy(scores, labels[train][batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
# [docs: end]

# [docs: evaluate]
with torch.no_grad():
    right = model(images[test]).argmax(1) == labels[test]
print(f"test accuracy {right.float().mean().item():.1%}")
# [docs: end]

# [docs: census]
print(census)
# [docs: end]

# [docs: save]
import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "digits.pt"
    torch.save(model.state_dict(), path)
    on_cpu = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    on_cpu.load_state_dict(torch.load(path, map_location="cpu"))
torch.testing.assert_close(on_cpu(images[test].cpu()), model(images[test]).cpu(), rtol=1e-4, atol=1e-4)
# [docs: end]

# [docs: time]
start, end = (torch.mydev.Event(enable_timing=True) for _ in range(2))
start.record()
for _ in range(100):
    model(images[test])
end.record()
end.synchronize()
print(f"{start.elapsed_time(end) / 100:.3f} ms for {len(images[test])} images")
# [docs: end]

# [docs: streams]
side = torch.mydev.Stream()
with torch.mydev.stream(side):
    total = images.sum(0)  # runs on `side`
torch.mydev.current_stream().wait_stream(side)
total.record_stream(torch.mydev.current_stream())
mean = total / len(images)
# [docs: end]

# [docs: memory]
print(f"{torch.accelerator.memory_allocated() / 2**20:.1f} MiB in tensors")
print(f"{torch.accelerator.memory_reserved() / 2**20:.1f} MiB taken from the driver")
# [docs: end]
