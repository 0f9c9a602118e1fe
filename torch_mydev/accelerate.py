"""The name that users know: ``torchrun -m torch_mydev.accelerate script.py``, ``torch_mydev.accelerate.use_device``."""

from torch_mydev.distributed.accelerate import main, use_device

__all__ = ["use_device"]

if __name__ == "__main__":
    main()
