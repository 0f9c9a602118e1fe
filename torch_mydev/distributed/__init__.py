"""torch.distributed on the device; for vendors, how to put a collective library of their own behind it."""

from torch_mydev.distributed.backend import BACKEND_NAME, over_host_backend, register_backend

__all__ = ["BACKEND_NAME", "over_host_backend", "register_backend"]
