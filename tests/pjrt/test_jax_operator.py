"""Functions of JAX as operators of PyTorch: torch_mydev.jax.operator. References are JAX on the CPU, and PyTorch."""

from __future__ import annotations

import json

import pytest

from pjrt.clients import TORCH_AND_JAX, output_of, require
from support.checkout import DRIVERS as BUILT_DRIVERS

DRIVERS = ["host", "host:async,guarded", "host:remote,async,guarded"]
START = f"""{TORCH_AND_JAX}
from torch_mydev.jax import operator
def same(a, b):
    torch.testing.assert_close(a.cpu(), b.cpu())
    return True
x, w = torch.randn(4, 6).to("mydev"), torch.randn(6, 3).to("mydev")
@operator
def layer(x, w, scale=1.0):
    return jnp.tanh(x @ w) * scale
def reference(x, w, scale=1.0):
    return torch.tanh(x @ w) * scale
"""
END = "\nprint(json.dumps(results))"

VALUES = """
results["values"] = same(layer(x, w, scale=2.0), reference(x, w, 2.0))
results["strides"] = same(layer(x.t().contiguous().t(), w.flip(0).expand(6, 3)), reference(x, w.flip(0)))
@operator
def statistics(tree, which):
    values = tree["values"]
    return {"mean": values.mean(), "rest": (values.astype(jnp.int32), which, [values > 0])}
found = statistics({"values": x}, which=3)
results["tree"] = [same(found["mean"], x.mean()), str(found["rest"][0].dtype), found["rest"][1].item(),
                   same(found["rest"][2][0], x > 0), str(found["rest"][2][0].dtype)]
results["narrowed"] = str(operator(lambda i: i + 1)(torch.arange(3, device="mydev")).dtype)
with jax.enable_x64(True):
    results["wide"] = str(operator(lambda i: i + 1)(torch.arange(3, device="mydev")).dtype)
key = torch.tensor([0, 7], dtype=torch.uint32, device="mydev")
with jax.default_device(jax.devices("cpu")[0]):
    expected = np.asarray(jax.random.bits(jax.random.wrap_key_data(jnp.array([0, 7], jnp.uint32)), (5,)))
drawn = operator(lambda key: jax.random.bits(jax.random.wrap_key_data(key), (5,)))(key)
results["random"] = drawn.cpu().tolist() == expected.tolist()
results["loop"] = operator(lambda x: jax.lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * 2), (0, x))[1])(
    torch.ones(2, device="mydev")).tolist()
results["empty"] = list(operator(lambda x: jnp.concatenate([x, x]))(torch.ones(0, 3, device="mydev")).shape)
"""

DERIVATIVES = """
def gradients(function):
    a, b = x.clone().requires_grad_(), w.clone().requires_grad_()
    loss = function(a, b).square().sum()
    first = torch.autograd.grad(loss, (a, b), create_graph=True)
    second = torch.autograd.grad(first[0].sin().sum() + first[1].sum(), (a, b))
    return [*first, *second]
results["gradients"] = [same(a, b) for a, b in zip(gradients(layer), gradients(reference))]
only = w.clone().requires_grad_()
layer(x, only).sum().backward()
results["one of two"] = same(only.grad, torch.autograd.grad(reference(x, o := w.clone().requires_grad_()).sum(), o)[0])
t = torch.ones_like(x)
results["tangents"] = [same(a, b) for a, b in zip(torch.func.jvp(lambda x: layer(x, w), (x,), (t,)),
                                                  torch.func.jvp(lambda x: reference(x, w), (x,), (t,)))]
batch = torch.randn(5, 4, 6).to("mydev")
results["vmap"] = same(torch.vmap(layer, (0, None))(batch, w), torch.vmap(reference, (0, None))(batch, w))
results["per sample"] = same(*(torch.vmap(torch.func.grad(lambda w, x: f(x, w).sum()), (None, 0))(w, batch)
                               for f in (layer, reference)))
z = torch.randn(3, dtype=torch.complex64).to("mydev")
def complex_gradient(function):
    c = z.clone().requires_grad_()
    function(c).abs().sum().backward()
    return c.grad
results["complex"] = same(complex_gradient(operator(lambda z: z * z + 1j * jnp.conj(z))),
                          complex_gradient(lambda z: z * z + 1j * z.conj()))
@operator
def with_index(x):
    return x.argmax(), (x * x).sum()
a = x.clone().requires_grad_()
index, total = with_index(a)
total.backward()
results["integers"] = [index.requires_grad, same(a.grad, 2 * x)]
"""

COMPILED = """
def network(x, w):
    return layer(torch.relu(x), w, scale=3.0).sum() + x.sum()
def plain(x, w):
    return reference(torch.relu(x), w, 3.0).sum() + x.sum()
for name in ("inductor", "programs"):
    torch._dynamo.reset()
    compiled = torch.compile(network, backend="inductor" if name == "inductor" else "mydev_program", fullgraph=True)
    a, b = x.clone().requires_grad_(), w.clone().requires_grad_()
    loss = compiled(a, b)
    loss.backward()
    c, d = x.clone().requires_grad_(), w.clone().requires_grad_()
    expected = plain(c, d)
    expected.backward()
    results[name] = [same(loss.detach(), expected.detach()), same(a.grad, c.grad), same(b.grad, d.grad)]
"""

CAPTURED = """
static = x.clone()
layer(static, w)  # compiled now
graph = torch.mydev.MyDevGraph()
side = torch.mydev.Stream()
with torch.mydev.graph(graph, stream=side):
    out = layer(static, w)
results["replays"] = []
for value in (0.5, -1.0):
    static.fill_(value)
    torch.mydev.synchronize()
    graph.replay()
    torch.mydev.synchronize()
    results["replays"].append(same(out, reference(static, w)))
with torch.mydev.stream(side):
    results["stream"] = same(layer(x, w), reference(x, w))
"""

REFUSED = """
results["no tensor"] = problem(layer, 1.0, 2.0)
results["elsewhere"] = problem(layer, x, w.cpu())
results["sparse"] = problem(layer, x.to_sparse(), w)
results["no hash"] = problem(layer, x, w, scale=np.ones(3))
results["sizes"] = problem(layer, x, x)
results["after"] = same(layer(x, w), reference(x, w))
"""


def answers(code: str, driver: str) -> dict[str, object]:
    require("jax", "jax==0.10.2")
    require("torch", "torch")
    found: dict[str, object] = json.loads(output_of(START + code + END, driver).splitlines()[-1])
    return found


@pytest.mark.parametrize("driver", DRIVERS)
def test_values_are_those_of_jax(driver: str) -> None:
    assert answers(VALUES, driver) == {
        "values": True,
        "strides": True,
        "tree": [True, "torch.int32", 3, True, "torch.bool"],
        "narrowed": "torch.int32",
        "wide": "torch.int64",
        "random": True,
        "loop": [32.0, 32.0],
        "empty": [0, 3],
    }


@pytest.mark.parametrize("driver", DRIVERS)
def test_derivatives_and_batches_are_those_of_pytorch(driver: str) -> None:
    assert answers(DERIVATIVES, driver) == {
        "gradients": [True] * 4,
        "one of two": True,
        "tangents": [True] * 2,
        "vmap": True,
        "per sample": True,
        "complex": True,
        "integers": [False, True],
    }


@pytest.mark.parametrize("driver", ["host", "host:remote,async,guarded"])
def test_compiled_code_has_it_as_one_node(driver: str) -> None:
    assert answers(COMPILED, driver) == {"inductor": [True] * 3, "programs": [True] * 3}


@pytest.mark.parametrize("driver", [*DRIVERS, str(BUILT_DRIVERS / "partial_driver.so")], ids=[*DRIVERS, "few kernels"])
def test_graphs_capture_it(driver: str) -> None:
    assert answers(CAPTURED, driver) == {"replays": [True, True], "stream": True}


def test_bad_arguments_are_one_line_each() -> None:
    found = answers(REFUSED, "host")
    assert found.pop("after") is True
    for name, part in {
        "no tensor": "ValueError: layer: an operator of JAX needs a tensor",
        "elsewhere": "ValueError: layer: an operator of JAX takes tensors on one mydev device",
        "sparse": "TypeError: layer: an operator of JAX takes dense tensors",
        "no hash": "TypeError: layer: an argument that is no tensor is a constant",
        "sizes": "TypeError: dot_general requires contracting dimensions to have the same shape",
    }.items():
        assert str(found[name]).startswith(part), found[name]


def test_a_model_of_torch_learns_from_a_loss_of_jax() -> None:
    require("jax", "jax==0.10.2")
    require("torch", "torch")
    output = output_of(
        "import runpy, sys; sys.argv = ['']; runpy.run_path('examples/jax_loss_in_torch.py', run_name='__main__')"
    )
    assert "test accuracy" in output
