"""How an action of ``mydev kernels`` ends early."""


class Failure(Exception):
    """Ends the command with a message and exit code 1."""


class UsageError(ValueError):
    """The arguments that were typed cannot be understood; the message says which part. Exit code 2."""
