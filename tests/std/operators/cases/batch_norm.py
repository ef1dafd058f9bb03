"""Test cases of batch_norm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from case import LENGTHS, Array, Case, Random, Source, Values


def batch_norm(
    x: Array,
    scale: Array,
    bias: Array,
    mean: Array,
    variance: Array,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    training: bool = False,
    unbiased: bool = False,
) -> tuple[Array, ...]:
    channels_last = np.moveaxis(x, 1, -1)
    rows = channels_last.reshape(x.size // max(x.shape[1], 1), x.shape[1])
    m, v = mean, variance
    if training and len(rows):
        m, v = rows.mean(0), ((rows - rows.mean(0)) ** 2).mean(0)
        mean = momentum * mean + (1 - momentum) * m
        moved = rows.var(0, ddof=1) if unbiased else v
        variance = momentum * variance + (1 - momentum) * moved
    inv_std = 1 / np.sqrt(v + epsilon)
    out = (channels_last - m) * inv_std * scale + bias
    return np.moveaxis(out, -1, 1), mean, variance, m, inv_std


def case(x: Source, channels: int, label: str, no_grad: str = "", **attrs: Any) -> Case:
    inputs = {
        "x": x,
        "scale": Random((channels,)),
        "bias": Random((channels,)),
        "mean": Random((channels,)),
        "variance": Random((channels,), 0.5, 2.0),
    }
    return Case(
        "batch_norm",
        inputs,
        batch_norm,
        attrs,
        label=label,
        terms=16,
        magnitude=4.0,
        ulps=8,
        no_grad=no_grad,
    )


LARGE = float(np.float32(1000.3))  # sums of it are exact in float64, not in float32
FLAT = "a difference that is large beside deviations of 0 shows no derivative"


CASES = (
    *(case(Random((n, 3)), 3, f"training-{n}", training=True) for n in LENGTHS if n != 1),
    case(Random((1, 3)), 3, "training-1", training=True, epsilon=0.1),
    *(case(Random((3, n)), n, f"channels-{n}", training=True) for n in LENGTHS),
    case(Random((4, 3)), 3, "running"),
    case(Random((0, 3)), 3, "running-empty"),
    case(Random((2, 3, 4)), 3, "sequence", training=True, momentum=0.5),
    case(Random((2, 3, 2, 2)), 3, "images", training=True),
    case(Random((2, 3, 2, 2)), 3, "images-running", epsilon=0.1),
    case(Random((5, 17)), 17, "unbiased", training=True, unbiased=True),
    case(Random((2, 3, 3, 2)), 3, "unbiased-images", training=True, unbiased=True),
    case(Random((1, 3)), 3, "unbiased-running", unbiased=True),
    case(Random((0, 3)), 3, "unbiased-empty", training=True, unbiased=True),
    replace(
        case(Values([[10000.0], [10001.0], [10005.0]]), 1, "large-mean", training=True),
        no_half_grad="saved_mean has the dtype of x, whose steps are 8 here in float16",
    ),
    # All deviations are 0, so a mean that is off by a few ulp gives large errors.
    case(Random((700, 3), 1000.015625, 1000.015625), 3, "constant-rows", FLAT, training=True),
    case(
        Random((9, 2, 37, 41), 1000.015625, 1000.015625), 2, "constant-images", FLAT, training=True
    ),
)
