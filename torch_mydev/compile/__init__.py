"""torch.compile on the device. But for what registration takes (registration.py, fake_tensors.py), nothing here is
imported before Dynamo or Inductor is."""
