"""split: one tensor into several along an axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opwright.op import GradientContext, InferContext, OpMaker, normalize_axis
from opwright_std.numerics.dtypes import Array


def split(
    x: Array, out: tuple[Array, ...], *, axis: int, sections: tuple[int, ...], num: int | None
) -> None:
    copy_parts(x, out, axis)


def copy_parts(x: Array, parts: Sequence[Array], axis: int) -> None:
    """Copy consecutive chunks of x along an axis."""
    view = np.moveaxis(x, axis, 0)
    begin = 0
    for part in parts:
        end = begin + part.shape[axis]
        np.copyto(np.moveaxis(part, axis, 0), view[begin:end])
        begin = end


def _split_shape(ctx: InferContext) -> None:
    """The outputs partition the axis of x; the other axes are as in x."""
    shape = ctx.input("x").shape
    axis = normalize_axis(ctx, ctx.attr("axis"), len(shape))
    parts = [(*shape[:axis], length, *shape[axis + 1 :]) for length in _lengths(ctx, shape[axis])]
    ctx.set_outputs("out", parts)


def _count(ctx: InferContext) -> int:
    count: int = ctx.attr("num") or len(ctx.attr("sections"))
    ctx.require(count, "num or sections must be given, got neither")
    return count


def _lengths(ctx: InferContext, dim: int) -> list[int]:
    """Return the length of each chunk along the axis."""
    sections, count = ctx.attr("sections"), ctx.output_count("out")
    num = ctx.attr("num") or len(sections) or count
    ctx.require(num == count, f"out must have {num} variables, got {count}")
    if sections:
        ctx.require(len(sections) == num, f"sections must have num={num} parts, got {sections}")
        if None not in sections and dim != -1 and sum(sections) != dim:
            ctx.fail(f"sections must add up to the {dim} of the axis, got {list(sections)}")
        return list(sections)
    if dim == -1:
        return [-1] * num
    ctx.require(dim % num == 0, f"num must divide the {dim} of the axis, got num={num}")
    return [dim // num] * num


def _split_gradient(g: GradientContext) -> None:
    grads = g.filled_output_grads("out")
    g.set_input_grad("x", g.emit("concat", {"x": grads}, attrs={"axis": g.attr("axis")}))


SPLIT = (
    OpMaker("split")
    .add_comment(
        "Splits a tensor along an axis into parts of the lengths in sections, or into equal parts."
    )
    .add_input("x", "at least 1-d, any dtype")
    .add_output("out", "the parts in order, dtype of x")
    .as_duplicable()
    .same_dtype_as("x")
    .add_attr("axis", int, "the axis to split")
    .default(0)
    .add_attr("sections", list[int], "length of each part; they add up to the length of the axis")
    .as_shape_operand()
    .default([])
    .at_least(0)
    .add_attr("num", int, "number of parts; absent: the number of sections or outputs")
    .at_least(1)
    .build(infer_shape=_split_shape, gradient=_split_gradient, count_outputs=_count)
)
