"""JAX's reports on the device and its programs: traces, costs, memory, texts; and options that a client asks for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pjrt.clients import output_of, require

START = """
import json
import jax, jax.numpy as jnp, numpy as np
import pjrt_mydev
pjrt_mydev.initialize()
jax.config.update("jax_platforms", "mydev,cpu")
results = {}
"""
END = "\nprint(json.dumps(results))"

TRACE = """
import gzip
from pathlib import Path
step = jax.jit(lambda x: jnp.sort(x @ x) + 1)
x = jnp.ones((64, 64))
step(x).block_until_ready()
def rows(directory):
    with jax.profiler.trace(directory):
        for _ in range(3):
            step(x).block_until_ready()
        jax.device_put(x, jax.devices()[-1]).block_until_ready()
    (file,) = Path(directory).rglob("*.xplane.pb")
    planes = {plane.name: plane for plane in jax.profiler.ProfileData.from_file(str(file)).planes}
    return {name: {line.name: [(e.name, e.start_ns, e.duration_ns, dict(e.stats)) for e in line.events]
                   for line in plane.lines} for name, plane in planes.items() if "mydev" in name}
results["first"] = rows(DIRECTORY + "/first")
results["second"] = rows(DIRECTORY + "/second")
(file,) = Path(DIRECTORY, "first").rglob("*.trace.json.gz")
results["viewer"] = [e["name"] for e in json.load(gzip.open(file))["traceEvents"] if e.get("name") == "mydev.sort"]
"""


COSTS = """
def compiled(function, *operands):
    return jax.jit(function).lower(*operands).compile()
x = jnp.ones((64, 64))
programs = {
    "product": compiled(lambda a: a @ a, x),
    "pointwise": compiled(lambda a: jnp.sin(a * a) + 1, x),
    "convolution": compiled(lambda a, w: jax.lax.conv(a, w, (1, 1), "SAME"), jnp.ones((1, 3, 8, 8)),
                            jnp.ones((4, 3, 3, 3))),
    "loop": compiled(lambda a: jax.lax.fori_loop(0, 10, lambda i, b: b @ b, a), x),
    "branches": compiled(lambda a: jax.lax.cond(a[0, 0] > 0, lambda b: b @ b, lambda b: b, a), x),
    "nothing": compiled(lambda: ()),
}
results["costs"] = {name: {key: program.cost_analysis()[key] for key in ("flops", "transcendentals", "bytes accessed")}
                    for name, program in programs.items()}
results["cpu"] = {name: jax.jit(function).lower(*jax.device_put(operands, jax.devices("cpu")[0])).compile()
                  .cost_analysis()["flops"] for name, function, operands in [("product", lambda a: a @ a, (x,))]}
memory = compiled(lambda a: (a @ a) @ a, x).memory_analysis()
results["memory"] = [memory.argument_size_in_bytes, memory.output_size_in_bytes, memory.temp_size_in_bytes]
results["text"] = pjrt_mydev.program_text(programs["product"])
results["hlo"] = programs["product"].as_text()
lowered = jax.jit(lambda a: a @ a).lower(x)
prints = [program.runtime_executable().fingerprint for program in (lowered.compile(), lowered.compile(),
                                                                   compiled(lambda a: a + a, x))]
results["fingerprints"] = [prints[0] == prints[1], prints[0] == prints[2]]
try:
    pjrt_mydev.program_text(jax.jit(lambda a: a).lower(jax.device_put(x, jax.devices("cpu")[0])).compile())
except Exception as error:
    results["of another platform"] = f"{type(error).__name__}: {error}"
results["device"] = jax.devices()[0].memory_stats()
"""


@pytest.fixture(autouse=True)
def _jax() -> None:
    require("jax", "jax==0.10.2")


@pytest.mark.parametrize("driver", ["host", "host:async,devices=2"])
def test_a_trace_has_a_row_for_each_command(driver: str, tmp_path: Path) -> None:
    code = f"{START}DIRECTORY = {str(tmp_path)!r}\n{TRACE}{END}"
    results = json.loads(output_of(code, driver).splitlines()[-1])
    for run in ("first", "second"):
        rows = results[run]["/device:CUSTOM:mydev:0"]["stream 0"]
        names = [name for name, *_ in rows if name.startswith("mydev.")]
        assert names == ["mydev.matmul", "mydev.sort", "mydev.add"] * 3
        starts = [start for _, start, *_ in rows]
        assert starts == sorted(starts)
        assert all(0 <= duration < 60e9 for _, _, duration, _ in rows)
        copies = [name for name, *_ in rows if name == "copy between devices"]  # on the stream of its source
        assert len(copies) == ("devices=2" in driver)
        matmul = next(stats for name, _, _, stats in rows if name == "mydev.matmul")
        assert matmul == {"bytes_accessed": 3 * 64 * 64 * 4, "command": "launch"}
    assert len(results["viewer"]) == 3


def test_programs_say_what_they_cost_and_what_they_are() -> None:
    results = json.loads(output_of(START + COSTS + END).splitlines()[-1])
    elements = 64 * 64
    costs = results["costs"]
    assert costs["product"] == {"flops": 2 * 64**3, "transcendentals": 0, "bytes accessed": 3 * elements * 4}
    assert results["cpu"]["product"] == costs["product"]["flops"]
    assert costs["pointwise"] == {
        "flops": 2 * elements,
        "transcendentals": elements,
        "bytes accessed": 2 * elements * 4,
    }
    assert costs["convolution"]["flops"] == 2 * (4 * 8 * 8) * (3 * 3 * 3)
    assert costs["loop"]["flops"] == 10 * 2 * 64**3
    assert 2 * 64**3 <= costs["branches"]["flops"] < 2 * 64**3 + 100
    assert costs["nothing"] == {"flops": 0, "transcendentals": 0, "bytes accessed": 0}
    assert results["memory"] == [elements * 4, elements * 4, elements * 4]
    assert "launch mydev.matmul(" in results["text"]
    assert "dot(" in results["hlo"]
    assert results["fingerprints"] == [True, False]
    assert "ValueError" in results["of another platform"]
    device = results["device"]
    assert 0 < device["bytes_in_use"] <= device["peak_bytes_in_use"] <= device["bytes_limit"]


OPTIONS = """
import json, os
import jax
import pjrt_mydev
def problem(function):
    try:
        function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
pjrt_mydev.initialize(driver="host:devices=3")
jax.config.update("jax_platforms", "mydev")
results = {"devices": len(jax.devices())}
results["again"] = problem(lambda: pjrt_mydev.initialize(driver="host:devices=3"))
results["other"] = problem(lambda: pjrt_mydev.initialize(driver="host"))
from jax._src.lib import xla_client
results["client"] = problem(lambda: xla_client.make_c_api_client("mydev", {"driver": "host:devices=2"}))
results["unknown"] = problem(lambda: xla_client.make_c_api_client("mydev", {"speed": "high"}))
results["two clients"] = len(xla_client.make_c_api_client("mydev", {"driver": "host:devices=3"}).devices())
"""


def test_a_client_chooses_the_driver() -> None:
    results = json.loads(output_of(OPTIONS + END, driver="host").splitlines()[-1])
    assert results["devices"] == results["two clients"] == 3
    assert results["again"] is None
    assert "driver 'host' comes too late" in results["other"]
    assert "asks for driver 'host:devices=2', and this process uses 'host:devices=3'" in results["client"]
    assert "client option 'speed' is not known" in results["unknown"]
