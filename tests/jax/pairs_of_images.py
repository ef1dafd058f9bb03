"""JAX and opwright functions on images: convolutions, pooling and resizing.

A row has our function, the JAX function, and their differentiable arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from opwright_jax import ops

Function = Callable[..., Any]
Row = tuple[Function, Function, list[Any]]


def numbers(*shape: int) -> Any:
    """Return distinct numbers between -1.5 and 1.5, the same in every call."""
    rng = np.random.default_rng(sum(shape) + len(shape))
    return rng.permutation(np.linspace(-1.5, 1.4, int(np.prod(shape)))).reshape(shape)


def convolve(
    x: Any, weight: Any, strides: Any, pads: Any, dilations: Any = None, groups: int = 1
) -> Any:
    """Convolve images with channels first."""
    return lax.conv_general_dilated(
        x, weight, strides, pads, rhs_dilation=dilations, feature_group_count=groups
    )


def pool(kind: str, x: Any, kernel: Any, strides: Any, pads: Any = None) -> Any:
    """Reduce windows of images with channels first."""
    window, steps = (1, 1, *kernel), (1, 1, *strides)
    borders = [(0, 0), (0, 0), *(pads or [(0, 0)] * len(kernel))]
    if kind == "max":
        return lax.reduce_window(x, -jnp.inf, lax.max, window, steps, borders)
    total = lax.reduce_window(x, 0.0, lax.add, window, steps, borders)
    ones = lax.reduce_window(jnp.ones_like(x), 0.0, lax.add, window, steps, borders)
    return total / ones


IMAGE = numbers(2, 4, 6, 7)
CONV_PADS = [(2, 1), (0, 3)]
POOL_PADS = [(1, 0), (1, 0)]

WINDOWS: dict[str, Row] = {
    "conv1d": (
        partial(ops.conv1d, strides=[2], paddings=[1, 2]),
        lambda x, w: convolve(x, w, (2,), [(1, 2)]),
        [numbers(2, 4, 7), numbers(3, 4, 3)],
    ),
    "conv2d": (
        partial(ops.conv2d, paddings=[1, 1, 1, 1]),
        lambda x, w, b: convolve(x, w, (1, 1), [(1, 1), (1, 1)]) + b.reshape(3, 1, 1),
        [IMAGE, numbers(3, 4, 3, 3), numbers(3)],
    ),
    "conv2d with strides, dilations and groups": (
        partial(ops.conv2d, strides=[2, 1], paddings=[2, 1, 0, 3], dilations=[1, 2], groups=2),
        lambda x, w: convolve(x, w, (2, 1), CONV_PADS, (1, 2), 2),
        [IMAGE, numbers(6, 2, 3, 2)],
    ),
    "conv2d with channels last": (
        partial(ops.conv2d, data_format="NHWC"),
        lambda x, w: convolve(x.transpose(0, 3, 1, 2), w, (1, 1), "VALID").transpose(0, 2, 3, 1),
        [numbers(2, 5, 6, 4), numbers(3, 4, 2, 3)],
    ),
    "conv2d of each channel": (
        partial(ops.conv2d, groups=4),
        lambda x, w: convolve(x, w, (1, 1), "VALID", groups=4),
        [IMAGE, numbers(4, 1, 3, 3)],
    ),
    "conv3d": (
        ops.conv3d,
        lambda x, w: convolve(x, w, (1, 1, 1), "VALID"),
        [numbers(1, 2, 4, 3, 4), numbers(2, 2, 2, 2, 3)],
    ),
    "conv2d_transpose": (
        partial(ops.conv2d_transpose, strides=[2, 2]),
        lambda x, w: lax.conv_transpose(
            x, w, (2, 2), "VALID", dimension_numbers=("NCHW", "OIHW", "NCHW"), transpose_kernel=True
        ),
        [numbers(1, 4, 3, 4), numbers(4, 2, 3, 2)],
    ),
    "max_pool1d": (
        partial(ops.max_pool1d, kernel=[3], strides=[2], returns="out"),
        lambda x: pool("max", x, (3,), (2,)),
        [numbers(2, 3, 9)],
    ),
    "max_pool2d": (
        partial(
            ops.max_pool2d, kernel=[3, 2], strides=[1, 2], paddings=[1, 0, 1, 0], returns="out"
        ),
        lambda x: pool("max", x, (3, 2), (1, 2), POOL_PADS),
        [IMAGE],
    ),
    "max_pool3d": (
        partial(ops.max_pool3d, kernel=[2, 2, 2], strides=[2, 1, 1], returns="out"),
        lambda x: pool("max", x, (2, 2, 2), (2, 1, 1)),
        [numbers(1, 2, 4, 3, 4)],
    ),
    "avg_pool1d": (
        partial(ops.avg_pool1d, kernel=[3], strides=[2]),
        lambda x: pool("mean", x, (3,), (2,)),
        [numbers(2, 3, 9)],
    ),
    "avg_pool2d": (
        partial(ops.avg_pool2d, kernel=[3, 2], strides=[1, 2], paddings=[1, 0, 1, 0]),
        lambda x: pool("mean", x, (3, 2), (1, 2), POOL_PADS),
        [IMAGE],
    ),
    "avg_pool3d": (
        partial(ops.avg_pool3d, kernel=[2, 2, 2], strides=[2, 1, 1]),
        lambda x: pool("mean", x, (2, 2, 2), (2, 1, 1)),
        [numbers(1, 2, 4, 3, 4)],
    ),
    "lp_pool2d": (
        partial(ops.lp_pool2d, kernel=[2, 2], strides=[2, 2]),
        lambda x: jnp.sqrt(4 * pool("mean", x * x, (2, 2), (2, 2))),
        [IMAGE],
    ),
    "adaptive_avg_pool2d": (
        partial(ops.adaptive_avg_pool2d, output_size=[3, 1]),
        lambda x: pool("mean", x, (2, 7), (2, 7)),
        [IMAGE],
    ),
    "adaptive_max_pool2d": (
        partial(ops.adaptive_max_pool2d, output_size=[3, 1], returns="out"),
        lambda x: pool("max", x, (2, 7), (2, 7)),
        [IMAGE],
    ),
    "interpolate by the nearest": (
        partial(ops.interpolate, output_size=[12, 14]),
        lambda x: jax.image.resize(x, (2, 4, 12, 14), "nearest"),
        [IMAGE],
    ),
    "interpolate in lines": (
        partial(ops.interpolate, output_size=[11, 9], mode="bilinear"),
        lambda x: jax.image.resize(x, (2, 4, 11, 9), "bilinear", antialias=False),
        [IMAGE],
    ),
    "resize in lines with a filter": (
        partial(ops.resize, output_size=[4, 3], mode="linear", antialias=True),
        lambda x: jax.image.resize(x, (2, 4, 4, 3), "linear"),
        [IMAGE],
    ),
    "resize in cubes": (
        partial(
            ops.resize, output_size=[9, 8], mode="cubic", cubic_coefficient=-0.5,
            exclude_outside=True,
        ),
        lambda x: jax.image.resize(x, (2, 4, 9, 8), "cubic", antialias=False),
        [IMAGE],
    ),
    "unfold": (
        partial(ops.unfold, kernel=[2, 3], strides=[1, 2]),
        lambda x: lax.conv_general_dilated_patches(x, (2, 3), (1, 2), "VALID").reshape(2, 24, -1),
        [IMAGE],
    ),
    "pixel_shuffle": (
        partial(ops.pixel_shuffle, factor=2),
        lambda x: x.reshape(2, 1, 2, 2, 6, 7).transpose(0, 1, 4, 2, 5, 3).reshape(2, 1, 12, 14),
        [IMAGE],
    ),
}  # fmt: skip
