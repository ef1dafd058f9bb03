"""Cases of conv2d: nested loops over the definition are the reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from case import LENGTHS, WIDE, Array, Case, Random, Source, Values


def conv2d(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    strides: Sequence[int] = (1, 1),
    paddings: Sequence[int] = (0, 0, 0, 0),
    dilations: Sequence[int] = (1, 1),
    groups: int = 1,
    data_format: str = "NCHW",
) -> Array:
    images = x if data_format == "NCHW" else np.moveaxis(x, 3, 1)
    filters, per_group, *kernel = weight.shape
    top, bottom, left, right = paddings
    padded = np.pad(images, [(0, 0), (0, 0), (top, bottom), (left, right)])
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    size = [(n - r) // s + 1 for n, r, s in zip(padded.shape[2:], reach, strides, strict=True)]
    out = np.zeros((len(x), filters, *size))
    for n, o, i, j in np.ndindex(*out.shape):
        begin = o // (filters // groups) * per_group
        rows = i * strides[0] + np.arange(kernel[0]) * dilations[0]
        columns = j * strides[1] + np.arange(kernel[1]) * dilations[1]
        covered = padded[n, begin : begin + per_group][:, rows][:, :, columns]
        out[n, o, i, j] = (covered * weight[o]).sum() + (0 if bias is None else bias[o])
    return out if data_format == "NCHW" else np.moveaxis(out, 1, 3)


def case(
    x: tuple[int, ...], weight: tuple[int, ...], label: str, bias: bool = True, **attrs: Any
) -> Case:
    """Return a case; the shape of x is always [n, channels, height, width] here."""
    shape = x if attrs.get("data_format") != "NHWC" else (x[0], x[2], x[3], x[1])
    inputs: dict[str, Source] = {"x": Random(shape), "weight": Random(weight)}
    if bias:
        inputs["bias"] = Random(weight[:1])
    terms = weight[1] * weight[2] * weight[3] + 1
    return Case("conv2d", inputs, conv2d, attrs, label=label, terms=terms, magnitude=4.0)


EVERYTHING: dict[str, Any] = {
    "strides": [2, 1],
    "paddings": [1, 0, 2, 1],
    "dilations": [1, 2],
    "groups": 2,
}
NHWC = {"data_format": "NHWC"}

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
        conv2d,
        dtypes=WIDE,
        label="special",
        no_grad="infinite or undefined there",
    ),
)
