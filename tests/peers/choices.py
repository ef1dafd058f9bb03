"""Intentional differences from PyTorch, as listed in decision 0035.

Elements that a function in this file marks are not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from case import Array

Inputs = Mapping[str, Array]
Mask = Callable[[Inputs], Array]


def _broadcast(function: Callable[[Array, Array], Array]) -> Mask:
    return lambda given: function(*np.broadcast_arrays(given["x"], given["y"]))


def _ties(x: Array, y: Array) -> Array:
    return (x == y) | np.isnan(x) | np.isnan(y)


def _any(function: Callable[[Array], Array]) -> Mask:
    """Mark all elements if any is marked, since the elements share their gradient."""
    return lambda given: np.broadcast_to(function(given["x"]).any(), given["x"].shape)


def _repeats(x: Array) -> Array:
    return np.array(np.unique(x).size < x.size or bool(np.isnan(x).any()))


def _equal_rows(given: Inputs) -> Array:
    x = given["x"]
    if x.size == 0:  # the mean of no elements, which is 0 in opwright
        return np.ones((1,), bool)
    rows = x.reshape(-1, x.shape[-1]) if x.ndim else x.reshape(1, 1)
    return np.full(x.shape, bool((np.ptp(rows, axis=1) == 0).any()))


def _far_from_zero(given: Inputs) -> Array:
    x = given["x"]
    return np.full(x.shape, x.size > 0 and bool(np.ptp(x) < 1e-2 * np.abs(x).max()))


def _near_poles(given: Inputs) -> Array:
    x = given["x"].astype(np.float64)
    return np.abs(np.cos(np.where(np.isfinite(x), x, 0.0))) < 0.02


def _beside_poles(given: Inputs) -> Array:
    """Mark numbers at and near integers below 1, where peers round pi * x."""
    x = given["x"].astype(np.float64)
    return (x < 0.5) & (np.abs(x - np.rint(np.where(np.isfinite(x), x, 0.0))) < 0.02)


def _not_finite(given: Inputs) -> Array:
    marks = [~np.isfinite(given[slot]).all() for slot in ("x", "label")]
    return np.full(given["x"].shape, any(marks))


def _without_derivative(x: Array, y: Array) -> Array:
    """Mark elements where squaring x and y, as PyTorch does, gives 0 or infinity."""
    largest = np.maximum(np.abs(x), np.abs(y)).astype(np.float64)
    return ~((largest > 1e-150) & (largest < 1e150))


def _singular(given: Inputs) -> Array:
    """Mark singular matrices, because PyTorch computes the gradient from the inverse."""
    x = given["x"].astype(np.float64)
    return np.array(bool((np.linalg.matrix_rank(x) < x.shape[-1]).any()))


OUTPUTS: dict[str, Mask] = {
    "gelu": lambda given: given["x"] == -np.inf,
    "silu": lambda given: given["x"] == -np.inf,
    "mish": lambda given: given["x"] == -np.inf,
    "swish": lambda given: np.isinf(given["x"]),
    "hard_swish": lambda given: given["x"] == -np.inf,
    "softsign": lambda given: np.isinf(given["x"]),
    "heaviside": lambda given: np.isnan(given["x"]),
    "digamma": _beside_poles,
    "polygamma": lambda given: np.isinf(given["x"]),
    "pow_scalar": lambda given: (given["x"] == 0) | (given["x"] == -np.inf),
    "nan_to_num": lambda given: np.isinf(given["x"]),  # the ends of float64, not of the dtype
    "kl_div": _not_finite,
    "sequence_pool": _any(np.isnan),
    "instance_norm": _equal_rows,
    "batch_norm": _far_from_zero,  # where PyTorch is inexact
    "softmax_with_cross_entropy": lambda given: np.array(np.isinf(given["logits"]).any()),
}
"""By operator: elements of the first output, at infinities and where a label of 0 meets -inf."""

GRADIENTS: dict[str, Mask] = {
    "abs": lambda given: np.isnan(given["x"]),
    "sign": lambda given: np.isnan(given["x"]),
    "maximum": _broadcast(_ties),
    "minimum": _broadcast(_ties),
    "max": _any(np.isnan),
    "min": _any(np.isnan),
    "top_k": _any(_repeats),
    "sort": _any(_repeats),
    "silu": lambda given: np.isinf(given["x"]),
    "gelu": lambda given: np.isinf(given["x"]),
    "mish": lambda given: np.isinf(given["x"]),
    "power": _broadcast(lambda x, y: (x <= 0) | np.isinf(x) | np.isinf(y)),
    "max_pool2d": _any(np.isnan),
    "hard_sigmoid": lambda given: np.isnan(given["x"]),
    "hard_swish": lambda given: ~np.isfinite(given["x"]),
    "relu6": lambda given: np.isnan(given["x"]),
    "hard_shrink": lambda given: np.isnan(given["x"]),
    "soft_shrink": lambda given: np.isnan(given["x"]),
    "soft_relu": lambda given: np.isnan(given["x"]),
    "softsign": lambda given: np.isinf(given["x"]),
    "swish": lambda given: np.isinf(given["x"]),
    "pow_scalar": lambda given: ~np.isfinite(given["x"]) | (given["x"] == 0),
    "atan2": _broadcast(_without_derivative),
    "atan2_derivative": _broadcast(_without_derivative),
    "det": _singular,
    "prelu": lambda given: ~np.isfinite(given["x"]),
    "kl_div": _not_finite,
    "hinge": _not_finite,
    "sequence_pool": _any(np.isnan),
    "cumprod": _any(lambda x: ~np.isfinite(x)),
    "logsumexp": _any(np.isinf),
    "binary_cross_entropy": lambda given: (given["x"] == 0) | (given["x"] == 1),
    "logaddexp": _broadcast(lambda x, y: np.isinf(x) | np.isinf(y)),
    "copysign": lambda given: np.isinf(given["x"]),
    "acosh": lambda given: given["x"] < 1.01,  # NaN below 1, near which x - 1 is inexact
    "digamma": _beside_poles,
    "lgamma": _beside_poles,
    "atanh": lambda given: np.abs(given["x"]) > 0.99,  # where 1 - x * x is inexact
    "sinc": lambda given: np.abs(given["x"]) < 0.1,  # where PyTorch loses precision
    "logcumsumexp": _any(np.isinf),
    "hypot": _broadcast(lambda x, y: (x == 0) & (y == 0) | np.isinf(x) | np.isinf(y)),
    "fmod": _broadcast(lambda x, y: np.isinf(x) | (y == 0)),
    "polygamma": lambda given: np.isinf(given["x"]),
    "scatter": lambda given: np.isnan(given["x"]).any() | np.isnan(given["updates"]).any(),
    "tan": _near_poles,  # where it is the square of a rounded number
    "acos": lambda given: np.abs(given["x"]) > 0.99,  # where 1 - x is inexact
    "asin": lambda given: np.abs(given["x"]) > 0.99,
    "instance_norm": _equal_rows,
    "group_norm": _equal_rows,
    "rms_norm": _equal_rows,
    "layer_norm": _equal_rows,  # PyTorch's gradient of nothing is not 0
    "softmax_with_cross_entropy": lambda given: np.isinf(given["logits"]),
    "batch_norm": _far_from_zero,
}
"""By operator: elements of the gradients of all inputs, or of inputs in the shape of the output."""
