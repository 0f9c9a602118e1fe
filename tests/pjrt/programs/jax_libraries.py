"""Programs of JAX's libraries, as their users write them, on the device and on JAX's CPU, in one process.

    python tests/pjrt/programs/jax_libraries.py flax|flax_nnx|equinox|numpyro|blackjax

Prints what is wrong as JSON: "" where nothing is. Each function imports its library.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax_training import message_of, normal

import pjrt_mydev

STEPS = 3
TOLERANCE = 1e-4  # relative and absolute, of f32


IMAGES = normal(16, 8, 8, 1)
LABELS = np.arange(16) % 10


def cross_entropy(scores: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(scores, LABELS).mean()


def flax() -> Any:
    """A convolutional network with batch normalization and dropout."""
    from flax import linen

    class Network(linen.Module):
        @linen.compact
        def __call__(self, x: Any, training: bool) -> Any:
            for features in (8, 16):
                x = linen.Conv(features, (3, 3), use_bias=False)(x)
                x = linen.relu(linen.BatchNorm(use_running_average=not training)(x))
                x = linen.max_pool(x, (2, 2), (2, 2))
            x = linen.Dropout(0.25, deterministic=not training)(x.reshape(len(x), -1))
            return linen.Dense(10)(x)

    network, optimizer = Network(), optax.adamw(1e-2)
    variables = network.init(jax.random.key(0), IMAGES, training=False)

    def loss(parameters: Any, statistics: Any, key: Any) -> Any:
        given = {"params": parameters, "batch_stats": statistics}
        scores, updated = network.apply(given, IMAGES, training=True, rngs={"dropout": key}, mutable=["batch_stats"])
        return cross_entropy(scores), updated["batch_stats"]

    @jax.jit
    def step(parameters: Any, statistics: Any, state: Any, key: Any) -> Any:
        (value, statistics), gradients = jax.value_and_grad(loss, has_aux=True)(parameters, statistics, key)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), statistics, state, value

    parameters, statistics = variables["params"], variables["batch_stats"]
    state, losses = optimizer.init(parameters), []
    for number in range(STEPS):
        parameters, statistics, state, value = step(parameters, statistics, state, jax.random.key(number))
        losses.append(value)
    scores = network.apply({"params": parameters, "batch_stats": statistics}, IMAGES, training=False)
    return losses, parameters, statistics, scores


def flax_nnx() -> Any:
    """A transformer's block, whose state the modules hold."""
    from flax import nnx

    class Network(nnx.Module):
        def __init__(self, rngs: Any) -> None:
            self.embedding = nnx.Embed(50, 32, rngs=rngs)
            self.attention = nnx.MultiHeadAttention(4, 32, decode=False, rngs=rngs)
            self.normalization = nnx.LayerNorm(32, rngs=rngs)
            self.last = nnx.Linear(32, 10, rngs=rngs)

        def __call__(self, tokens: Any) -> Any:
            x = self.embedding(tokens)
            x = x + self.attention(self.normalization(x))
            return self.last(x.mean(1))

    network = Network(nnx.Rngs(0))
    optimizer = nnx.Optimizer(network, optax.sgd(0.1, momentum=0.9), wrt=nnx.Param)
    tokens = np.random.default_rng(3).integers(0, 50, (16, 12))

    @nnx.jit
    def step(network: Any, optimizer: Any) -> Any:
        value, gradients = nnx.value_and_grad(lambda network: cross_entropy(network(tokens)))(network)
        optimizer.update(network, gradients)
        return value

    losses = [step(network, optimizer) for _ in range(STEPS)]
    return losses, nnx.state(network, nnx.Param).to_pure_dict()


def equinox() -> Any:
    """A network that is a tree of arrays, vmapped over its inputs."""
    import equinox as eqx

    network = eqx.nn.MLP(64, 10, 32, 2, key=jax.random.key(0))
    optimizer = optax.sgd(0.1, momentum=0.9)

    @eqx.filter_jit
    def step(network: Any, state: Any) -> Any:
        def loss(network: Any) -> Any:
            return cross_entropy(jax.vmap(network)(IMAGES.reshape(16, 64)))

        value, gradients = eqx.filter_value_and_grad(loss)(network)
        updates, state = optimizer.update(gradients, state)
        return eqx.apply_updates(network, updates), state, value

    state, losses = optimizer.init(eqx.filter(network, eqx.is_array)), []
    for _ in range(STEPS):
        network, state, value = step(network, state)
        losses.append(value)
    return losses, eqx.filter(network, eqx.is_array)


INPUTS = normal(40, 3)
OUTCOMES = (INPUTS @ np.array([1.0, -2.0, 0.5], np.float32) > 0).astype(np.int32)


def numpyro() -> Any:
    """The weights of a logistic regression, by the No-U-Turn sampler; and by variational inference."""
    import numpyro as pyro
    from numpyro import distributions, infer

    def model() -> None:
        weights = pyro.sample("weights", distributions.Normal(0, 1).expand([3]).to_event(1))
        pyro.sample("outcome", distributions.Bernoulli(logits=INPUTS @ weights), obs=OUTCOMES)

    sampler = infer.MCMC(infer.NUTS(model), num_warmup=10, num_samples=10, progress_bar=False)
    sampler.run(jax.random.key(1))
    guide = infer.autoguide.AutoNormal(model)
    inference = infer.SVI(model, guide, optax.adam(1e-2), infer.Trace_ELBO())
    fitted = inference.run(jax.random.key(2), 20, progress_bar=False)
    return sampler.get_samples(), fitted.params, fitted.losses


def blackjax() -> Any:
    """The same weights by Hamiltonian Monte Carlo, chains side by side."""
    import blackjax as samplers

    def log_density(weights: Any) -> Any:
        scores = INPUTS @ weights
        return (OUTCOMES * scores - jax.nn.softplus(scores)).sum() - 0.5 * (weights**2).sum()

    algorithm = samplers.hmc(log_density, 0.05, jnp.ones(3), 8)

    def chain(key: Any) -> Any:
        def step(state: Any, key: Any) -> Any:
            state, _ = algorithm.step(key, state)
            return state, state.position

        return jax.lax.scan(step, algorithm.init(jnp.zeros(3)), jax.random.split(key, 12))[1]

    return jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(0), 4))


PROGRAMS: dict[str, Callable[[], Any]] = {
    function.__name__: function for function in (flax, flax_nnx, equinox, numpyro, blackjax)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=PROGRAMS)
    program = PROGRAMS[parser.parse_args().program]
    pjrt_mydev.initialize()
    jax.config.update("jax_platforms", f"{pjrt_mydev.device_name()},cpu")
    jax.config.update("jax_default_matmul_precision", "highest")
    device, cpu = jax.devices(pjrt_mydev.device_name())[0], jax.devices("cpu")[0]
    print(json.dumps(message_of(program, device, cpu, TOLERANCE)))


if __name__ == "__main__":
    main()
