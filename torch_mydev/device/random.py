"""Random state of the devices. The same seed gives the same numbers on every device.

Seeding does not load the driver: a seed given before the first use of a device is applied then.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from torch_mydev import _C
from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.device.devices import DeviceLike, _lazy_call, current_device, device_count, device_index, init


def _generator(index: int) -> torch.Generator:
    generator: torch.Generator = _C.default_generator(index)
    return generator


def _get_generator(device: DeviceLike) -> torch.Generator:
    """The default generator of the device."""
    init()
    return _generator(device_index(device))


def default_generators() -> tuple[torch.Generator, ...]:
    """The default generators, by device index; ``torch.mydev.default_generators`` is this, called."""
    init()
    return tuple(_generator(index) for index in range(device_count()))


def manual_seed(seed: int) -> None:
    """Seeds the current device's default generator."""
    _lazy_call("seed", lambda: _seed_with(seed, [current_device()]))


def manual_seed_all(seed: int) -> None:
    """Seeds the default generator of every device."""
    _lazy_call("seed_all", lambda: _seed_with(seed, range(device_count())))


def _seed_with(seed: int, indices: Iterable[int]) -> None:
    for index in indices:
        _generator(index).manual_seed(int(seed))


def seed() -> None:
    """Seeds the current device's default generator with a number that differs each time."""
    _lazy_call("seed", lambda: _seed_from_chance([current_device()]))


def seed_all() -> None:
    """Seeds the default generator of every device with one number that differs each time."""
    _lazy_call("seed_all", lambda: _seed_from_chance(range(device_count())))


def _seed_from_chance(indices: Iterable[int]) -> None:
    chosen: int | None = None
    for index in indices:
        if chosen is None:
            chosen = _generator(index).seed()
        else:
            _generator(index).manual_seed(chosen)


def initial_seed() -> int:
    """The seed of the current device's default generator."""
    return _get_generator(None).initial_seed()


def get_rng_state(device: DeviceLike = DEVICE_NAME) -> torch.Tensor:
    """The state of the device's default generator: a CPU tensor of bytes."""
    return _get_generator(device).get_state()


def _get_rng_state_offset(device: DeviceLike = DEVICE_NAME) -> int:
    """How many 32-bit words the device's default generator has given since it was seeded."""
    return _get_generator(device).get_offset()


def _set_rng_state_offset(offset: int, device: DeviceLike = DEVICE_NAME) -> None:
    """Has the device's default generator go on behind so many 32-bit words, a multiple of 4, of its seed's numbers."""

    def set_offset() -> None:
        _get_generator(device).set_offset(offset)

    _lazy_call(f"offset of {device}", set_offset)


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of every device's default generator."""
    return [generator.get_state() for generator in default_generators()]


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = DEVICE_NAME) -> None:
    """Puts the device's default generator into a state that get_rng_state gave."""
    _get_generator(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Puts every device's default generator into the states that get_rng_state_all gave."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
