"""Real programs of JAX: three steps of training, a simulation, a sampler, as on JAX's CPU. And programs as text, which
programs of JAX call.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pjrt.clients import output_of, require

TRAINING = Path(__file__).parent / "programs" / "jax_training.py"


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["host", "host:remote,async,guarded,kernels=none"])
def test_programs_compute_what_the_cpu_computes(driver: str) -> None:
    require("jax", "jax==0.10.2")
    require("optax", "optax==0.2.8")
    code = f"import runpy; runpy.run_path({str(TRAINING)!r}, run_name='__main__')"
    messages = json.loads(output_of(code, driver).splitlines()[-1])
    assert len(messages) == 5
    assert {name: message for name, message in messages.items() if message} == {}


TEXT = """
import json
import jax, jax.numpy as jnp, pjrt_mydev
pjrt_mydev.initialize()
jax.config.update("jax_platforms", "mydev,cpu")
text = '''programs version 1

program twice(x: f32[6], donated y: f32[2]) -> (sum: f32[2,3], y) {
  constant three: f32[] = hex "00004040"
  temporary square: f32[6]

  square = launch mydev.mul(x, x)
  sum = launch mydev.add(square f32[2,3], three f32[2,3]{0,0})
  y = launch mydev.add(y, y)
}
'''
def call(x, y, text=text, results=((2, 3), (2,))):
    shapes = [jax.ShapeDtypeStruct(sizes, jnp.float32) for sizes in results]
    return jax.ffi.ffi_call("mydev.program", shapes)(x, y, program=text)
def problem(*arguments, **options):
    try:
        jax.jit(lambda *given: call(*given, **options))(*arguments)
    except Exception as error:
        return str(error).splitlines()[0]
x, y = jnp.arange(6.0).reshape(3, 2), jnp.ones(2)
given = jax.jit(lambda x, y: call(call(x.T, y)[0].T.reshape(2, 3), y + 1))(x, y)
looped = jax.jit(lambda x, y: jax.lax.scan(lambda y, _: (call(x, y)[1], None), y, None, length=3)[0])(x, y)
print(json.dumps({
    "values": [given[0].tolist(), given[1].tolist(), y.tolist()],
    "loop": looped.tolist(),
    "text": problem(x, y, text="programs version 1\\n\\nprogram f() -> () {\\n  y = nothing\\n}"),
    "operand": problem(y, y),
    "results": problem(x, y, results=((2, 3),)),
}))
"""


@pytest.mark.parametrize("driver", ["host", "host:remote,async,guarded"])
def test_a_program_as_text_is_an_operation(driver: str) -> None:
    require("jax", "jax==0.10.2")
    found = json.loads(output_of(TEXT, driver).splitlines()[-1])
    first = [[x * x + 3 for x in row] for row in ([0.0, 2.0, 4.0], [1.0, 3.0, 5.0])]
    flat = [first[j][i] for i in range(3) for j in range(2)]
    squares = [x * x + 3 for x in flat]
    assert found["values"] == [[squares[:3], squares[3:]], [4.0, 4.0], [1.0, 1.0]]
    assert found["loop"] == [8.0, 8.0]
    assert "the text of its program: line 4" in found["text"]
    assert "gives a tensor<2xf32> for 'x' of its program, which has 24 bytes" in found["operand"]
    assert "has 1 results, and its program has 2" in found["results"]
