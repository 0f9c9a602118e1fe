"""Dispatch traces of a few lines. docs/debugging.md shows the marked parts.

python examples/trace.py
"""

import torch

import torch_mydev

x = torch.randn(1000, device="mydev")

# [docs: trace]
with torch_mydev.dispatch_trace():
    (x + 1).mul_(2)
# [docs: end]

# [docs: trace-list]
lines: list[str] = []
with torch_mydev.dispatch_trace(lines):
    x.relu()
launched = [line for line in lines if "[launch]" in line]
# [docs: end]
print(launched)
