"""Which driver this process uses, and what its device is called.

MYDEV_DRIVER chooses, and without it the one installed package that brings a driver: a vendor's, by an entry point of
the group ``mydev.drivers`` (docs/driver.md says what it gives). The device has that package's name for it; with any
other driver it is ``mydev``. JAX_PLATFORMS and PJRT_DEVICE choose among several packages too.

Policy. A process chooses once, whoever asks first: PyTorch, JAX or PyTorch/XLA. A wrong package raises nothing here:
the choice has a text that says what is wrong, and then there is no device. Thread-safe.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import metadata

from mydev.libraries import LIBRARIES

VARIABLE = "MYDEV_DRIVER"
PLATFORM_VARIABLES = ("JAX_PLATFORMS", "PJRT_DEVICE")  #: JAX's, a list with commas, and PyTorch/XLA's
ENTRY_POINTS = "mydev.drivers"
BUILT_IN = ("host", "opencl", "cuda")
KEYS = ("library", "name", "options", "display_name", "torch_module")
# The devices of torch, the platforms of JAX, what MYDEV_DRIVER understands otherwise, and the frameworks themselves.
TAKEN = (
    *("cpu", "cuda", "fpga", "gpu", "hip", "host", "hpu", "ideep", "ipu", "lazy", "maia", "meta", "metal", "mkldnn"),
    *("mps", "mtia", "oneapi", "opencl", "opengl", "privateuseone", "rocm", "tpu", "validate", "ve", "vulkan", "xla"),
    *("xpu", "jax", "torch"),
)
_VALIDATE = "validate:"


@dataclass(frozen=True)
class DriverChoice:
    """A driver and its device. Without a package the driver is that of MYDEV_DRIVER."""

    device_name: str = "mydev"
    display_name: str = ""  #: for people
    package: str = ""  #: which brings the driver, and its version
    driver: str = ""  #: the package's, in the form of MYDEV_DRIVER
    torch_module: str = ""  #: imported once torch knows the device
    problem: str = ""  #: why there is no device, in one line

    def tell_runtime(self) -> None:
        """Makes the driver and the name known to the native part: before a framework's library is loaded.

        Raises RuntimeError if there is a problem, the native part is missing, or this process uses another driver.
        """
        if self.problem:
            raise RuntimeError(self.problem)
        if not self.driver:
            return
        path = next(LIBRARIES.glob("libmydev_runtime.so.*"), LIBRARIES / "libmydev_runtime.so")
        try:
            choose_driver = ctypes.CDLL(str(path)).mydev_choose_driver
        except OSError as error:
            raise RuntimeError(f"the native part cannot be loaded: {error}; rebuild or reinstall it") from error
        message = ctypes.c_char_p()
        choose_driver.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p]
        if choose_driver(os.fsencode(self.driver), self.device_name.encode(), ctypes.byref(message)):
            raise RuntimeError((message.value or b"").decode(errors="replace"))


@dataclass(frozen=True)
class _Offer:
    """An entry point, and the distribution that has it."""

    point: metadata.EntryPoint
    package: str

    def __str__(self) -> str:
        return f"{self.point.name} ({self.package})"


@dataclass
class _Process:
    """The state of this process."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    choice: DriverChoice | None = None
    choosing: bool = False


_process = _Process()


def chosen(asked: str | None = None) -> DriverChoice:
    """The choice of this process. The first call makes it: by ``asked``, in the form of MYDEV_DRIVER, or by that
    variable.
    """
    with _process.lock:
        if _process.choice is None and _process.choosing:
            # The function of an entry point imports torch, which cannot know the device yet.
            problem = "its module imports torch or JAX, which wait for its answer; give it a module that does not"
            _process.choice = DriverChoice(problem=f"an entry point of {ENTRY_POINTS} cannot be asked: {problem}")
        if _process.choice is None:
            _process.choosing = True
            choice = choose(os.environ.get(VARIABLE, "") if asked is None else asked)
            _process.choice = _process.choice or choice
        return _process.choice


def choose(asked: str) -> DriverChoice:
    """The choice by a value of MYDEV_DRIVER, which may be empty."""
    layer = _VALIDATE if asked.startswith(_VALIDATE) else ""
    name, colon, options = asked[len(layer) :].partition(":")
    if name in BUILT_IN or "/" in name or name.endswith(".so") or (asked and not name):
        return DriverChoice()
    installed = _offers()
    offers = [offer for offer in installed if name in ("", offer.point.name)]
    if installed and not offers:
        there = ", ".join(repr(known) for known in (*(offer.point.name for offer in installed), *BUILT_IN))
        problem = f"{VARIABLE}={asked!r} is not valid: there is no driver {name!r}; there are {there}"
        return DriverChoice(problem=f"{problem}, and paths, which have a '/' or end in .so")
    if not offers:
        return DriverChoice()  # the host driver; or a name that the runtime refuses
    if not name:
        platforms = ",".join(os.environ.get(variable, "") for variable in PLATFORM_VARIABLES).lower().split(",")
        named = [offer for offer in offers if offer.point.name in platforms]
        offers = named if len(named) == 1 else offers
    if len(offers) > 1 and name:
        brought = " and ".join(offer.package for offer in offers)
        return DriverChoice(problem=f"{brought} both bring a device '{name}'; uninstall one of them")
    if len(offers) > 1:
        ways = " or ".join(f"{VARIABLE}={offer.point.name}" for offer in offers)
        brought = ", ".join(map(str, offers))
        problem = f"{len(offers)} packages bring a driver: {brought}; choose by {ways}, or {VARIABLE}=host for neither"
        return DriverChoice(problem=problem)
    choice = _ask(offers[0])
    if not choice.driver:
        return choice
    library, _, defaults = choice.driver.partition(":")
    options = options if colon else defaults
    return replace(choice, driver=f"{layer}{library}{':' if options else ''}{options}")


def _offers() -> list[_Offer]:
    """The entry points of all installed packages, by name. The first copy of a package on the path counts."""
    found: dict[str, list[_Offer]] = {}
    for distribution in metadata.distributions():
        # Other packages' metadata are not parsed: there may be hundreds, and `import torch` waits.
        if ENTRY_POINTS not in (distribution.read_text("entry_points.txt") or ""):
            continue
        name = distribution.metadata["Name"]
        points = distribution.entry_points.select(group=ENTRY_POINTS)
        found.setdefault(name.lower(), [_Offer(point, f"{name} {distribution.version}") for point in points])
    return sorted((offer for offers in found.values() for offer in offers), key=str)


def _ask(offer: _Offer) -> DriverChoice:
    """The choice that an entry point describes; with a problem if it fails, or its answer makes no sense."""
    name = offer.point.name
    where = f"{offer.package}, entry point '{name} = {offer.point.value}' of {ENTRY_POINTS}"
    if not re.fullmatch(r"[a-z][a-z_]*", name):
        return DriverChoice(problem=f"{where}: '{name}' is no name for a device; take letters a to z and _")
    if name in TAKEN:
        return DriverChoice(problem=f"{where}: PyTorch or JAX has the name '{name}'; call the device otherwise")
    # From here on the device has the name, so that who uses it is told what is wrong.
    try:
        given = offer.point.load()()
    except (Exception, SystemExit) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return DriverChoice(name, problem=f"{where} failed: {reason}")
    problem = _explain(given, name)
    if problem:
        return DriverChoice(name, problem=f"{where} {problem}")
    options = given.get("options", "")
    return DriverChoice(
        device_name=name,
        display_name=given.get("display_name", name),
        package=offer.package,
        driver=f"{os.path.abspath(given['library'])}{':' if options else ''}{options}",
        torch_module=given.get("torch_module", ""),
    )


def _explain(given: object, name: str) -> str:
    """Says why an entry point's answer makes no sense; "" if it does."""
    if not isinstance(given, Mapping):
        return f"gives {type(given).__name__}, and should give a dict with {', '.join(map(repr, KEYS))}"
    unknown = [key for key in given if key not in KEYS]
    if unknown:
        return f"gives {unknown[0]!r}, which is not known; there are {', '.join(map(repr, KEYS))}"
    for key, value in given.items():
        if not isinstance(value, (str, os.PathLike) if key == "library" else str):
            return f"gives {value!r} for {key!r}, and should give text"
    if given.get("name", name) != name:
        return f"calls the device '{given['name']}'; give the entry point that name, or leave 'name' out"
    if "library" not in given:
        return "gives no 'library', the path of the driver"
    library = os.path.abspath(given["library"])
    if not os.path.isfile(library):
        return f"gives the driver {library}, which is not there; build it, or install the package again"
    return f"gives the driver {library}, and ':' ends a path in {VARIABLE}" if ":" in library else ""
