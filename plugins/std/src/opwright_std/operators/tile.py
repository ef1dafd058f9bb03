"""tile: a tensor repeated along its axes."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, grad_op, linear_in
from opwright_std.numerics.dtypes import Array

Ints = tuple[int, ...]


def tile(x: Array, out: Array, *, repeats: Ints) -> None:
    shape, counts = _align(x.shape, repeats)
    pairs = tuple(n for pair in zip(counts, shape, strict=True) for n in pair)
    source = x.reshape(tuple(n for dim in shape for n in (1, dim)))
    np.copyto(out.reshape(pairs), source)


def tile_grad(out_grad: Array, x_grad: Array, *, repeats: Ints) -> None:
    shape, counts = _align(x_grad.shape, repeats)
    pairs = tuple(n for pair in zip(counts, shape, strict=True) for n in pair)
    # Half precision accumulates in float32, since 2,048 + 1 is 2,048 in float16.
    accumulator = np.float32 if out_grad.dtype == np.float16 else None
    axes = tuple(range(0, len(pairs), 2))
    grad = x_grad.reshape(shape)
    np.add.reduce(out_grad.reshape(pairs), axis=axes, dtype=accumulator, out=grad)


def _align(shape: Ints, repeats: Ints) -> tuple[Ints, Ints]:
    """Pad shape and repeats with leading ones to the same length."""
    rank = max(len(shape), len(repeats))
    return (1,) * (rank - len(shape)) + shape, (1,) * (rank - len(repeats)) + repeats


def _tile_shape(ctx: InferContext) -> None:
    """An axis of out is as long as the axis of x times its repeats; the last axes are aligned."""
    shape, repeats = _align(ctx.input("x").shape, ctx.attr("repeats"))
    pairs = zip(shape, repeats, strict=True)
    ctx.set_output("out", [_repeated(dim, n) for dim, n in pairs])


def _repeated(dim: int, count: int | None) -> int | None:
    if count == 0:  # 0 makes an axis of any length empty
        return 0
    return None if count is None or dim == -1 else dim * count


TILE = (
    OpMaker("tile")
    .add_comment(
        "Repeats a whole tensor along its axes, as numpy.tile. The last axes are aligned: the "
        "shorter of the shape of x and repeats is padded with leading ones."
    )
    .add_input("x", "any shape, any dtype")
    .add_output("out", "lengths of x times repeats, dtype of x")
    .same_dtype_as("x")
    .add_attr("repeats", list[int], "number of repetitions of each axis")
    .as_shape_operand()
    .required()
    .at_least(0)
    .build(infer_shape=_tile_shape, gradient=grad_op("tile_grad", gradient=linear_in("x")))
)
