"""What the packages for PyTorch and JAX share in Python. Imports neither torch nor JAX, and loads no library."""

COMMAND = "mydev"  #: what the installed command is called
