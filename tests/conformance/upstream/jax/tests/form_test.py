"""Tests in the form of JAX's own, for tests/drivers/test_conform_upstream.py. UPSTREAM_FORM is as in PyTorch's."""

from __future__ import annotations

import os

import jax
import jax.numpy as jnp
import numpy as np
from absl.testing import absltest, parameterized
from jax._src import test_util as jtu

jax.config.parse_flags_with_absl()

ASKED = os.environ.get("UPSTREAM_FORM", "").split(",")


def asked(what: str) -> bool:
    """Whether a test of the device is to do that."""
    return what in ASKED and jax.default_backend() != "cpu"


class FormTest(jtu.JaxTestCase):
    @parameterized.parameters(jnp.float32, jnp.int32)
    def test_sum(self, dtype: type) -> None:
        self.assertEqual(jnp.arange(10, dtype=dtype).sum(), 45)

    def test_gradient(self) -> None:
        self.assertAllClose(jax.grad(jnp.sin)(0.5), np.float32(np.cos(0.5)))

    def test_fails_on_each_device(self) -> None:
        self.assertAllClose(jnp.ones(1), jnp.zeros(1))

    @jtu.run_on_devices("cpu")
    def test_is_for_the_cpu(self) -> None:
        self.assertEqual(jax.default_backend(), "cpu")

    def test_fails_when_asked(self) -> None:
        self.assertFalse(asked("fail"), "asked to fail")

    def test_crashes_when_asked(self) -> None:
        if asked("crash"):
            os.abort()


if __name__ == "__main__":
    absltest.main(testLoader=jtu.JaxTestLoader())
