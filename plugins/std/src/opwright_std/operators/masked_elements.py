"""masked_select and masked_scatter: read and write masked elements in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opwright.op import (
    BodyContext,
    GradientContext,
    InferContext,
    OpMaker,
    broadcast_shapes,
)
from opwright_std.compositions.expression import Expression, read
from opwright_std.numerics.broadcasting import require_broadcast
from opwright_std.numerics.dtypes import NUMBERS, Array

if TYPE_CHECKING:
    from opwright_std.operators.nonzero import Resizable


def masked_select(x: Array, mask: Array, out: Resizable) -> None:
    elements, chosen = np.broadcast_arrays(x, mask)
    selected = elements[chosen]
    out.resize(selected.shape)[...] = selected


def _masked_select_shape(ctx: InferContext) -> None:
    """The output has one element per true element of the mask, which broadcasts with x."""
    broadcast_shapes(ctx.input("x").shape, ctx.input("mask").shape, ctx)
    ctx.set_output("out", (-1,))


def _masked_select_gradient(g: GradientContext) -> None:
    """Emit the gradients of the selected elements at their positions, and zeros elsewhere."""
    x, mask = (Expression(g, g.input(slot)) for slot in ("x", "mask"))
    zeros = x.filled(0.0)
    whole = zeros + mask.like(zeros, "cast_like") * 0.0  # of the broadcast shape
    inputs = {"x": whole.name, "mask": mask.name, "source": g.output_grad("out")}
    grad = Expression(g, g.emit("masked_scatter", inputs))
    g.set_input_grad("x", grad.like(x, "sum_like").name)


MASKED_SELECT = (
    OpMaker("masked_select")
    .add_comment(
        "The elements of x where a mask is true, in row-major order, as x[mask] of NumPy; x and "
        "mask broadcast. Their number is known after the kernel has run."
    )
    .add_input("x", "any shape")
    .dtypes(*NUMBERS, "bool")
    .add_input("mask", "bool, broadcasts with x")
    .dtypes("bool")
    .add_output("out", "[n], dtype of x; n is the number of true elements")
    .same_dtype_as("x")
    .dispatch_on("x")
    .dynamic_output()
    .build(infer_shape=_masked_select_shape, gradient=_masked_select_gradient)
)


def _masked_scatter_shape(ctx: InferContext) -> None:
    """The output has the shape of x, to which the mask broadcasts."""
    shape = ctx.input("x").shape
    require_broadcast(ctx, "mask", shape)
    ctx.set_output("out", shape)


def _masked_scatter_body(b: BodyContext) -> None:
    x, mask = read(b, "x"), read(b, "mask")
    # Element k of the source has index k + 1; index 0 marks unchanged elements.
    whole = x.filled(0.0).then("cast", dtype="int64") + mask.then("cast", dtype="int64")
    numbers = whole.then("reshape", shape=[-1])
    numbers = numbers * numbers.then("cumsum", axis=0)
    source = read(b, "source").then("reshape", shape=[-1]).then("pad", paddings=[1, 0])
    inputs = {"x": source.name, "index": numbers.name}
    picked = Expression(b, b.emit("gather", inputs, attrs={"axis": 0})).like(x)
    b.set_output("out", mask.choose(picked, x).name)


MASKED_SCATTER = (
    OpMaker("masked_scatter")
    .add_comment(
        "A copy of x with the elements where a mask is true replaced by those of source, in "
        "row-major order, as torch.masked_scatter. A source with too few elements is an "
        "error; surplus elements are not read."
    )
    .add_input("x", "any shape")
    .dtypes(*NUMBERS, "bool")
    .add_input("mask", "bool, broadcasts to the shape of x")
    .dtypes("bool")
    .add_input(
        "source", "any shape, dtype of x; at least as many elements as the mask has true ones"
    )
    .same_dtype_as("x")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .dispatch_on("x")
    .build(infer_shape=_masked_scatter_shape, body=_masked_scatter_body)
)
