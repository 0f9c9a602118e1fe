"""The part that needs torch: operators of your own, defaults. It is imported once torch knows the device."""

# [docs: torch]
import torch

torch.library.define("acme::twice", "(Tensor x) -> Tensor")


@torch.library.impl("acme::twice", "PrivateUse1")
def twice(x: torch.Tensor) -> torch.Tensor:
    return x + x


# [docs: end]
