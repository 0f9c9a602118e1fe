"""torch.distributed on the device, with an engine of one's own behind it.

Run it by itself, or on several processes: ``torchrun --nproc-per-node 2 examples/collectives.py``.
"""

import os

# [docs: engine]
import torch
import torch.distributed as dist

from torch_mydev import distributed


def create_engine(store, rank, size, timeout, group_name, global_ranks):
    # Any backend of c10d for CPU tensors; gloo stands for it here.
    return dist.distributed_c10d.ProcessGroupGloo(store, rank, size, timeout=timeout)


def create(options, backend_options):
    return distributed.over_host_backend(create_engine, options)


distributed.register_backend("acmeccl", create)
# [docs: end]

for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
    os.environ.setdefault(name, value)

# [docs: collective]
dist.init_process_group(device_id=torch.device("mydev:0"))  # or "cpu:gloo,mydev:mydev", for both devices
tensor = torch.ones(4, device="mydev")
dist.all_reduce(tensor)
# [docs: end]
print(dist.get_backend_config(), "sum", tensor.sum().item())
dist.destroy_process_group()
