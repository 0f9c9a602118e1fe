"""Trains a small model in JAX on the device."""

import jax
import jax.numpy as jnp
import numpy as np

random = np.random.default_rng(0)
x = random.standard_normal((256, 4), np.float32)
y = (x.sum(1, keepdims=True) > 0).astype(np.float32)


def loss_of(weights, x, y):
    first, second = weights
    scores = jax.nn.relu(x @ first) @ second
    return jnp.mean(jnp.logaddexp(0, scores) - y * scores)


@jax.jit
def step(weights, x, y):
    loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
    return loss, [weight - gradient for weight, gradient in zip(weights, gradients, strict=True)]


weights = [jnp.asarray(random.standard_normal(size, np.float32) / 2) for size in ((4, 32), (32, 1))]
for _ in range(50):
    loss, weights = step(weights, x, y)
device = next(iter(loss.devices()))
print(f"{device}: loss {loss:.2f}")
assert device.platform == "acme", device
assert loss < 0.2, loss
