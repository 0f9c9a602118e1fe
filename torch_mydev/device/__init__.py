"""The parts of ``torch.mydev`` (device_module.py): devices, streams, memory, random numbers, autocast, sharing."""
