"""The entry point of a vendor's package (docs/driver.md). It imports neither torch nor JAX: both wait for it."""

# [docs: driver]
from pathlib import Path


def driver() -> dict[str, str | Path]:
    return {
        "library": Path(__file__).parent / "libacme_driver.so",
        "options": "",  # where MYDEV_DRIVER gives none
        "display_name": "ACME X1",
        "torch_module": "acme_torch",
    }


# [docs: end]
