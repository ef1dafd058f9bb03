"""Operators that also exist in JAX match JAX in values, gradients and second gradients."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax, nn
from jax.scipy import special
from jax.scipy.linalg import solve_triangular
from pairs_of_shapes import STRUCTURED

from opwright_jax import ops

pytestmark = [pytest.mark.usefixtures("x64"), pytest.mark.grid(24)]

Function = Callable[..., Any]

SAME_NAME: tuple[tuple[Any, str, str], ...] = (
    (jnp, "real", "abs arcsinh:asinh arctan:atan cos cosh deg2rad exp exp2 expm1 rad2deg sin"),
    (jnp, "real", "negative reciprocal sinc sinh square tan tanh trace tril triu sum mean prod"),
    (jnp, "real", "max min median nansum nanmean var:variance std"),
    (jnp, "above one", "arccosh:acosh log log10 log1p log2 sqrt"),
    (jnp, "below one", "arccos:acos arcsin:asin arctanh:atanh"),
    (nn, "real", "celu elu gelu leaky_relu log_sigmoid log_softmax mish relu relu6 selu"),
    (nn, "real", "sigmoid silu softmax softplus hard_swish logsumexp soft_sign:softsign"),
    (lax, "real", "erf erfc"),
    (lax, "above one", "rsqrt digamma lgamma"),
    (lax, "below one", "erf_inv:erfinv"),
    (special, "positive", "logit"),
)
"""Modules, the indices of their arguments, and names, with ours if it differs."""

BINARY = (
    "add subtract multiply divide maximum minimum fmax fmin fmod arctan2:atan2 hypot copysign "
    "logaddexp logaddexp2 power outer kron cross"
)


def exact_gelu(x: Any) -> Any:
    return nn.gelu(x, approximate=False)


WITH_ARGUMENTS: dict[str, tuple[Function, Function]] = {
    "gelu": (ops.gelu, exact_gelu),
    "cumsum": (partial(ops.cumsum, axis=1), partial(jnp.cumsum, axis=1)),
    "cumprod": (partial(ops.cumprod, axis=1), partial(jnp.cumprod, axis=1)),
    "cummax": (partial(ops.cummax, axis=1, returns="out"), partial(lax.cummax, axis=1)),
    "cummin": (partial(ops.cummin, axis=1, returns="out"), partial(lax.cummin, axis=1)),
    "logcumsumexp": (partial(ops.logcumsumexp, axis=1), partial(lax.cumlogsumexp, axis=1)),
    "sum over an axis": (partial(ops.sum, axis=[0]), partial(jnp.sum, axis=0)),
    "norm": (ops.norm, lambda x: jnp.sqrt((x * x).sum())),
    "clip": (partial(ops.clip, min=-1.0, max=1.0), lambda x: jnp.clip(x, -1.0, 1.0)),
    "transpose": (ops.transpose, jnp.transpose),
    "roll": (partial(ops.roll, shift=[2], axis=[1]), lambda x: jnp.roll(x, 2, 1)),
    "flip": (ops.flip, jnp.flip),
    "rot90": (ops.rot90, jnp.rot90),
    "diff": (ops.diff, jnp.diff),
    "pow_scalar": (partial(ops.pow_scalar, exponent=3.0), lambda x: x**3),
    "matmul": (lambda x: ops.matmul(x, ops.transpose(x)), lambda x: x @ x.T),
    "maximum": (lambda x: ops.maximum(x, 0.5), lambda x: jnp.maximum(x, 0.5)),
    "where": (lambda x: ops.where(x > 0, x, x * x), lambda x: jnp.where(x > 0, x, x * x)),
    "reshape": (partial(ops.reshape, shape=[4, 3]), lambda x: x.reshape(4, 3)),
    "squared_difference": (
        lambda x: ops.squared_difference(x, x[::-1]), lambda x: (x - x[::-1]) ** 2
    ),
    "inverse": (lambda x: ops.inverse(x[:, :3]), lambda x: jnp.linalg.inv(x[:, :3])),
    "det": (lambda x: ops.det(x[:, :3]), lambda x: jnp.linalg.det(x[:, :3])),
    "solve": (
        lambda x: ops.solve(x[:, :3], x[:, 1:]), lambda x: jnp.linalg.solve(x[:, :3], x[:, 1:])
    ),
    "triangular_solve": (
        lambda x: ops.triangular_solve(x[:, :3], x[:, 1:]),
        lambda x: solve_triangular(x[:, :3], x[:, 1:]),
    ),
    "cholesky": (
        lambda x: ops.cholesky(ops.matmul(x, ops.transpose(x))),
        lambda x: jnp.linalg.cholesky(x @ x.T),
    ),
    "polygamma": (
        lambda x: ops.polygamma(x * x + 1.0, n=2), lambda x: special.polygamma(2, x * x + 1.0)
    ),
    "xlogy": (
        lambda x: ops.xlogy(x, x * x + 0.1), lambda x: special.xlogy(x, x * x + 0.1)
    ),
    "xlog1py": (lambda x: ops.xlog1py(x, x * x), lambda x: special.xlog1py(x, x * x)),
}  # fmt: skip
"""Our function and the JAX function, if their attributes or arguments differ."""

REAL = np.random.default_rng(3).permutation(np.linspace(-2.05, 2.1, 12)).reshape(3, 4)
PLACES = {
    "real": REAL,
    "above one": np.abs(REAL) + 1.1,
    "below one": REAL / 2.5,
    "positive": (REAL + 3) / 6,
}


def unary() -> dict[str, tuple[Function, Function, list[Any]]]:
    """Return (our function, JAX function, argument) for each function of one array."""
    pairs = {}
    for module, place, names in SAME_NAME:
        for pair in names.split():
            theirs, _, ours = pair.partition(":")
            if (ours or theirs) in WITH_ARGUMENTS:
                continue
            function = getattr(ops, ours or theirs)
            pairs[ours or theirs] = (function, getattr(module, theirs), [PLACES[place]])
    for name, (ours_, theirs_) in WITH_ARGUMENTS.items():
        pairs[name] = (ours_, theirs_, [REAL])
    return pairs


def binary() -> dict[str, tuple[Function, Function, list[Any]]]:
    """Return (our function, JAX function, arguments) for each function of two arrays."""
    x, y = PLACES["above one"][:, :3], np.roll(PLACES["above one"], 5)[:, :3] * 0.7
    pairs = {}
    for pair in BINARY.split():
        theirs, _, ours = pair.partition(":")
        pairs[f"{ours or theirs} of two"] = (
            getattr(ops, ours or theirs), getattr(jnp, theirs), [x, y]
        )  # fmt: skip
    return pairs


PAIRS = unary() | binary() | STRUCTURED


def derivatives(f: Function, arguments: list[Any]) -> list[Any]:
    """Return values, first and second gradients."""
    places = tuple(range(len(arguments)))

    def loss(*values: Any) -> Any:
        found = f(*values)
        return (jnp.cos(jnp.arange(found.size)).reshape(found.shape) * (found + found**2)).sum()

    def first(*values: Any) -> Any:
        return jax.grad(loss, places)(*values)

    def second(*values: Any) -> Any:
        total = lambda *v: sum((g * jnp.sin(g)).sum() for g in first(*v))  # noqa: E731
        return jax.grad(total, places)(*values)

    both = jax.jit(lambda *v: (f(*v), first(*v), second(*v)))
    return list(jax.tree.leaves(both(*arguments)))


@pytest.mark.parametrize("name", PAIRS)
def test_values_and_two_derivatives_match_jax(name: str) -> None:
    ours, theirs, arguments = PAIRS[name]
    expected = derivatives(theirs, arguments)
    for found, array in zip(derivatives(ours, arguments), expected, strict=True):
        np.testing.assert_allclose(found, array, rtol=1e-6, atol=1e-6)
