"""What ``torch.mydev`` offers (device_module.py): devices, streams, memory, random numbers, autocast, sharing."""
