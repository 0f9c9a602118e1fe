"""The work of a vendor's device in PyTorch under its own name: a program that test_vendor_package.py runs.

Prints a JSON object: for each case "" or how it failed. A user of the device need not import torch_mydev.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

NAME = sys.argv[1]
module = getattr(torch, NAME)
device = torch.device(NAME)


def raised(function: Callable[[], object]) -> str:
    """The text of the error that the function raises."""
    try:
        function()
    except Exception as error:
        return str(error)
    raise AssertionError("nothing was raised")


def check(holds: object, *shown: object) -> None:
    if not holds:
        raise AssertionError(*shown)


def case_names_of_torch() -> None:
    x = getattr(torch.ones(3), NAME)()
    check(x.device == torch.device(f"{NAME}:0"), x.device)
    check(getattr(x, f"is_{NAME}") and not getattr(torch.ones(3), f"is_{NAME}"))
    check(module.is_available() and module.device_count() >= 1)
    check(getattr(torch.nn.Linear(2, 2), NAME)().weight.device.type == NAME)
    check(getattr(torch.ones(2).untyped_storage(), NAME)().device.type == NAME)
    check(torch.accelerator.current_accelerator() == device)
    check(not hasattr(torch, "mydev") and not hasattr(torch.Tensor, "mydev"))


def case_computation() -> None:
    x = torch.randn(5, 7)
    torch.testing.assert_close((x.to(device) @ x.to(device).mT).softmax(-1).cpu(), (x @ x.mT).softmax(-1))


def case_autocast() -> None:
    x = torch.randn(4, 4, device=device)
    with torch.autocast(NAME, dtype=torch.bfloat16):
        check((x @ x).dtype == torch.bfloat16)
        text = raised(lambda: torch.nn.functional.binary_cross_entropy(x, x))
    check(f"torch.autocast('{NAME}', enabled=False)" in text, text)
    with module.amp.autocast(dtype=torch.bfloat16):
        check((x @ x).dtype == torch.bfloat16)


def case_training_with_a_gradient_scaler() -> None:
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler(NAME)
    loss = model(torch.randn(8, 4, device=device)).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    check(torch.isfinite(model.weight).all().item())


def case_random_numbers() -> None:
    torch.manual_seed(3)
    first = torch.rand(4, device=device)
    state = module.get_rng_state()
    second = torch.rand(4, device=device)
    module.set_rng_state(state)
    check(torch.equal(second, torch.rand(4, device=device)) and not torch.equal(first, second))
    check(torch.Generator(NAME).device.type == NAME)


def case_texts() -> None:
    stream, event = module.Stream(), module.Event()
    check(repr(stream).startswith(f"<torch.{NAME}.Stream device={NAME}:0"), repr(stream))
    check(repr(event).startswith(f"<torch.{NAME}.Event"), repr(event))
    check(f"device='{NAME}:0'" in repr(torch.ones(1, device=device)), repr(torch.ones(1, device=device)))
    check(torch.ones(1, device=device).type() == f"torch.{NAME}.FloatTensor", torch.ones(1, device=device).type())


def case_errors() -> None:
    count = module.device_count()
    texts = [
        raised(lambda: torch.ones(1, device=f"{NAME}:{count}")),
        raised(lambda: torch.empty(1 << 45, device=device)),
        raised(lambda: module.get_rng_state("cpu")),
        raised(lambda: module.no_such_name),
    ]
    for text in texts:
        check(NAME in text and "mydev" not in text, text)


def case_pinned_batches() -> None:
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True):
        check(batch.is_pinned())
        check(batch.to(device, non_blocking=True).sum().item() == batch.sum().item())


def case_profiler() -> None:
    x = torch.ones(64, device=device)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as found:
        (x + x).sum().item()
    table = found.key_averages().table()
    check(f"Self {NAME.upper()}" in table, table)
    check(f"{NAME}Memcpy" in table and "mydev" not in table.replace("mydev.", ""), table)


def case_saved_tensors() -> None:
    file = io.BytesIO()
    torch.save(torch.arange(3, device=device), file)
    file.seek(0)
    check(torch.load(file).device == torch.device(f"{NAME}:0"))
    file.seek(0)
    check(torch.load(file, map_location="cpu").device.type == "cpu")


def case_graphs() -> None:
    x = torch.ones(4, device=device)
    graph = torch.accelerator.Graph()
    with graph:
        y = x * 2 + 1
    graph.replay()
    check(y.cpu().tolist() == [3.0] * 4, y)


def case_compile() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * 2 - 1).sum(-1)

    x = torch.randn(3, 5)
    for backend in ("inductor", f"{NAME}_program"):
        torch._dynamo.reset()
        torch.testing.assert_close(torch.compile(function, backend=backend)(x.to(device)).cpu(), function(x))


def case_distributed() -> None:
    from torch_mydev.distributed import BACKEND_NAME

    check(dist.get_default_backend_for_device(NAME) == BACKEND_NAME)
    store = dist.FileStore(os.path.join(tempfile.mkdtemp(), "store"), 1)
    dist.init_process_group(rank=0, world_size=1, store=store, device_id=torch.device(NAME, 0))
    x = torch.ones(3, device=device)
    dist.all_reduce(x)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2).to(device))
    model(x).sum().backward()
    check(model.module.weight.grad.device.type == NAME)
    dist.destroy_process_group()


def main() -> None:
    results = {}
    for name, case in list(globals().items()):
        if name.startswith("case_"):
            try:
                case()
                results[name] = ""
            except Exception:
                results[name] = traceback.format_exc()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
