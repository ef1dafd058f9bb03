"""Forward-mode derivatives within other transformations of JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opwright.errors import GradientError
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


def test_an_argument_without_a_gradient_can_be_constant_in_a_second_derivative() -> None:
    x, angles = X.reshape(1, 1, 8, 4), jnp.linspace(0, 1, 16).reshape(8, 2)

    def total(x: Any) -> Any:
        return (ops.rotary_embedding(x, jnp.cos(angles), jnp.sin(angles)) ** 2).sum()

    def along(x: Any) -> Any:
        return jax.jvp(total, (x,), (x,))[1]

    np.testing.assert_allclose(jax.jvp(along, (x,), (x,))[1], 4 * (x**2).sum(), rtol=1e-5)
    np.testing.assert_allclose(jax.grad(along)(x), 4 * x, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, jax.checkpoint, jax.vmap])
def test_a_result_without_a_gradient_raises_if_the_derivative_depends_on_it(wrap: Any) -> None:
    def norm(x: Any) -> Any:
        return ops.layer_norm(x, begin_norm_axis=-1, returns=["out", "mean"])

    def total(*places: int) -> Any:
        return lambda x: sum((wrap(norm)(x)[i] ** 3).sum() for i in places)

    x = X[None] ** 3
    expected = jax.grad(lambda x: (norm(x)[0] ** 3).sum())(x)
    np.testing.assert_allclose(jax.grad(total(0))(x), expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(GradientError, match="no gradient flows back through output 'mean'"):
        jax.grad(total(0, 1))(x)
    with pytest.raises(GradientError, match="no gradient flows back through output 'mean'"):
        jax.jvp(total(0, 1), (x,), (x,))


def test_running_statistics_have_no_gradient() -> None:
    def norm(x: Any) -> Any:
        return ops.batch_norm(x, x[0], x[1], X[2], X[3], training=True)

    def total(x: Any) -> Any:
        out, mean, variance = norm(x)
        return (out**3).sum() + mean.sum() + variance.sum()

    expected = jax.grad(lambda x: (norm(x)[0] ** 3).sum())(X)
    np.testing.assert_allclose(jax.grad(total)(X), expected, rtol=1e-6)
    found = jax.jvp(total, (X,), (jnp.cos(X),))[1]
    np.testing.assert_allclose(found, (expected * jnp.cos(X)).sum(), rtol=1e-5)
