"""grid_sample: interpolated samples of images and volumes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

import numpy as np

from opwright.op import (
    BodyContext,
    InferContext,
    OpMaker,
    by_differentiating,
    dims_match,
    format_shape,
    grad_op,
)
from opwright_std.compositions.grids import sample_by_taking
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.numerics.grid_taps import GridAxis, Tap, find_taps

MODES = ("bilinear", "nearest", "bicubic")
PADDING_MODES = ("zeros", "border", "reflection")


def grid_sample(
    x: Array,
    grid: Array,
    out: Array,
    *,
    mode: str,
    padding_mode: str,
    align_corners: bool,
    normalized: bool,
) -> None:
    attrs = (mode, padding_mode, align_corners, normalized)
    wide = np.result_type(x.dtype, np.float32)
    total = np.zeros(out.shape, wide)
    images = x.reshape(*x.shape[:2], prod(x.shape[2:])).astype(wide)
    rows = total.reshape(*total.shape[:2], prod(total.shape[2:]))
    for place, share, _ in _pixels(x.shape, grid.astype(wide), attrs):
        for n in range(len(x)):
            at = np.flatnonzero(share[n])  # pixels of weight 0 are not read: they may be NaN
            rows[n][:, at] += images[n][:, place[n, at]] * share[n, at]
    out[...] = total


def grid_sample_grad(
    x: Array,
    grid: Array,
    out_grad: Array,
    x_grad: Array | None,
    grid_grad: Array | None,
    *,
    mode: str,
    padding_mode: str,
    align_corners: bool,
    normalized: bool,
) -> None:
    attrs = (mode, padding_mode, align_corners, normalized)
    wide = np.result_type(x.dtype, np.float32)
    images = x.reshape(*x.shape[:2], prod(x.shape[2:])).astype(wide)
    grads = out_grad.reshape(*out_grad.shape[:2], prod(out_grad.shape[2:])).astype(wide)
    of_x = np.zeros(images.shape, wide)
    of_grid = np.zeros((len(x), grads.shape[2], grid.shape[-1]), wide)
    for place, share, derivatives in _pixels(x.shape, grid.astype(wide), attrs):
        for n in range(len(x)):
            at = np.flatnonzero(share[n])
            every = (np.arange(x.shape[1])[:, None], place[n, at])
            np.add.at(of_x[n], every, grads[n][:, at] * share[n, at])
            for axis, derivative in enumerate(derivatives):
                at = np.flatnonzero(derivative[n])
                dots = (images[n][:, place[n, at]] * grads[n][:, at]).sum(0)
                of_grid[n, at, axis] += dots * derivative[n, at]
    if x_grad is not None:
        x_grad[...] = of_x.reshape(x.shape)
    if grid_grad is not None:
        grid_grad[...] = of_grid.reshape(grid.shape)


def _pixels(
    shape: tuple[int, ...], grid: Array, attrs: tuple[Any, ...]
) -> Iterator[tuple[Array, Array, list[Array]]]:
    """Yield each pixel read: flat index, weight and derivatives of the weight."""
    sizes = shape[2:]
    rank = len(sizes)
    places = grid.reshape(len(grid), prod(grid.shape[1:-1]), rank)
    # The first coordinate belongs to the last axis.
    axes = [
        find_taps(GridAxis(sizes[axis], *attrs), places[..., rank - 1 - axis])
        for axis in range(rank)
    ]
    for taps in product(*axes):
        yield _joined(sizes, taps)


def _joined(sizes: tuple[int, ...], taps: tuple[Tap, ...]) -> tuple[Array, Array, list[Array]]:
    inside = np.logical_and.reduce([tap.pixel >= 0 for tap in taps])
    place = np.zeros(inside.shape, np.int64)
    for size, tap in zip(sizes, taps, strict=True):
        place = place * size + np.where(inside, tap.pixel, 0)
    share = np.where(inside, _product([tap.share for tap in taps]), 0)
    derivatives = []
    for axis in reversed(range(len(taps))):
        factors = [tap.derivative if i == axis else tap.share for i, tap in enumerate(taps)]
        derivatives.append(np.where(inside, _product(factors), 0))
    return place, share, derivatives


def _product(factors: list[Array]) -> Array:
    total = factors[0]
    for factor in factors[1:]:
        total = total * factor
    return total


def _grid_sample_shape(ctx: InferContext) -> None:
    """The output replaces the spatial axes of x with the axes of grid."""
    x, grid = ctx.input("x").shape, ctx.input("grid").shape
    rank = len(x) - 2
    if rank not in (2, 3):
        ctx.fail(
            "x must be [n, channels, height, width], or [n, channels, depth, height, width], got "
            f"{format_shape(x)}"
        )
    if len(grid) != len(x) or not (dims_match(grid[0], x[0]) and dims_match(grid[-1], rank)):
        ctx.fail(
            f"grid must be [{x[0]}, {', '.join(['places'] * rank)}, {rank}] for x "
            f"{format_shape(x)}, got {format_shape(grid)}"
        )
    if 0 in x[2:]:
        ctx.fail(f"the sizes of x must be at least 1, got {format_shape(x)}")
    if rank == 3 and ctx.attr("mode") == "bicubic":
        ctx.fail("mode must be 'bilinear' or 'nearest' for volumes, got 'bicubic'")
    n = x[0] if grid[0] == -1 else grid[0]
    ctx.set_output("out", (n, x[1], *grid[1:-1]))


def _grid_sample_maker() -> OpMaker:
    maker = OpMaker("grid_sample").add_comment(
        "Samples of images and volumes, out[n, c, i, j] = x[n, c] at the position (x, y) = "
        "grid[n, i, j], or (x, y, z) for volumes; as torch.nn.functional.grid_sample. "
        "bilinear interpolates the 4 neighboring pixels linearly, or 8 in volumes; nearest takes "
        "the nearest pixel, with ties to even; bicubic takes 4 x 4 pixels by cubic convolution. A "
        "NaN or infinite coordinate samples 0 with padding zeros; otherwise NaN samples pixel 0. "
        "Pixels of weight 0 are not read."
    )
    maker.add_input(
        "x", "float [n, channels, height, width], or [n, channels, depth, height, width]"
    )
    maker.dtypes(*FLOATS)
    maker.add_input("grid", "[n, rows, columns, 2], or [n, slices, rows, columns, 3] for volumes")
    maker.same_dtype_as("x")
    maker.add_output("out", "[n, channels, rows, columns], or [n, channels, slices, rows, columns]")
    maker.same_dtype_as("x")
    maker.add_attr("mode", str, "interpolation; bicubic for images only")
    maker.default("bilinear").one_of(*MODES)
    maker.add_attr(
        "padding_mode", str, "values outside the image: zeros, its border, or its reflection"
    )
    maker.default("zeros").one_of(*PADDING_MODES)
    maker.add_attr(
        "align_corners",
        bool,
        "whether -1 and 1 are the centers of the outermost pixels, or their edges",
    ).default(False)
    maker.add_attr(
        "normalized",
        bool,
        "whether coordinates range from -1 to 1; otherwise they are pixels from 0",
    )
    return maker.default(True)


def _grid_sample_body(b: BodyContext) -> None:
    """Compose the operator for devices without a kernel."""
    b.set_output("out", sample_by_taking(b))


GRID_SAMPLE = _grid_sample_maker().build(
    infer_shape=_grid_sample_shape,
    body=_grid_sample_body,
    gradient=grad_op(
        "grid_sample_grad", needs=["x", "grid"], body=by_differentiating(sample_by_taking)
    ),
)
