"""Root mean square normalization: each row is divided by its root mean square, then scaled."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, format_shape, grad_op, normalize_axis, shapes_match
from opwright_std.compositions import normalizations as normalizations_gradients
from opwright_std.numerics import squares
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.operators.layer_norm import rows_of


def rms_norm(
    x: Array,
    scale: Array | None,
    out: Array,
    inv_rms: Array,
    *,
    begin_norm_axis: int,
    epsilon: float,
) -> None:
    if x.size == 0:
        inv_rms[...] = 0
        return
    rows = rows_of(x, begin_norm_axis)
    source, result = x.reshape(rows), out.reshape(rows)
    factor = inv_rms.reshape(-1, 1)
    size = squares.deviation(source, 1, epsilon, squares.mean_square(source, 1))
    np.reciprocal(size, out=factor)
    np.multiply(source, factor, out=result)
    if scale is not None:
        result *= scale.reshape(-1)


def rms_norm_grad(
    x: Array,
    scale: Array | None,
    inv_rms: Array,
    out_grad: Array,
    x_grad: Array | None,
    scale_grad: Array | None,
    *,
    begin_norm_axis: int,
    **_: object,
) -> None:
    rows = rows_of(x, begin_norm_axis)
    grad, factor = out_grad.reshape(rows), inv_rms.reshape(-1, 1)
    normal = x.reshape(rows) * factor
    if scale_grad is not None:
        np.sum(grad * normal, axis=0, out=scale_grad.reshape(-1))
    if x_grad is not None and x.size:
        # x_grad = inv_rms * (g - normal * mean(g * normal)) with g = out_grad * scale.
        inner = grad if scale is None else grad * scale.reshape(-1)
        normal *= np.mean(inner * normal, axis=1, keepdims=True)
        result = x_grad.reshape(rows)
        np.subtract(inner, normal, out=result)
        result *= factor


def _rms_norm_shape(ctx: InferContext) -> None:
    """The output has the shape of x; inv_rms has the axes of x before begin_norm_axis."""
    x = ctx.input("x")
    begin = normalize_axis(ctx, ctx.attr("begin_norm_axis"), len(x.shape), "begin_norm_axis")
    if ctx.has_input("scale") and not shapes_match(ctx.input("scale").shape, x.shape[begin:]):
        got, wanted = format_shape(ctx.input("scale").shape), format_shape(x.shape[begin:])
        ctx.fail(f"scale must have the shape of the normalized axes, {wanted}, got {got}")
    ctx.set_output("out", x.shape)
    ctx.set_output("inv_rms", x.shape[:begin])


RMS_NORM = (
    OpMaker("rms_norm")
    .add_comment(
        "Root mean square normalization, out = x / sqrt(mean_square + epsilon) * scale, "
        "where mean_square is the mean of x ** 2 over axis begin_norm_axis and later axes. Zhang "
        "and Sennrich, 2019."
    )
    .add_input("x", "float, at least 1-d")
    .dtypes(*FLOATS)
    .add_input("scale", "shape of the normalized axes; absent counts as 1")
    .same_dtype_as("x")
    .as_optional()
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .add_output("inv_rms", "1 / sqrt(mean_square + epsilon), shape of the axes before")
    .same_dtype_as("x")
    .as_intermediate()
    .add_attr("begin_norm_axis", int, "first normalized axis")
    .default(1)
    .add_attr("epsilon", float, "added to the mean square")
    .default(1e-5)
    .at_least(0.0)
    .build(
        infer_shape=_rms_norm_shape,
        gradient=grad_op(
            "rms_norm_grad", needs=["x", "scale", "inv_rms"], body=normalizations_gradients.rms_norm
        ),
    )
)
