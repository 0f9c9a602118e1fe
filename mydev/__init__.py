"""The part that needs no framework: the command line, conformance suites, libraries, headers, and which driver the
process uses. Imports neither torch nor JAX, and loads no library."""

from mydev.headers import cmake_dir, include_dir, library_dir
from mydev.version import __version__ as __version__

__all__ = ["cmake_dir", "include_dir", "library_dir"]

COMMAND = "mydev"  #: what the installed command is called
