"""Tensors of PyTorch as arrays of JAX and back, in one process on one device: torch_mydev.jax."""

from __future__ import annotations

import json

import pytest

from pjrt.clients import output_of, require

DRIVERS = ["host", "host:async,guarded,devices=2", "host:remote,async,guarded"]
START = """
import gc, json, threading
import torch, numpy as np
import torch_mydev.jax
from torch_mydev.jax import from_jax, to_jax
import jax, jax.numpy as jnp
jax.config.update("jax_platforms", "mydev,cpu")
results = {}
def problem(function, *arguments, **options):
    try:
        function(*arguments, **options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
"""
END = "\nprint(json.dumps(results))"

BOTH_WAYS = """
names = ["bool", "uint8", "int8", "int16", "int32", "uint16", "uint32", "float16", "bfloat16", "float32", "complex64",
         "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e8m0fnu"]
def round_trip(tensor):
    array = to_jax(tensor)
    back = from_jax(array)
    bits = [torch.atleast_1d(t).contiguous().view(torch.uint8).cpu().tolist() for t in (tensor, back)]
    return [str(array.dtype), list(array.shape), back.data_ptr() == tensor.data_ptr(), back.dtype == tensor.dtype,
            bits[0] == bits[1] == np.atleast_1d(np.asarray(array)).view(np.uint8).tolist()]
raw = torch.arange(48, dtype=torch.uint8)
results["types"] = {name: round_trip((raw % 2 if name == "bool" else raw).view(getattr(torch, name)).to("mydev"))
                    for name in names}
with jax.enable_x64(True):
    results["wide"] = {name: round_trip(raw.view(getattr(torch, name)).to("mydev"))
                       for name in ["int64", "uint64", "float64", "complex128"]}
results["narrowed"] = [str(to_jax(torch.arange(3, device="mydev")).dtype), np.asarray(
    to_jax(torch.arange(3, device="mydev"))).tolist()]
results["shapes"] = {str(list(shape)): round_trip(torch.ones(shape, device="mydev"))[1:]
                     for shape in [(), (0,), (0, 3), (2, 0), (1, 5, 1)]}
base = torch.arange(24., device="mydev").reshape(4, 6)
views = {"rows": base[1:3], "columns": base[:, 2:4], "transposed": base.T, "expanded": base[0].expand(3, 6),
         "conjugate": torch.view_as_complex(base.reshape(4, 3, 2)).conj(), "steps": base[::2, ::3],
         "negative": torch.view_as_complex(base.reshape(4, 3, 2)).conj().imag}
for name, view in views.items():
    array = to_jax(view)
    shared = array.unsafe_buffer_pointer() == view.data_ptr()
    results[name] = [shared, np.array_equal(np.asarray(array), view.resolve_conj().resolve_neg().cpu().numpy())]
results["copied"] = to_jax(base, copy=True).unsafe_buffer_pointer() != base.data_ptr()
results["never"] = problem(to_jax, base.T, copy=False)
results["never, and none is needed"] = to_jax(base, copy=False).unsafe_buffer_pointer() == base.data_ptr()
last = torch.mydev.device_count() - 1
there = torch.ones(3, device=f"mydev:{last}")
results["device"] = [str(to_jax(there).devices()), str(from_jax(to_jax(there)).device), last]

doubled = jax.jit(lambda x: x * 2)
x = torch.randn(3, 4, device="mydev")
results["computed"] = torch.equal(from_jax(doubled(to_jax(x))).cpu(), x.cpu() * 2)
results["gradient"] = from_jax(doubled(to_jax(x))).requires_grad
results["in torch's graph"] = from_jax(jnp.ones(3)).mul(torch.ones(3, device="mydev", requires_grad=True)).requires_grad

# Whoever uses the memory keeps it; when nobody does, it is free.
before = torch.mydev.memory_allocated()
x = torch.ones(1 << 16, device="mydev")
array = to_jax(x)
del x
torch.full((1 << 16,), -1., device="mydev")
results["kept by JAX"] = float(array.sum())
array = array * 1
tensor = from_jax(array)
array.delete()
jnp.full(1 << 16, -1.).block_until_ready()
results["kept by torch"] = float(tensor.sum())
del array, tensor
gc.collect()
(jnp.ones(3) + 1).block_until_ready()  # what came before is done
torch.mydev.synchronize()
results["left"] = torch.mydev.memory_allocated() - before < (1 << 16)

# Donating writes neither memory that torch has nor memory of torch's.
step = jax.jit(lambda x: x.at[0].set(-1.), donate_argnums=0)
array = jnp.arange(4.) + 0
tensor = from_jax(array)
result = step(array)
results["donated"] = [tensor.tolist(), np.asarray(result).tolist()]
x = torch.arange(4., device="mydev")
result = step(to_jax(x))
results["donated to JAX"] = [x.tolist(), np.asarray(result).tolist()]
array = jnp.arange(4.) + 0
from_jax(array)
gc.collect()
step(array).block_until_ready()
results["donated after the loan"] = problem(from_jax, array)

x = torch.zeros(3, device="mydev")
array = to_jax(x)
x += 1
results["written"] = np.asarray(array).tolist()
maps = {line.split()[-1] for line in open("/proc/self/maps") if "/libmydev_" in line}
results["libraries"] = [len([path for path in maps if f"/libmydev_{name}.so" in path])
                        for name in ("runtime", "kernels", "program")]
"""

REFUSED = """
s = jax.sharding
class Subclass(torch.Tensor): pass
refused = {
    "cpu": (to_jax, torch.zeros(3)),
    "meta": (to_jax, torch.zeros(2, device="meta")),
    "gradient": (to_jax, torch.zeros(3, device="mydev", requires_grad=True)),
    "sparse": (to_jax, torch.zeros(2, 2, device="mydev").to_sparse()),
    "complex32": (to_jax, torch.zeros(2, device="mydev").to(torch.complex32)),
    "number": (from_jax, 3),
    "numpy": (from_jax, np.ones(3)),
    "key": (from_jax, jax.random.key(0)),
    "int4": (from_jax, jnp.zeros(3, jnp.int4)),
    "float8_e3m4": (from_jax, jnp.zeros(3, jnp.float8_e3m4)),
    "jax's cpu": (from_jax, jax.device_put(1., jax.devices("cpu")[0])),
    "pinned": (from_jax, jax.device_put(jnp.ones(3), s.SingleDeviceSharding(jax.devices("mydev")[0],
                                                                            memory_kind="pinned_host"))),
    "sharded": (from_jax, jax.device_put(jnp.ones(4), s.NamedSharding(jax.make_mesh((2,), "a"),
                                                                      s.PartitionSpec("a")))),
}
results = {name: problem(*call) for name, call in refused.items()}
results["traced"] = problem(jax.jit(from_jax), 1.)
deleted = jnp.ones(3)
deleted.delete()
results["deleted"] = problem(from_jax, deleted)
graph = torch.mydev.MyDevGraph()
array, tensor = jnp.ones(3), torch.ones(3, device="mydev")
with torch.mydev.graph(graph):
    results["captured from"] = problem(from_jax, array)
    results["captured to"] = problem(to_jax, tensor)
results["next"] = from_jax(jnp.ones(3) + 1).tolist()
"""

ORDER = """
stream = torch.mydev.Stream()
gate = threading.Event()
x = torch.zeros(1000, device="mydev")
torch.mydev.synchronize()
with torch.mydev.stream(stream):
    stream.launch_host_func(gate.wait)
    x += 1
    y = to_jax(x) * 2  # of what the stream will have done
results["JAX waits for the stream"] = not y.is_ready()
gate.set()
results["to_jax"] = np.unique(np.asarray(y)).tolist()

# JAX's work is behind what the default stream was given.
default = torch.mydev.default_stream()
gate = threading.Event()
ones = jnp.ones(1000).block_until_ready()
default.launch_host_func(gate.wait)
array = ones + 1
with torch.mydev.stream(stream):
    tensor = from_jax(array)
    doubled = tensor * 2
results["the stream waits for JAX"] = not stream.query()
gate.set()
stream.synchronize()
results["from_jax"] = doubled.cpu().unique().tolist()
gate = threading.Event()
default.launch_host_func(gate.wait)
tensor = from_jax(ones + 1) * 2
gate.set()
results["on one stream"] = tensor.cpu().unique().tolist()

# Memory that torch still works on when all is released.
gate = threading.Event()
makers = {"JAX's": lambda: jnp.ones(5000) + 0, "torch's": lambda: to_jax(torch.ones(5000, device="mydev"))}
for name in makers:
    array = makers[name]().block_until_ready()
    with torch.mydev.stream(stream):
        tensor = from_jax(array)
        stream.launch_host_func(gate.wait)
        doubled = tensor * 2
    del array, tensor
    other = torch.full((5000,), -1., device="mydev")
    third = jnp.full(5000, -1.).block_until_ready() if name == "JAX's" else None
    gate.set()
    stream.synchronize()
    results[name] = doubled.cpu().unique().tolist()

def fails(a): raise ValueError("no such thing")
failing = jax.jit(lambda x: jax.pure_callback(fails, jax.ShapeDtypeStruct(x.shape, x.dtype), x))
gate = threading.Event()
if not REMOTE:  # there a callback holds up who calls
    default.launch_host_func(gate.wait)
array = failing(ones)
def use():
    with torch.mydev.stream(stream):
        tensor = from_jax(array) * 2
    gate.set()
    stream.synchronize()
results["failure"] = problem(use)
results["failure, later"] = problem(from_jax, array)
results["next"] = from_jax(jnp.ones(3) + 1).tolist()
"""


@pytest.fixture(autouse=True)
def _jax_and_torch() -> None:
    require("torch", "torch")
    require("jax", "jax==0.10.2")


@pytest.mark.parametrize("driver", DRIVERS)
def test_memory_is_shared_both_ways(driver: str) -> None:
    results = json.loads(output_of(START + BOTH_WAYS + END, driver).splitlines()[-1])
    shared = {name: [name, *rest] for name, (_, *rest) in {**results["types"], **results["wide"]}.items()}
    assert {**results["types"], **results["wide"]} == shared
    assert [row[2:] for row in shared.values()] == [[True, True, True]] * 20
    assert results["narrowed"] == ["int32", [0, 1, 2]]
    for shape, row in results["shapes"].items():
        assert row == [json.loads(shape), True, True, True], shape
    assert results["rows"] == [True, True]
    for name in ("columns", "transposed", "expanded", "conjugate", "steps", "negative"):
        assert results[name] == [False, True], name
    assert results["copied"] and results["never, and none is needed"]
    assert "sizes [6, 4] and strides [1, 6]" in results["never"]
    last = results["device"].pop()
    assert results["device"] == [f"{{mydev:{last}}}", f"mydev:{last}"]
    assert results["computed"] and not results["gradient"] and results["in torch's graph"]
    assert results["kept by JAX"] == results["kept by torch"] == 1 << 16
    assert results["left"]
    assert results["donated"] == results["donated to JAX"] == [[0, 1, 2, 3], [-1, 1, 2, 3]]
    assert "deleted" in results["donated after the loan"]
    assert results["written"] == [1, 1, 1]
    assert results["libraries"] == [1, 1, 1]


def test_what_cannot_be_shared_is_reported() -> None:
    results = json.loads(output_of(START + REFUSED + END, "host:devices=2").splitlines()[-1])
    expected = {
        "cpu": "ValueError: to_jax takes tensors on mydev, and this one is on cpu",
        "meta": "ValueError: to_jax takes tensors on mydev, and this one is on meta",
        "gradient": "RuntimeError: to_jax takes tensors that need no gradient",
        "sparse": "TypeError: to_jax takes dense tensors, and this one is torch.sparse_coo",
        "complex32": "TypeError: JAX has no type for torch.complex32",
        "number": "TypeError: from_jax takes arrays of JAX that have values, and this is int",
        "numpy": "TypeError: from_jax takes arrays of JAX that have values, and this is ndarray",
        "key": "TypeError: PyTorch has no type for key<fry>; jax.random.key_data gives",
        "int4": "TypeError: arrays of s4 cannot be shared",
        "float8_e3m4": "TypeError: PyTorch has no type for float8_e3m4",
        "jax's cpu": "ValueError: from_jax takes arrays on one device of mydev, and this one is on cpu:0",
        "pinned": "RuntimeError: f32[3] is in pinned_host of mydev:0, and only memory of the device is shared",
        "sharded": "ValueError: from_jax takes arrays on one device of mydev, and this one is on mydev:0 (",
        "traced": "TypeError: from_jax takes arrays of JAX that have values, and this is DynamicJaxprTracer",
        "deleted": "RuntimeError: Array has been deleted",
        "captured from": "RuntimeError: the current stream captures a graph",
        "captured to": "RuntimeError: the current stream captures a graph",
    }
    assert {name: str(results[name])[: len(text)] for name, text in expected.items()} == expected
    assert results["next"] == [2, 2, 2]


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS[1:])
def test_work_is_done_in_order(driver: str) -> None:
    results = json.loads(output_of(START + f"REMOTE = {'remote' in driver}\n" + ORDER + END, driver).splitlines()[-1])
    assert results["JAX waits for the stream"] and results["the stream waits for JAX"]
    assert results["to_jax"] == [2]
    assert results["from_jax"] == results["on one stream"] == [4]
    assert results["JAX's"] == results["torch's"] == [2]
    assert "ValueError: no such thing" in results["failure"]
    assert "no such thing" in results["failure, later"]
    assert results["next"] == [2, 2, 2]


@pytest.mark.slow
def test_a_model_of_jax_learns_from_batches_of_torch() -> None:
    require("optax", "optax==0.2.8")
    require("sklearn", "scikit-learn")
    program = "runpy.run_path('examples/train_jax_on_torch_data.py', run_name='program')"
    output = output_of(f"import runpy, sys; sys.argv = ['']; sys.exit({program}['main']())")
    assert "0 batches copied" in output
