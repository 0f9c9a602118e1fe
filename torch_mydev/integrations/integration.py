"""A library that is told about the device when it is imported: which versions of it, and what is done to which module.

A version that is not known, or a module that is not as it was, is left alone: one warning says so, and the library
works as it would without this package.
"""

from __future__ import annotations

import importlib.metadata
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from torch_mydev._device_name import DEVICE_NAME
from torch_mydev.compile.registration import when_imported


class UnfamiliarError(Exception):
    """A module of a library is not as its integration knows it. Nothing of it was changed."""


@dataclass(frozen=True)
class Integration:
    """One library. ``actions`` get the modules that they are named for, as soon as these are imported."""

    name: str  #: as MYDEV_INTEGRATIONS names it
    distribution: str  #: whose version is asked for
    since: tuple[int, int]
    before: tuple[int, int]
    actions: Mapping[str, Callable[[Any], None]]

    def apply(self) -> None:
        """Waits for the library. Called once, at registration."""
        for module, action in self.actions.items():
            when_imported(module, lambda imported, action=action: self._tell(imported, action))  # type: ignore[misc]

    def _tell(self, module: ModuleType, action: Callable[[Any], None]) -> None:
        try:
            version = importlib.metadata.version(self.distribution)
        except importlib.metadata.PackageNotFoundError:
            version = "of no version"
        known = f"{'.'.join(map(str, self.since))} up to {'.'.join(map(str, self.before))}"
        match = re.match(r"(\d+)\.(\d+)", version)
        if match is None or not self.since <= (int(match[1]), int(match[2])) < self.before:
            self._leave_alone(f"{self.distribution} {version} is not one of the versions that it knows, {known}")
            return
        try:
            action(module)
        except (UnfamiliarError, AttributeError) as error:
            self._leave_alone(f"{self.distribution} {version} is not as it was: {module.__name__}: {error}")

    def _leave_alone(self, reason: str) -> None:
        warnings.warn(
            f"{DEVICE_NAME} leaves {self.name} alone: {reason}. It may choose another device, or refuse this one",
            stacklevel=2,
        )
