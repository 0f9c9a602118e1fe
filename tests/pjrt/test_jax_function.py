"""Functions of PyTorch within JAX's programs: torch_mydev.jax.function. References are PyTorch on the CPU, and JAX."""

from __future__ import annotations

import json

import pytest

from pjrt.clients import TORCH_AND_JAX, output_of, require, run_client

DRIVERS = [
    "host",
    pytest.param("host:async,guarded,devices=2", marks=pytest.mark.slow),
    pytest.param("host:remote,async,guarded", marks=pytest.mark.slow),
]
START = f"""{TORCH_AND_JAX}
import torch.nn.functional as F
from torch_mydev.jax import function, from_jax, to_jax
def same(found, expected, **tolerances):
    found, expected = jax.tree.leaves(found), jax.tree.leaves(expected)
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        torch.testing.assert_close(torch.tensor(np.asarray(a)), b.detach().cpu(), **tolerances)
    return True
def layer(x, w, scale=1.0):
    return F.layer_norm(torch.tanh(x @ w), (3,)) * scale
in_jax = function(layer)
x, w = torch.randn(4, 6), torch.randn(6, 3)
a, b = jnp.asarray(x.numpy()), jnp.asarray(w.numpy())
"""
END = "\nprint(json.dumps(results))"

VALUES = """
results["values"] = same(in_jax(a, b, scale=2.0), layer(x, w, 2.0))
results["jit"] = same(jax.jit(lambda a, b, s: in_jax(jnp.sin(a), b, s) + 1)(a, b, 2.0), layer(x.sin(), w, 2.0) + 1)
shapes = jax.eval_shape(in_jax, a, b)
results["shapes"] = [list(shapes.shape), str(shapes.dtype)]
@function
def statistics(tree, which, unused=None):
    values = tree["values"]
    return {"mean": values.mean(), "rest": (values.argmax(1), which, [values > 0, values.t()])}
found = statistics({"values": a}, which=3)
results["tree"] = [same(found, {"mean": x.mean(), "rest": (x.argmax(1).int(), torch.tensor(3), [x > 0, x.t()])},
                        check_dtype=False), str(found["rest"][0].dtype)]
with jax.enable_x64(True):
    results["wide"] = str(function(lambda x: x.argmax(1))(a).dtype)
results["half"] = same(function(lambda x: (x * 2).float())(a.astype(jnp.bfloat16)), (x.bfloat16() * 2).float())
results["input"] = same(function(lambda x, y: (x, y.t(), x[:2]))(a, b), (x, w.t(), x[:2]))
results["empty"] = list(function(lambda x: torch.cat([x, x]))(jnp.ones((0, 3))).shape)
results["made"] = same(function(lambda x: torch.arange(6, device=x.device) * x)(a), torch.arange(6) * x)
weight = w.to("mydev")
results["closure"] = same(jax.jit(function(lambda x: x @ weight.sin()))(a), x @ w.sin())
results["where"] = same(function(lambda x: x[torch.tensor([2, 0])])(a), x[[2, 0]])
text = pjrt_mydev.program_text(jax.jit(lambda a, b: in_jax(a, b)).lower(a, b).compile())
results["program"] = ["python_callback" in text, "launch" in text]
donated = jax.jit(lambda a: function(lambda x: x.sin())(a) + a, donate_argnums=0)
results["donated"] = same(donated(jnp.asarray(x.numpy())), x.sin() + x)
"""

DERIVATIVES = """
def loss(f):
    return lambda a, b: (f(a, b) ** 2).sum()
grads = jax.jit(jax.grad(loss(in_jax), argnums=(0, 1)))(a, b)
p, q = x.clone().requires_grad_(), w.clone().requires_grad_()
expected = torch.autograd.grad(loss(layer)(p, q), (p, q), create_graph=True)
results["gradients"] = same(grads, expected)
second = jax.grad(lambda b: jnp.sin(jax.grad(loss(in_jax), argnums=1)(a, b)).sum())(b)
results["second"] = same(second, torch.autograd.grad(expected[1].sin().sum(), q)[0], rtol=1e-4, atol=1e-4)
results["tangents"] = same(jax.jvp(lambda a: in_jax(a, b), (a,), (jnp.ones_like(a),)),
                           torch.func.jvp(lambda x: layer(x, w), (x,), (torch.ones_like(x),)))
results["hessian"] = same(jax.hessian(lambda a: function(lambda x: (x ** 3).sum())(a))(a[0]),
                          torch.func.hessian(lambda x: (x ** 3).sum())(x[0]))
batch = torch.randn(5, 4, 6)
c = jnp.asarray(batch.numpy())
results["vmap"] = same(jax.vmap(in_jax, (0, None))(c, b), torch.vmap(layer, (0, None))(batch, w))
results["axes"] = same(jax.vmap(in_jax, (2, None), 1)(jnp.moveaxis(c, 0, 2), b),
                       torch.vmap(layer, (0, None), 1)(batch, w))
per_sample = jax.vmap(jax.grad(lambda b, a: in_jax(a, b).sum()), (None, 0))(b, c)
expected_each = torch.vmap(torch.func.grad(lambda w, x: layer(x, w).sum()), (None, 0))(w, batch)
results["per sample"] = same(per_sample, expected_each, rtol=1e-4, atol=1e-5)
summed = jax.grad(lambda b: jax.vmap(lambda a: in_jax(a, b))(c).sum())(b)
results["of a batch"] = same(summed, torch.func.grad(lambda w: layer(batch, w).sum())(w), rtol=1e-4, atol=1e-4)
linear = jax.linear_transpose(jax.vmap(lambda t: jax.jvp(lambda a: in_jax(a, b), (a,), (t,))[1]), c)
results["transposed"] = list(linear(jnp.ones((5, 4, 3)))[0].shape)
z = torch.randn(3, dtype=torch.complex64)
y = z.clone().requires_grad_()
(y * y + 1j * y.conj()).abs().sum().backward()
found = jax.grad(lambda z: jnp.abs(function(lambda z: z * z + 1j * z.conj())(z)).sum())(jnp.asarray(z.numpy()))
results["complex"] = same(found.conj(), y.grad)
index, total = jax.value_and_grad(lambda a: function(lambda x: ((x * x).sum(), x.argmax()))(a), has_aux=True)(a)
results["integers"] = same(total, 2 * x)
results["remat"] = same(jax.grad(jax.checkpoint(lambda b: loss(in_jax)(a, b)))(b), expected[1])
"""

LOOPS = """
cell = torch.nn.GRUCell(6, 3)
state = {name: jnp.asarray(value.detach().numpy()) for name, value in cell.named_parameters()}
step = function(cell)
rows = torch.randn(7, 4, 6)
def scanned(state, rows):
    def body(h, row):
        h = step(state, row, h)
        return h, h.sum()
    h, sums = jax.lax.scan(body, jnp.zeros((4, 3)), rows)
    return h.sum() + sums.sum()
value, grads = jax.jit(jax.value_and_grad(scanned))(state, jnp.asarray(rows.numpy()))
h, total = torch.zeros(4, 3), 0.0
for row in rows:
    h = cell(row, h)
    total = total + h.sum()
total = total + h.sum()
total.backward()
results["value"] = same(value, total, rtol=1e-4, atol=1e-4)
results["gradients"] = same(grads, {name: p.grad for name, p in cell.named_parameters()}, rtol=1e-4, atol=1e-4)
thrice = jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, function(torch.sin)(s[1])), (0, a))[1]
results["while"] = same(thrice, x.sin().sin().sin())
results["cond"] = same(jax.jit(lambda a, p: jax.lax.cond(p, function(torch.exp), function(torch.sin), a))(a, False),
                       x.sin())
"""

ON_THE_HOST = """
def parts(x):
    lower = torch.linalg.cholesky(x @ x.t() + 4 * torch.eye(4, device=x.device))
    return torch.special.bessel_j0(lower.sin()).sum(0), torch.histc(x, 3)
found = jax.jit(function(parts))
results["values"] = same(found(a), parts(x), rtol=1e-4, atol=1e-4)
results["host"] = "launch pjrt.python_callback" in pjrt_mydev.program_text(found.lower(a).compile())
results["again"] = [same(found(a * i), parts(x * i), rtol=1e-4, atol=1e-4) for i in range(1, 4)]
results["half"] = same(function(lambda x: torch.special.bessel_j0(x.float()).bfloat16())(a.astype(jnp.bfloat16))
                       .astype(jnp.float32), torch.special.bessel_j0(x.bfloat16().float()).bfloat16().float())
"""

DEVICES = """
devices = jax.devices()
found = [in_jax(jax.device_put(a, device), jax.device_put(b, device)) for device in devices]
results["devices"] = [same(each, layer(x, w)) and each.devices() == {device} for each, device in zip(found, devices)]
mesh = jax.make_mesh((2,), ("batch",))
spec = jax.sharding.PartitionSpec
split = jax.device_put(a, jax.sharding.NamedSharding(mesh, spec("batch")))
results["partitioned"] = same(jax.jit(in_jax)(split, b), layer(x, w))
mapped = jax.shard_map(in_jax, mesh=mesh, in_specs=(spec("batch"), spec()), out_specs=spec("batch"), check_vma=False)
results["mapped"] = same(mapped(split, b), layer(x, w))
import threading
def work(scale):
    results.setdefault("threads", []).append(same(in_jax(a, b, scale=scale), layer(x, w, scale)))
threads = [threading.Thread(target=work, args=(float(i),)) for i in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""

REFUSED = """
results["sizes"] = problem(in_jax, a, a)
results["random"] = problem(function(lambda x: F.dropout(x, 0.5)), a)
def writing(x):
    x.add_(1)
    return x
results["written"] = problem(function(writing), a)
results["value"] = problem(function(lambda x: x if x.sum() > 0 else -x), a)
results["nonzero"] = problem(function(lambda x: x.nonzero()), a)
results["result"] = problem(function(lambda x: "text"), a)
results["no hash"] = problem(in_jax, a, b, scale={1, 2})
results["type"] = problem(in_jax, jax.random.key(0), b)
def broken(x):
    raise KeyError("lost")
results["raises"] = problem(jax.jit(function(broken)), a)
results["after"] = same(in_jax(a, b), layer(x, w))
"""


def answers(code: str, driver: str) -> dict[str, object]:
    require("jax", "jax==0.10.2")
    require("torch", "torch")
    found: dict[str, object] = json.loads(output_of(START + code + END, driver).splitlines()[-1])
    return found


@pytest.mark.parametrize("driver", DRIVERS)
def test_values_are_those_of_pytorch(driver: str) -> None:
    assert answers(VALUES, driver) == {
        **dict.fromkeys(("values", "jit", "half", "input", "made", "closure", "where", "donated"), True),
        "shapes": [[4, 3], "float32"],
        "tree": [True, "int32"],
        "wide": "int64",
        "empty": [0, 3],
        "program": [False, True],
    }


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["host", "host:remote,async,guarded"])
def test_derivatives_and_batches_are_those_of_pytorch(driver: str) -> None:
    found = answers(DERIVATIVES, driver)
    assert found.pop("transposed") == [5, 4, 6]
    assert all(value is True for value in found.values()), found


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["host", "host:async,guarded", "host:remote,async,guarded"])
def test_loops_and_branches_have_modules_in_them(driver: str) -> None:
    assert answers(LOOPS, driver) == dict.fromkeys(("value", "gradients", "while", "cond"), True)


@pytest.mark.parametrize("driver", DRIVERS)
def test_operators_without_kernels_are_computed_on_the_host(driver: str) -> None:
    assert answers(ON_THE_HOST, driver) == {"values": True, "host": True, "again": [True] * 3, "half": True}


@pytest.mark.slow
def test_each_device_and_each_thread_has_its_own_call() -> None:
    assert answers(DEVICES, "host:async,devices=2") == {
        "devices": [True, True],
        "partitioned": True,
        "mapped": True,
        "threads": [True] * 4,
    }


def test_bad_functions_are_one_line_each() -> None:
    found = answers(REFUSED, "host")
    assert found.pop("after") is True
    for name, part in {
        "sizes": "RuntimeError: layer: ",
        "random": "ValueError: <lambda>: aten.",
        "written": "ValueError: writing: aten.copy_",
        "value": "ValueError: <lambda>: aten._local_scalar_dense.default asks for a number of a tensor",
        "nonzero": "ValueError: <lambda>: aten.nonzero.default gives a tensor whose sizes depend on values",
        "result": "TypeError: <lambda>: it returns str, and JAX takes trees of dense tensors",
        "no hash": "TypeError: layer: an argument that is no array is a constant, and needs a hash",
        "type": "TypeError: PyTorch has no type for JAX's key<fry>",
        "raises": "RuntimeError: broken: 'lost'",
    }.items():
        assert str(found[name]).startswith(part), found[name]


def test_a_process_ends_while_the_host_computes() -> None:
    """Calls of the host that are under way at exit neither hang nor crash."""
    require("jax", "jax==0.10.2")
    require("torch", "torch")
    code = (
        START + "\nfound = jax.jit(function(torch.special.bessel_j0))\nfor _ in range(50): a = found(a)\nprint('ends')"
    )
    result = run_client(code, "host:async")
    assert (result.returncode, result.stdout) == (0, "ends\n"), result.stderr


@pytest.mark.slow
def test_a_module_of_torch_learns_in_a_scan_of_jax() -> None:
    require("jax", "jax==0.10.2")
    require("torch", "torch")
    output = output_of(
        "import runpy, sys; sys.argv = ['']; runpy.run_path('examples/torch_module_in_jax.py', run_name='__main__')"
    )
    assert "test accuracy" in output
