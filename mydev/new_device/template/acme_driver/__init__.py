"""ACME's device: what the entry points of pyproject.toml give. Imports neither torch nor JAX: both wait for it."""

# [docs: driver]
from pathlib import Path

HERE = Path(__file__).parent


def driver() -> dict[str, str | Path]:
    return {
        "library": HERE / "libacme_driver.so",
        "options": "",  # where MYDEV_DRIVER gives none
        "display_name": "ACME X1",
        "torch_module": "acme_driver.torch_part",
    }


def custom_calls() -> list[Path]:
    return [HERE / "libacme_custom_calls.so"]


# [docs: end]
