"""``bench``: the device against the CPU of the same machine, over work of all kinds."""
