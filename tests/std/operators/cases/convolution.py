"""Test cases of convolution; the reference evaluates the definition in nested loops."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from case import LENGTHS, WIDE, Array, Case, Random, Source, Values


def convolve(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    strides: Sequence[int] = (),
    paddings: Sequence[int] = (),
    dilations: Sequence[int] = (),
    groups: int = 1,
    data_format: str = "NCHW",
) -> Array:
    images = np.moveaxis(x, -1, 1) if data_format.endswith("C") else x
    filters, per_group, *kernel = weight.shape
    rank = len(kernel)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    sides = np.reshape(paddings or [0, 0] * rank, (rank, 2)).tolist()
    padded = np.pad(images, [(0, 0), (0, 0), *sides])
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    size = [(n - r) // s + 1 for n, r, s in zip(padded.shape[2:], reach, strides, strict=True)]
    out = np.zeros((len(x), filters, *size))
    for n, o, *at in np.ndindex(*out.shape):
        begin = o // (filters // groups) * per_group
        covered = padded[n, begin : begin + per_group]
        for axis in range(rank):
            places = at[axis] * strides[axis] + np.arange(kernel[axis]) * dilations[axis]
            covered = covered.take(places, 1 + axis)
        out[(n, o, *at)] = (covered * weight[o]).sum() + (0 if bias is None else bias[o])
    return np.moveaxis(out, 1, -1) if data_format.endswith("C") else out


def images(shape: tuple[int, ...], data_format: str = "NCHW", **_: Any) -> Random:
    """Return images with shape [n, channels, *spatial], in the given axis order."""
    n, channels, *sizes = shape
    return Random((n, *sizes, channels) if data_format.endswith("C") else shape)


def case(
    x: tuple[int, ...], weight: tuple[int, ...], label: str, bias: bool = True, **attrs: Any
) -> Case:
    """Return a case; the shape of x is always [n, channels, *spatial] here."""
    inputs: dict[str, Source] = {"x": images(x, **attrs), "weight": Random(weight)}
    if bias:
        inputs["bias"] = Random(weight[:1])
    terms = prod(weight[1:]) + 1
    op_type = f"conv{len(x) - 2}d"
    return Case(op_type, inputs, convolve, attrs, label=label, terms=terms, magnitude=4.0)


EVERYTHING: dict[str, Any] = {
    "strides": [2, 1],
    "paddings": [1, 0, 2, 1],
    "dilations": [1, 2],
    "groups": 2,
}
NHWC = {"data_format": "NHWC"}
NLC = {"data_format": "NLC"}
AROUND: dict[str, Any] = {"paddings": [1, 1, 1, 1]}
NDHWC = {"data_format": "NDHWC"}
DEEP: dict[str, Any] = {
    "strides": [2, 1, 2],
    "paddings": [1, 0, 2, 1, 0, 1],
    "dilations": [1, 2, 1],
    "groups": 2,
}

CASES = (
    case((2, 3, 5, 6), (4, 3, 3, 3), "plain"),
    case((2, 3, 5, 6), (4, 3, 3, 3), "no-bias", bias=False),
    case((1, 1, 1, 1), (1, 1, 1, 1), "one-element"),
    case((1, 2, 3, 3), (2, 2, 3, 3), "one-window"),
    case((2, 2, 5, 4), (3, 2, 2, 3), "kernel-2x3"),
    case((2, 2, 5, 4), (3, 2, 1, 4), "kernel-row"),
    case((2, 2, 5, 4), (3, 2, 5, 1), "kernel-column"),
    case((1, 2, 4, 4), (3, 2, 3, 3), "same", paddings=[1, 1, 1, 1]),
    case((1, 2, 4, 5), (3, 2, 3, 3), "top-left", paddings=[2, 0, 1, 0]),
    case((1, 2, 4, 5), (3, 2, 3, 3), "bottom-right", paddings=[0, 2, 0, 1]),
    case((1, 1, 2, 2), (1, 1, 3, 3), "padding-beyond-kernel", paddings=[4, 3, 3, 5]),
    case((1, 1, 1, 2), (2, 1, 3, 3), "kernel-beyond-image", paddings=[1, 1, 1, 0]),
    case((2, 2, 7, 6), (3, 2, 3, 2), "stride-2", strides=[2, 2]),
    case((1, 2, 7, 8), (2, 2, 3, 3), "strides-3x1", strides=[3, 1], paddings=[1, 1, 1, 1]),
    case((1, 2, 5, 5), (2, 2, 1, 1), "stride-beyond-kernel", strides=[3, 2]),
    case((1, 2, 6, 7), (2, 2, 3, 3), "dilation-2", dilations=[2, 2]),
    case((1, 2, 6, 7), (2, 2, 2, 3), "dilations-3x1", dilations=[3, 1], paddings=[1, 0, 0, 2]),
    case((2, 3, 4, 4), (5, 3, 1, 1), "1x1"),
    case((2, 3, 5, 4), (5, 3, 1, 1), "1x1-stride-2", strides=[2, 2]),
    case((1, 3, 3, 3), (5, 3, 1, 1), "1x1-padded", paddings=[1, 0, 0, 1]),
    case((2, 4, 4, 5), (6, 2, 3, 2), "groups-2", groups=2),
    case((2, 3, 4, 4), (3, 1, 3, 3), "depthwise", groups=3, paddings=[1, 1, 1, 1]),
    case((1, 3, 4, 4), (6, 1, 2, 2), "depthwise-multiplied", groups=3),
    case((2, 4, 6, 7), (6, 2, 3, 2), "everything", **EVERYTHING),
    case((2, 3, 5, 6), (4, 3, 3, 3), "nhwc", **NHWC),
    case((2, 3, 5, 6), (4, 3, 3, 2), "nhwc-no-bias", bias=False, **NHWC),
    case((2, 3, 4, 5), (5, 3, 1, 1), "nhwc-1x1", **NHWC),
    case((2, 3, 4, 4), (3, 1, 3, 3), "nhwc-depthwise", groups=3, paddings=[1, 1, 1, 1], **NHWC),
    case((2, 4, 6, 7), (6, 2, 3, 2), "nhwc-everything", **EVERYTHING, **NHWC),
    case((2, 3, 5, 4), (5, 3, 1, 1), "nhwc-1x1-stride-2", strides=[2, 2], **NHWC),
    case((2, 8, 5, 4), (8, 2, 3, 3), "nhwc-groups-of-2", groups=4, **AROUND, **NHWC),
    case((1, 8, 5, 6), (8, 4, 3, 2), "nhwc-groups-of-4", groups=2, strides=[2, 1], **NHWC),
    *(case((1, n, 3, 3), (2, n, 2, 2), f"channels-{n}") for n in LENGTHS),
    *(case((1, 2, 2, 2), (n, 2, 2, 2), f"filters-{n}") for n in LENGTHS),
    *(case((1, 1, 2, n), (2, 1, 2, 1), f"width-{n}") for n in LENGTHS if n),
    *(case((1, n, 2, 3), (3, n, 2, 2), f"nhwc-channels-{n}", **NHWC) for n in LENGTHS if n > 6),
    case((0, 2, 4, 4), (3, 2, 3, 3), "batch-0"),
    case((0, 2, 4, 4), (3, 2, 3, 3), "nhwc-batch-0", **NHWC),
    case((2, 1, 0, 2), (1, 1, 2, 2), "no-height", paddings=[1, 1, 0, 0]),
    Case(
        "conv2d",
        {
            "x": Values([[[[np.inf, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, np.nan]]]]),
            "weight": Values([[[[1.0, 2.0], [3.0, 4.0]]]]),
        },
        convolve,
        dtypes=WIDE,
        label="special",
        no_grad="infinite or undefined there",
    ),
    case((2, 3, 9), (4, 3, 3), "plain"),
    case((2, 3, 9), (4, 3, 3), "no-bias", bias=False),
    case((1, 1, 1), (1, 1, 1), "one-element"),
    case((2, 4, 9), (6, 2, 3), "everything", strides=[2], paddings=[1, 2], dilations=[2], groups=2),
    case((2, 3, 9), (4, 3, 3), "nlc", **NLC),
    case((2, 4, 9), (4, 1, 3), "nlc-depthwise", groups=4, paddings=[2, 0], **NLC),
    *(case((1, 2, n), (3, 2, 1), f"length-{n}") for n in LENGTHS if n),
    case((0, 2, 4), (3, 2, 3), "batch-0"),
    case((2, 3, 4, 5, 3), (4, 3, 2, 3, 2), "plain"),
    case((2, 3, 4, 3, 3), (4, 3, 2, 2, 2), "no-bias", bias=False),
    case((1, 1, 1, 1, 1), (1, 1, 1, 1, 1), "one-element"),
    case((1, 4, 5, 4, 5), (6, 2, 3, 2, 3), "everything", **DEEP),
    case((1, 3, 3, 4, 4), (3, 1, 3, 3, 3), "depthwise", groups=3, paddings=[1] * 6),
    case((2, 3, 3, 4, 3), (4, 3, 2, 3, 2), "ndhwc", **NDHWC),
    case((1, 4, 5, 4, 5), (6, 2, 3, 2, 3), "ndhwc-everything", **DEEP, **NDHWC),
    *(case((1, n, 2, 2, 2), (2, n, 2, 1, 2), f"channels-{n}") for n in LENGTHS),
    *(case((1, 2, 1, 2, 2), (n, 2, 1, 2, 2), f"filters-{n}") for n in LENGTHS),
    case((0, 2, 3, 4, 4), (3, 2, 2, 3, 3), "batch-0"),
)
