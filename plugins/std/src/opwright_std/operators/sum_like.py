"""sum_like and expand_like: undo and redo broadcasting, for gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from opwright.op import InferContext, OpMaker, Shape
from opwright_std.compositions.chain_rules import chain_rule
from opwright_std.compositions.expression import read
from opwright_std.numerics.dtypes import NUMBERS, Array

if TYPE_CHECKING:
    from opwright.kernel import PrepareContext


class sum_like:  # noqa: N801 - a kernel is named after its operator
    """Kernel that determines the axes once, in `prepare`."""

    @classmethod
    def prepare(cls, ctx: PrepareContext) -> Callable[..., None]:
        """Return a copy if nothing was broadcast, otherwise a sum over the broadcast axes."""
        shape, target = ctx.inputs["x"][0].shape, ctx.inputs["like"][0].shape
        axes, kept = _split_axes(shape, target)

        def copy(x: Array, out: Array) -> None:
            np.copyto(out, x)

        def reduce(x: Array, out: Array) -> None:
            _sum_over(x, axes, out.reshape(kept))

        return reduce if axes else copy


def sum_to(x: Array, out: Array) -> None:
    """Write `x` into `out`, summed over the axes along which `out` would broadcast."""
    axes, kept = _split_axes(x.shape, out.shape)
    _sum_over(x, axes, out.reshape(kept))


def _split_axes(shape: Shape, target: Shape) -> tuple[Shape, Shape]:
    """Return the axes along which `target` broadcasts to `shape`, and the other dimensions."""
    added = len(shape) - len(target)
    stretched = [i for i, dim in enumerate(target, added) if dim == 1 != shape[i]]
    axes = (*range(added), *stretched)
    return axes, tuple(dim for i, dim in enumerate(shape) if i not in axes)


def _sum_over(x: Array, axes: Shape, out: Array) -> None:
    # Half precision accumulates in float32, since 2,048 + 1 is 2,048 in float16.
    accumulator = np.float32 if x.dtype == np.float16 else None
    np.add.reduce(x, axis=axes, dtype=accumulator, out=out)


def _sum_like_shape(ctx: InferContext) -> None:
    shape, like = ctx.input("x").shape, ctx.input("like").shape
    _check_broadcast(ctx, like, shape)
    ctx.set_output("out", like)


def _expand_like_shape(ctx: InferContext) -> None:
    shape, like = ctx.input("x").shape, ctx.input("like").shape
    _check_broadcast(ctx, shape, like)
    ctx.set_output("out", like)


def _check_broadcast(ctx: InferContext, small: Shape, large: Shape) -> None:
    fits = len(small) <= len(large) and all(
        a in (1, -1) or b == -1 or a == b
        for a, b in zip(reversed(small), reversed(large), strict=False)
    )
    ctx.require(fits, f"shape must broadcast to {list(large)}, got {list(small)}")


def expand_like(x: Array, out: Array) -> None:
    np.copyto(out, x)


def _like(op_type: str, comment: str, out: str) -> OpMaker:
    return (
        OpMaker(op_type)
        .add_comment(comment)
        .add_input("x", "any shape")
        .dtypes(*NUMBERS)
        .add_input("like", "only its shape is read")
        .as_shape_only()
        .add_output("out", out)
        .same_dtype_as("x")
    )


SUM_LIKE = _like(
    "sum_like",
    "Undoes broadcasting: out = x summed over every axis along which the shape of like broadcasts "
    "to the shape of x.",
    "shape of like, dtype of x",
).build(
    infer_shape=_sum_like_shape,
    gradient=chain_rule(lambda grad, g: grad.like(read(g, "x"), "expand_like")),
)

EXPAND_LIKE = _like(
    "expand_like",
    "Broadcast x to the shape of like.",
    "shape of like, dtype of x",
).build(
    infer_shape=_expand_like_shape,
    gradient=chain_rule(lambda grad, g: grad.like(read(g, "x"), "sum_like")),
)
