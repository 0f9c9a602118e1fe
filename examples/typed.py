"""The device's names as type checkers know them. docs/debugging.md shows the marked part; tests have mypy read it.

python examples/typed.py
"""

import torch

# [docs: typed]
from torch_mydev.typing import Tensor, mydev, typed


def move(x: Tensor) -> Tensor:
    mydev.synchronize()
    return x.mydev()


print(move(typed(torch.ones(2))).is_mydev)
# [docs: end]
