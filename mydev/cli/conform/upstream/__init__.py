"""``mydev conform upstream``: the tests of PyTorch or JAX themselves on the device, scored against the CPU."""
