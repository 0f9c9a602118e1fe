"""Tries installed wheels: python -P tools/try_wheels.py works | refuses

``works``: a tensor, a training step and a saved state on the device, by nothing but ``import torch``. ``refuses``:
torch_mydev has no part for this torch, or not its mydev. One warning names the versions, and torch goes on without the
device. Ends with what was not so.
"""

from __future__ import annotations

import io
import sys
import warnings

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import torch


def works() -> None:
    import torch_mydev

    x = torch.randn(8, 4, device="mydev")
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).to("mydev")
    optimizer = torch.optim.AdamW(model.parameters())
    before = model(x).square().mean()
    before.backward()
    optimizer.step()
    after = model(x).square().mean()
    torch.save(model.state_dict(), file := io.BytesIO())
    if not after.item() < before.item() or x.device.type != "mydev" or not file.tell():
        sys.exit(f"try_wheels: a training step on {x.device} went from {before.item()} to {after.item()}")
    print(f"torch {torch.__version__}: {torch_mydev.__file__} trains on {x.device}")


def refuses() -> None:
    lines = [str(warning.message) for warning in caught if "torch_mydev" in str(warning.message)]
    if len(lines) != 1 or "\n" in lines[0] or hasattr(torch, "mydev"):
        sys.exit(f"try_wheels: expected one line that names the versions, and no device; got {lines}")
    if torch.ones(2).sum().item() != 2:
        sys.exit("try_wheels: torch does not work without the device")
    print(f"torch {torch.__version__}: {lines[0]}")


if __name__ == "__main__":
    {"works": works, "refuses": refuses}[sys.argv[1]]()
