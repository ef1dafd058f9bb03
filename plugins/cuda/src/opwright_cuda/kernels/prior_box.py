"""Prior boxes, with sizes computed on the host."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any, Final

import numpy as np

from opwright.kernel import PrepareContext
from opwright_cuda.dtypes import CTYPES
from opwright_cuda.kernels.elementwise import THREADS, blocks_for
from opwright_cuda.launch import Argument, Kernel, LaunchPlan, Struct
from opwright_cuda.source import own_source

MOST_PRIORS: Final = 64
"""``kMostPriors`` of prior_box.cu."""


def _expand_ratios(attrs: Mapping[str, Any]) -> list[float]:
    """Return 1 and the other distinct ratios, each followed by its reciprocal if `flip` is set."""
    expanded = [1.0]
    for ratio in attrs["aspect_ratios"]:
        if all(abs(ratio - other) >= 1e-6 for other in expanded):
            expanded += [ratio, 1.0 / ratio] if attrs["flip"] else [ratio]
    return expanded


def _sizes(attrs: Mapping[str, Any]) -> list[tuple[float, float]]:
    """Return the width and height of each box at a position, in image pixels."""
    roots = [sqrt(ratio) for ratio in _expand_ratios(attrs)]
    sizes = []
    for i, size in enumerate(attrs["min_sizes"]):
        shaped = [(size * root, size / root) for root in roots]
        squares = [(sqrt(size * attrs["max_sizes"][i]),) * 2] if attrs["max_sizes"] else []
        behind = 1 if attrs["max_size_second"] else len(shaped)
        sizes += [*shaped[:behind], *squares, *shaped[behind:]]
    return sizes


def _fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
    """Write the boxes of every position, as many boxes per launch as possible."""
    (out,), (image,), attrs = ctx.outputs["out"], ctx.inputs["image"], ctx.attrs
    rows, columns, priors, _ = out.shape
    extent = np.array(image.shape[:1:-1], np.float64)
    pitch = np.array(attrs["steps"], np.float64)
    if not (pitch > 0).all():
        pitch = extent / np.array([max(columns, 1), max(rows, 1)], np.float64)
    sizes, made = _sizes(attrs), [plan.output("out"), plan.output("variances")]
    for first in range(0, priors, MOST_PRIORS):
        table = np.zeros((MOST_PRIORS, 2))
        count = min(MOST_PRIORS, priors - first)
        table[:count] = sizes[first : first + count]
        places = Struct(
            np.array([rows, columns, priors, first, count], np.int64),
            *(extent, pitch, np.float64(attrs["offset"])),
            np.array(attrs["variance"], np.float64),
        )
        arguments: list[Argument] = [*made, table, places, np.bool_(attrs["clip"])]
        source, blocks = own_source("prior_box.cu", ("-fmad=false",)), rows * columns * count
        expression = f"prior_box<{CTYPES[out.dtype]}>"
        plan.launch(source, expression, blocks_for(blocks, plan), THREADS, arguments)


PRIOR_BOX: Final = Kernel(_fill_in)
