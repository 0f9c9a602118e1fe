"""torch.compile without a compiler: graphs as programs of the device (docs/programs.md), which run on any driver."""
