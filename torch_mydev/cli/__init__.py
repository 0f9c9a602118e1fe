"""What this package adds to the command line, by entry points of the group ``mydev.commands``: all that asks something
of PyTorch. The command itself is in the package mydev."""
