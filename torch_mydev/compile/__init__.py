"""torch.compile on the device. Only registration.py and fake_tensors.py, which registration needs, are imported before
Dynamo or Inductor is."""
