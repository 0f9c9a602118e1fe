"""Commands that other distributions add, by entry points of the group ``mydev.commands``.

An entry point is named for the words of its command, with dots: ``conform.operators``. torch_mydev adds all that asks
something of PyTorch; this package knows the names, and says what to install where they are not there.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from mydev import COMMAND, __version__

ENTRY_POINTS = "mydev.commands"
PACKAGE = "torch_mydev"  #: the distribution that adds what the commands here leave out
INSTALL = f"pip install {PACKAGE}=={__version__}"


class Unavailable(Exception):
    """The command cannot be used; the message says what to do."""


class NotInstalled(Unavailable):
    """The distribution that has the command is not installed."""


def is_added(name: str) -> bool:
    """Whether an installed distribution has an entry point of that name."""
    return bool(entry_points(group=ENTRY_POINTS, name=name))


def load(name: str) -> Any:
    """Returns the object of the entry point. Raises NotInstalled where there is none, Unavailable where it fails."""
    points = list(entry_points(group=ENTRY_POINTS, name=name))
    if not points:
        words = " ".join([COMMAND, *name.split(".")])
        raise NotInstalled(f"'{words}' comes with {PACKAGE}, for PyTorch, which is not installed: {INSTALL}")
    try:
        return points[0].load()
    except ImportError as error:
        raise Unavailable(str(error)) from error
