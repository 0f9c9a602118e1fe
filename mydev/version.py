"""The version of this package, of its libraries, and of the torch_mydev that goes with it."""

__version__ = "0.1.0"
