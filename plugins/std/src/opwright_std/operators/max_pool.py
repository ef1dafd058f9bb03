"""Max pooling: the largest element of each window that slides over images."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from opwright.op import BodyContext, InferContext, OpMaker, grad_op
from opwright_std.compositions.selections import pick_in_planes
from opwright_std.numerics.class_ids import check_ids
from opwright_std.numerics.dtypes import NUMBERS, Array
from opwright_std.numerics.windows import (
    Ints,
    add_pool_attrs,
    axes_of,
    axis_names,
    channels_first,
    image_dims,
    infer_pooled,
    lift,
    lift_attrs,
    over_taps,
    set_images,
    set_lines,
)

_MAX_PLANE = 2**31 - 1


def max_pool2d(
    x: Array,
    out: Array,
    index: Array,
    *,
    kernel: Ints,
    strides: Ints,
    paddings: Ints,
    ceil_mode: bool,
    data_format: str,
    dilations: Ints,
) -> None:
    images, best = channels_first(x, data_format), channels_first(out, data_format)
    places = channels_first(index, data_format)
    positions = np.arange(prod(images.shape[2:]), dtype=index.dtype)
    positions = positions.reshape(1, 1, *images.shape[2:])
    axes = axes_of(images, best, kernel, strides or kernel, paddings, dilations)
    taps = list(over_taps([axis.covering_taps() for axis in axes]))
    best[...] = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    for windows, elements in taps:
        np.maximum(best[windows], images[elements], out=best[windows])  # propagates NaN
    # Iterates backward so that the first of equal elements is written last.
    for windows, elements in reversed(taps):
        new = images[elements]
        found = (new == best[windows]) | (new != new)
        np.copyto(places[windows], positions[elements], where=found)


def max_pool_grad(op_type: str) -> Callable[..., None]:
    """Return the gradient kernel of `op_type`; errors for invalid indices begin with this name."""

    def add_to_places(
        index: Array, out_grad: Array, x_grad: Array, *, data_format: str, **_: object
    ) -> None:
        places = channels_first(index, data_format)
        gradients, result = (
            channels_first(out_grad, data_format),
            channels_first(x_grad, data_format),
        )
        plane, n_planes = prod(result.shape[2:]), prod(result.shape[:2])
        check_ids(f"{op_type}: index", index, plane)
        flat = places.astype(np.int64).reshape(n_planes, prod(places.shape[2:]))
        flat += np.arange(n_planes)[:, None] * plane
        sums = np.bincount(flat.reshape(-1), gradients.reshape(-1), minlength=n_planes * plane)
        result[...] = sums.reshape(result.shape)

    return add_to_places


max_pool3d = max_pool2d


def _sliding_max_pool_grad(op_type: str) -> Callable[..., None]:
    add_to_places = max_pool_grad(op_type)

    def sliding_max_pool_grad(
        index: Array,
        out_grad: Array,
        x_grad: Array,
        *,
        data_format: str,
        dilations: Ints,
        **_: object,
    ) -> None:
        del dilations  # index contains positions in the input
        add_to_places(index, out_grad, x_grad, data_format=data_format)

    return sliding_max_pool_grad


max_pool2d_grad = _sliding_max_pool_grad("max_pool2d_grad")
max_pool3d_grad = _sliding_max_pool_grad("max_pool3d_grad")


def require_plane(ctx: InferContext) -> None:
    """Fail if planes are too large for the index dtype."""
    _, _, *sizes = image_dims(ctx)
    if min(sizes) > 0 and prod(sizes) > _MAX_PLANE:
        got = " x ".join(map(str, sizes))
        ctx.fail(f"x must have at most {_MAX_PLANE} elements in a plane, got {got}")


def add_place_output(maker: OpMaker, names: str) -> OpMaker:
    """Add the output of maximum indices."""
    maker.add_output(
        "index",
        f"shape of out: index of the maximum, in row-major order of {names} for any data_format",
    )
    return maker.dtypes("int32").as_intermediate()


def _max_pool_shape(ctx: InferContext) -> None:
    """Each spatial axis of the output has one element per window along it."""
    require_plane(ctx)
    n, channels, pooled = infer_pooled(ctx)
    for slot in ("out", "index"):
        set_images(ctx, slot, n, channels, pooled)


def _max_pool_maker(rank: int) -> OpMaker:
    names = axis_names(rank)
    windows = ", ".join("ijk"[:rank])
    maker = OpMaker(f"max_pool{rank}d").add_comment(
        f"Maximum pooling, out[n, c, {windows}] = the greatest element of x[n, c] in window "
        f"{windows}; padding is never selected. The first of equal elements in row-major order is "
        f"selected, and receives the gradient. NaN is greater than every number, as in "
        f"numpy.argmax."
    )
    maker.add_input("x", f"images, [n, channels, {names}] or per data_format")
    maker.dtypes(*NUMBERS)
    maker.add_output("out", "one element per window, dtype of x").same_dtype_as("x")
    return add_pool_attrs(add_place_output(maker, names), rank)


def _max_pool1d_body(b: BodyContext) -> None:
    """Pool 1-d inputs as images of height 1; the indices are the same."""
    pooled = {"out": 1, "index": 1}
    results = b.emit_multi("max_pool2d", lift(b, "x"), pooled, lift_attrs(b))
    for slot, (images,) in results.items():
        if b.has_output(slot):
            set_lines(b, images, slot)


MAX_POOL1D = _max_pool_maker(1).build(infer_shape=_max_pool_shape, body=_max_pool1d_body)

# int32 indices take half the memory of int64 indices and, for 2 x 2 windows, a quarter of saving x.
MAX_POOL2D = _max_pool_maker(2).build(
    infer_shape=_max_pool_shape,
    gradient=grad_op("max_pool2d_grad", needs=["index"], gradient=pick_in_planes),
)

MAX_POOL3D = _max_pool_maker(3).build(
    infer_shape=_max_pool_shape,
    gradient=grad_op("max_pool3d_grad", needs=["index"], gradient=pick_in_planes),
)
