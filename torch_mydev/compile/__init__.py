"""torch.compile on the device. Nothing here is imported before Dynamo or Inductor is (registration.py)."""
