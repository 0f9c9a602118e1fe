"""torch.compile on the device: a compiled training step, its report, random numbers as in eager mode, and programs."""

# [docs: report]
import torch
from torch import nn

import torch_mydev

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4)).to("mydev")
compiled = torch.compile(model)  # no backend named

x = torch.randn(16, 8, device="mydev")
compiled(x).square().mean().backward()
torch.testing.assert_close(compiled(x), model(x))
print(torch_mydev.compile_report())
# [docs: end]


# [docs: random]
@torch.compile(options={"fallback_random": True})
def noisy(x: torch.Tensor) -> torch.Tensor:
    return nn.functional.dropout(x, 0.5) + torch.rand_like(x)


torch.manual_seed(1)
compiled_numbers = noisy(x)
torch.manual_seed(1)
eager_numbers = nn.functional.dropout(x, 0.5) + torch.rand_like(x)
torch.testing.assert_close(compiled_numbers, eager_numbers, rtol=0, atol=0)
# [docs: end]

# [docs: kernels]
run = torch.compile(model, backend="mydev_kernels")  # with the driver's own compiler
torch.testing.assert_close(run(x), model(x))
# [docs: end]

# [docs: program]
run = torch.compile(model, backend="mydev_program")  # the default where the host does not reach the memory
torch.testing.assert_close(run(x), model(x))
# [docs: end]
