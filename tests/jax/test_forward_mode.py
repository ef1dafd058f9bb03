"""Forward-mode derivatives within other transformations of JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opwright_jax import ops

X = jnp.linspace(-2, 2, 32).reshape(8, 4)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda f: f,
        jax.jit,
        jax.checkpoint,
        lambda f: lambda x: jax.lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0],
    ],
)
def test_forward_mode_composes_with_other_transformations(wrap: Any) -> None:
    def check(transform: Any) -> None:
        found, expected = transform(wrap(ops.softmax)), transform(wrap(jax.nn.softmax))
        for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5)

    direction = jnp.cos(X)
    both = jnp.stack([X, direction])
    check(lambda f: jax.jvp(f, (X,), (direction,)))
    check(lambda f: jax.jvp(jax.grad(lambda x: (f(x) ** 2).sum()), (X,), (direction,)))
    check(lambda f: jax.grad(lambda x: jax.jvp(f, (x,), (direction,))[1].sum())(X))
    check(lambda f: jax.hessian(lambda x: (f(x) ** 2).sum())(X))
    check(lambda f: jax.jacfwd(jax.jacfwd(lambda x: (f(x) ** 2).sum()))(X))
    check(lambda f: jax.jacrev(jax.jacfwd(lambda x: (f(x) ** 2).sum()))(X))
    check(lambda f: jax.linear_transpose(jax.linearize(f, X)[1], X)(direction))
    check(lambda f: jax.linear_transpose(jax.vmap(jax.linearize(f, X)[1]), both)(both))
