"""Batches of numbers and of arrays without elements."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opwright_jax import ops

X = jnp.linspace(-2, 2, 4)


@pytest.mark.parametrize(
    "run", [ops.softmax, ops.log_softmax, lambda x: ops.cumprod(x, axis=-1), ops.sum]
)
def test_a_batch_of_numbers_is_not_an_axis(run: Any) -> None:
    np.testing.assert_allclose(jax.vmap(run)(X), [run(x) for x in X], atol=1e-6)
    found = jax.vmap(jax.grad(run))(X)
    np.testing.assert_allclose(found, [jax.grad(run)(x) for x in X], atol=1e-6)


def test_images_without_elements_are_computed_in_a_batch() -> None:
    x = jnp.zeros((4, 3, 0, 5, 6))
    assert jax.vmap(partial(ops.interpolate, output_size=[2, 3]))(x).shape == (4, 3, 0, 2, 3)
    queries, keys = jnp.zeros((3, 1, 2, 0, 4)), jnp.ones((3, 1, 2, 5, 4))
    attend = jax.vmap(partial(ops.scaled_dot_product_attention, returns="out"))
    assert attend(queries, keys, keys).shape == (3, 1, 2, 0, 4)
