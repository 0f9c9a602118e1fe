"""Looking at what a program does on the device. docs/debugging.md walks through the marked parts.

python examples/debugging.py
"""

import os
import tempfile

import torch

import torch_mydev

x = torch.randn(1000, device="mydev")

# [docs: census]
with torch_mydev.fallback_census() as census:
    x.flip(0)
print(census)
for row in census.rows:
    print(row.op, row.calls, row.bytes_copied, row.seconds, row.first_frame)
# [docs: end]

# [docs: statistics]
with torch.mydev.launch_statistics() as statistics:
    (x * 2).sum()
    torch.mydev.synchronize()  # on an asynchronous device
print(statistics)
# [docs: end]

# [docs: profiler]
with torch.profiler.profile(record_shapes=True, profile_memory=True) as profile:
    with torch.profiler.record_function("my range"):
        (x * 2).sum()
    torch.mydev.synchronize()  # on an asynchronous device
print(profile.key_averages().table(sort_by="self_device_time_total", row_limit=10))
profile.export_chrome_trace(os.path.join(tempfile.mkdtemp(), "trace.json"))  # for ui.perfetto.dev
# [docs: end]

# [docs: forbid]
with torch_mydev.fallback_mode("error"):
    try:
        x.flip(0)
    except NotImplementedError as error:
        print(error)
# [docs: end]

# [docs: forbid-one]
with torch_mydev.fallback_mode("error"), torch_mydev.fallback_mode("allow", op=census.rows[0].op):
    x.flip(0)  # this one is known and accepted
# [docs: end]

# [docs: figures]
print(torch.mydev.memory_summary(abbreviated=True))
stats = torch.mydev.memory_stats()
print(stats["allocated_bytes.all.peak"], stats["num_device_alloc"])
# [docs: end]

# [docs: snapshot]
for segment in torch.mydev.memory_snapshot():
    blocks = segment["blocks"]
    used = sum(block["size"] for block in blocks if block["state"] == "active_allocated")
    print(f"{segment['address']:#x}: {used} of {segment['total_size']} bytes in use, {len(blocks)} blocks")
# [docs: end]

# [docs: history]
torch.mydev.memory._record_memory_history(max_entries=100_000)
y = torch.randn(1000, 1000, device="mydev") @ torch.randn(1000, 1000, device="mydev")
torch.mydev.memory._dump_snapshot(os.path.join(tempfile.mkdtemp(), "memory.pickle"))
torch.mydev.memory._record_memory_history(None)
# [docs: end]

# [docs: waits]
torch.mydev.set_sync_debug_mode("error")
try:
    x.sum().item()
except RuntimeError as error:
    print(error)
torch.mydev.set_sync_debug_mode("default")
# [docs: end]

# [docs: out-of-memory]
torch.mydev.set_per_process_memory_fraction(0.5)
try:
    torch.empty(torch.mydev.get_device_properties().total_memory, dtype=torch.uint8, device="mydev")
except torch.OutOfMemoryError as error:
    print(error)
torch.mydev.set_per_process_memory_fraction(1.0)
# [docs: end]
