"""Test cases of transposed convolution; in the reference, each x element adds a scaled kernel."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from case import LENGTHS, Array, Case, Random, Source


def spread(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    strides: Sequence[int] = (),
    paddings: Sequence[int] = (),
    dilations: Sequence[int] = (),
    output_padding: Sequence[int] = (),
    groups: int = 1,
    data_format: str = "NCHW",
) -> Array:
    is_last = data_format.endswith("C")
    images = np.moveaxis(x, -1, 1) if is_last else x
    inputs, per_group, *kernel = weight.shape
    rank, filters = len(kernel), per_group * groups
    steps, gaps = strides or [1] * rank, dilations or [1] * rank
    more, sides = output_padding or [0] * rank, paddings or [0, 0] * rank
    sizes = [
        (images.shape[2 + a] - 1) * steps[a] + (kernel[a] - 1) * gaps[a] + 1 + more[a]
        for a in range(rank)
    ]
    whole = np.zeros((len(x), filters, *sizes))
    for n, c, *at in np.ndindex(*images.shape):
        first = c // (inputs // groups) * per_group
        for o, *tap in np.ndindex(per_group, *kernel):
            place = [at[a] * steps[a] + tap[a] * gaps[a] for a in range(rank)]
            whole[(n, first + o, *place)] += images[(n, c, *at)] * weight[(c, o, *tap)]
    kept = [slice(sides[2 * a], sizes[a] - sides[2 * a + 1]) for a in range(rank)]
    out = whole[(slice(None), slice(None), *kept)]
    if bias is not None:
        out = out + bias.reshape(-1, *[1] * rank)
    return np.moveaxis(out, 1, -1) if is_last else out


def case(
    x: tuple[int, ...], weight: tuple[int, ...], label: str, bias: bool = True, **attrs: Any
) -> Case:
    """Return a case; the shape of x is always [n, channels, *spatial] here."""
    n, channels, *sizes = x
    is_last = attrs.get("data_format", "").endswith("C")
    shape = (n, *sizes, channels) if is_last else x
    inputs: dict[str, Source] = {"x": Random(shape), "weight": Random(weight)}
    if bias:
        inputs["bias"] = Random((weight[1] * attrs.get("groups", 1),))
    terms = weight[0] * prod(weight[2:]) + 1
    op_type = f"conv{len(sizes)}d_transpose"
    return Case(op_type, inputs, spread, attrs, label=label, terms=terms, magnitude=4.0)


EVERYTHING: dict[str, Any] = {
    "strides": [2, 3],
    "paddings": [1, 0, 2, 1],
    "dilations": [1, 2],
    "output_padding": [1, 2],
    "groups": 2,
}
DEEP: dict[str, Any] = {
    "strides": [2, 1, 2],
    "paddings": [1, 0, 0, 1, 1, 1],
    "dilations": [1, 2, 1],
    "output_padding": [1, 0, 1],
    "groups": 2,
}
BEYOND: dict[str, Any] = {
    "strides": [1, 2],
    "paddings": [1, 1, 0, 1],
    "dilations": [3, 4],
    "output_padding": [2, 3],
}
DEEP_BEYOND: dict[str, Any] = {
    "strides": [1, 1, 2],
    "dilations": [2, 1, 3],
    "output_padding": [1, 0, 2],
    "groups": 4,
}
NHWC = {"data_format": "NHWC"}
NDHWC = {"data_format": "NDHWC"}

CASES = (
    case((2, 3, 4, 5), (3, 4, 3, 3), "plain"),
    case((2, 3, 4, 5), (3, 4, 3, 3), "no-bias", bias=False),
    case((1, 1, 1, 1), (1, 1, 1, 1), "one-element"),
    case((2, 3, 4, 3), (3, 5, 1, 1), "1x1"),
    case((1, 2, 3, 4), (2, 3, 2, 2), "stride-2", strides=[2, 2]),
    case((1, 2, 3, 3), (2, 3, 2, 2), "stride-beyond-kernel", strides=[3, 4]),
    case((1, 2, 3, 4), (2, 3, 3, 3), "same", paddings=[1, 1, 1, 1]),
    case((1, 2, 3, 4), (2, 3, 4, 4), "doubled", strides=[2, 2], paddings=[1, 1, 1, 1]),
    case((1, 2, 3, 4), (2, 3, 3, 3), "extra", strides=[2, 2], output_padding=[1, 1]),
    case((1, 2, 3, 4), (2, 3, 3, 2), "dilation-2", dilations=[2, 3]),
    case((2, 4, 3, 4), (4, 3, 3, 2), "groups-2", groups=2),
    case((2, 3, 3, 4), (3, 1, 3, 3), "depthwise", groups=3, paddings=[1, 1, 1, 1]),
    case((2, 4, 4, 3), (4, 3, 3, 2), "everything", **EVERYTHING),
    case((2, 3, 4, 3), (3, 4, 3, 3), "nhwc", **NHWC),
    case((2, 4, 4, 3), (4, 3, 3, 2), "nhwc-everything", **EVERYTHING, **NHWC),
    *(case((1, n, 2, 2), (n, 2, 2, 2), f"channels-{n}") for n in LENGTHS),
    *(case((1, 2, 2, 2), (2, n, 2, 2), f"filters-{n}") for n in LENGTHS),
    *(case((1, n, 2, 2), (n, 3, 2, 2), f"nhwc-channels-{n}", **NHWC) for n in LENGTHS if n > 6),
    case((0, 2, 3, 3), (2, 3, 2, 2), "batch-0"),
    case((2, 3, 3, 4), (3, 2, 2, 2), "beyond-stride", **BEYOND),
    case((2, 3, 3, 4), (3, 2, 2, 2), "nhwc-beyond-stride", **BEYOND, **NHWC),
    case((2, 4, 5), (4, 3, 3), "line", strides=[2], paddings=[1, 2], output_padding=[1], groups=2),
    case((2, 4, 5), (4, 3, 3), "nlc-line", dilations=[3], output_padding=[2], data_format="NLC"),
    case((1, 2, 3), (2, 3, 2), "plain-line", bias=False),
    case((0, 2, 3), (2, 3, 2), "batch-0"),
    case((2, 3, 2, 3, 3), (3, 2, 2, 2, 2), "plain"),
    case((1, 1, 1, 1, 1), (1, 1, 1, 1, 1), "one-element", bias=False),
    case((1, 4, 3, 3, 2), (4, 1, 3, 2, 2), "everything", **DEEP),
    case((1, 4, 3, 3, 2), (4, 1, 3, 2, 2), "ndhwc-everything", **DEEP, **NDHWC),
    case((0, 2, 2, 3, 3), (2, 3, 2, 2, 2), "batch-0"),
    case((0, 3, 3, 4), (3, 2, 2, 2), "beyond-stride-batch-0", **BEYOND),
    case((1, 4, 2, 3, 2), (4, 1, 2, 2, 2), "beyond-stride", **DEEP_BEYOND),
    case((1, 4, 2, 3, 2), (4, 1, 2, 2, 2), "ndhwc-beyond-stride", **DEEP_BEYOND, **NDHWC),
)
