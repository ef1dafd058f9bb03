"""Proximal steps: penalties are minimized exactly, which can set elements to exactly 0."""

from __future__ import annotations

import numpy as np

from opwright.op import OpMaker
from opwright_std.numerics.dtypes import Array
from opwright_std.operators.adaptive_optimizers import EPSILON
from opwright_std.operators.optimizers import NO_GRADIENT, add_bounds, optimizer, update_shape

PENALTIES = {
    "l1": (0.0, "factor of the sum of absolute values"),
    "l2": (0.0, "factor of half the sum of squares"),
}


def _shrink(moved: Array, rate: Array | float, l1: float, l2: float, param_out: Array) -> None:
    """Write the p that minimizes l1 |p| + l2 p^2 / 2 + (p - moved)^2 / (2 rate)."""
    bound = np.asarray(rate * l1, moved.dtype)
    np.subtract(moved, np.clip(moved, -bound, bound), out=param_out)
    param_out /= np.asarray(1 + rate * l2, moved.dtype)


def proximal_gd(
    param: Array, grad: Array, learning_rate: Array, param_out: Array, *, l1: float, l2: float
) -> None:
    rate = float(learning_rate[0])
    _shrink(param - grad * rate, rate, l1, l2, param_out)


def _shrinking(op_type: str, comment: str, *state: str) -> OpMaker:
    return add_bounds(optimizer(op_type, comment, *state), **PENALTIES)


PROXIMAL_GD = _shrinking(
    "proximal_gd",
    "Proximal gradient descent, moved = param - learning_rate * grad, param_out = "
    "sign(moved) * max(|moved| - learning_rate * l1, 0) / (1 + learning_rate * l2). Duchi and "
    "Singer, 2009.",
).build(infer_shape=update_shape(), gradient=NO_GRADIENT)


def proximal_adagrad(
    param: Array,
    grad: Array,
    learning_rate: Array,
    squares: Array,
    param_out: Array,
    squares_out: Array,
    *,
    l1: float,
    l2: float,
    epsilon: float,
) -> None:
    np.add(squares, np.square(grad), out=squares_out)
    rate = np.asarray(np.sqrt(squares_out))
    rate += epsilon
    np.divide(np.asarray(learning_rate[0], rate.dtype), rate, out=rate)
    _shrink(param - grad * rate, rate, l1, l2, param_out)


PROXIMAL_ADAGRAD = add_bounds(
    _shrinking(
        "proximal_adagrad",
        "Proximal Adagrad, squares_out = squares + grad**2, rate = learning_rate / "
        "(sqrt(squares_out) + epsilon), moved = param - rate * grad, param_out = sign(moved) * "
        "max(|moved| - rate * l1, 0) / (1 + rate * l2). Duchi, Hazan and Singer, 2011.",
        "squares",
    ),
    epsilon=(1e-10, EPSILON),
).build(infer_shape=update_shape("squares"), gradient=NO_GRADIENT)


def ftrl(
    param: Array,
    grad: Array,
    learning_rate: Array,
    squares: Array,
    linear: Array,
    param_out: Array,
    squares_out: Array,
    linear_out: Array,
    *,
    l1: float,
    l2: float,
) -> None:
    rate = float(learning_rate[0])
    root = np.asarray(np.sqrt(squares))
    np.add(squares, np.square(grad), out=squares_out)
    next_root = np.sqrt(squares_out)
    change = np.asarray(next_root - root)
    change /= rate
    change *= param
    np.subtract(grad, change, out=change)
    np.add(linear, change, out=linear_out)
    np.divide(next_root, rate, out=root)
    root += 2 * l2
    np.subtract(np.clip(linear_out, -l1, l1), linear_out, out=change)
    np.divide(change, root, out=root)
    np.copyto(root, 0, where=np.abs(linear_out) <= l1)
    param_out[...] = root


FTRL = _shrinking(
    "ftrl",
    "Follow the regularized leader, squares_out = squares + grad**2, linear_out = linear + grad - "
    "(sqrt(squares_out) - sqrt(squares)) / learning_rate * param, param_out = (sign(linear_out) * "
    "l1 - linear_out) / (sqrt(squares_out) / learning_rate + 2 * l2) where |linear_out| > l1, and "
    "0 elsewhere. McMahan et al., 2013.",
    "squares",
    "linear",
).build(infer_shape=update_shape("squares", "linear"), gradient=NO_GRADIENT)
