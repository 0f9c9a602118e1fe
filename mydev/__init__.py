"""The part that the packages for PyTorch and JAX share. Imports neither torch nor JAX, and loads no library."""

COMMAND = "mydev"  #: what the installed command is called
