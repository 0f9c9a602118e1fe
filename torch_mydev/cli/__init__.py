"""Commands that ask something of PyTorch. The package mydev has the command line, and finds these by entry points of
the group ``mydev.commands``."""
