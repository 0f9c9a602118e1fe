"""The part of a vendor's package that needs torch. It is imported once `import torch` has made the device known."""

# [docs: torch]
import torch

torch.library.define("acme::twice", "(Tensor x) -> Tensor")


@torch.library.impl("acme::twice", "PrivateUse1")
def twice(x: torch.Tensor) -> torch.Tensor:
    return x + x


# [docs: end]
