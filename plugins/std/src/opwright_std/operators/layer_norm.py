"""Layer normalization: rows are normalized to mean 0 and variance 1, then scaled and shifted."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, format_shape, grad_op, normalize_axis, shapes_match
from opwright_std.compositions import normalizations as normalizations_gradients
from opwright_std.numerics import squares
from opwright_std.numerics.dtypes import FLOATS, Array


def rows_of(x: Array, begin_norm_axis: int) -> tuple[int, int]:
    """Return the number of rows of x to normalize, and the number of elements in a row."""
    begin = begin_norm_axis % x.ndim
    n_rows = int(np.prod(x.shape[:begin], dtype=np.int64))
    return n_rows, int(np.prod(x.shape[begin:], dtype=np.int64))


def layer_norm(
    x: Array,
    scale: Array | None,
    bias: Array | None,
    out: Array,
    mean: Array,
    inv_std: Array,
    *,
    begin_norm_axis: int,
    epsilon: float,
) -> None:
    if x.size == 0:
        mean[...], inv_std[...] = 0, 0
        return
    rows = rows_of(x, begin_norm_axis)
    source, result = x.reshape(rows), out.reshape(rows)
    center, spread = mean.reshape(-1, 1), inv_std.reshape(-1, 1)
    # The mean of differences from the first element is exact if all elements are equal.
    np.subtract(source, source[:, :1], out=result)
    np.mean(result, axis=1, keepdims=True, out=center)
    center += source[:, :1]
    # A second pass over the deviations, since E[x^2] - E[x]^2 would cancel.
    np.subtract(source, center, out=result)
    size = squares.deviation(result, 1, epsilon, squares.mean_square(result, 1))
    np.reciprocal(size, out=spread)
    result *= spread
    if scale is not None:
        result *= scale.reshape(-1)
    if bias is not None:
        result += bias.reshape(-1)


def layer_norm_grad(
    x: Array,
    scale: Array | None,
    mean: Array,
    inv_std: Array,
    out_grad: Array,
    x_grad: Array | None,
    scale_grad: Array | None,
    bias_grad: Array | None,
    *,
    begin_norm_axis: int,
    **_: object,
) -> None:
    rows = rows_of(x, begin_norm_axis)
    grad, spread = out_grad.reshape(rows), inv_std.reshape(-1, 1)
    if bias_grad is not None:
        np.sum(grad, axis=0, out=bias_grad.reshape(-1))
    if x_grad is None and scale_grad is None:
        return
    normal = x.reshape(rows) - mean.reshape(-1, 1)
    normal *= spread
    if scale_grad is not None:
        np.sum(grad * normal, axis=0, out=scale_grad.reshape(-1))
    if x_grad is not None and x.size:
        inner = grad if scale is None else grad * scale.reshape(-1)
        write_x_grad(inner, normal, spread, x_grad.reshape(rows))


def write_x_grad(inner: Array, normal: Array, spread: Array, out: Array) -> None:
    """Write inv_std * (g - mean(g) - normal * mean(g * normal)) with g = out_grad * scale.

    Arrays are [rows, elements]; `normal` is overwritten.
    """
    normal *= np.mean(inner * normal, axis=1, keepdims=True)
    normal += np.mean(inner, axis=1, keepdims=True)
    np.subtract(inner, normal, out=out)
    out *= spread


def _layer_norm_shape(ctx: InferContext) -> None:
    """The output has the shape of x; mean and inv_std have the axes before begin_norm_axis."""
    x = ctx.input("x")
    begin = normalize_axis(ctx, ctx.attr("begin_norm_axis"), len(x.shape), "begin_norm_axis")
    for slot in ("scale", "bias"):
        if ctx.has_input(slot) and not shapes_match(ctx.input(slot).shape, x.shape[begin:]):
            got, wanted = format_shape(ctx.input(slot).shape), format_shape(x.shape[begin:])
            ctx.fail(f"{slot} must have the shape of the normalized axes, {wanted}, got {got}")
    ctx.set_output("out", x.shape)
    ctx.set_output("mean", x.shape[:begin])
    ctx.set_output("inv_std", x.shape[:begin])


LAYER_NORM = (
    OpMaker("layer_norm")
    .add_comment(
        "Layer normalization, out = (x - mean) / sqrt(variance + epsilon) * scale + bias, where "
        "mean and variance (biased: divided by the number of elements) are taken over the axes "
        "from "
        "begin_norm_axis on. Ba, Kiros and Hinton, 2016."
    )
    .add_input("x", "float, at least 1-d")
    .dtypes(*FLOATS)
    .add_input("scale", "shape of the normalized axes; absent counts as 1")
    .same_dtype_as("x")
    .as_optional()
    .add_input("bias", "shape of the normalized axes; absent counts as 0")
    .same_dtype_as("x")
    .as_optional()
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .add_output("mean", "shape of the axes before begin_norm_axis")
    .same_dtype_as("x")
    .as_intermediate()
    .add_output("inv_std", "1 / sqrt(variance + epsilon), shape of mean")
    .same_dtype_as("x")
    .as_intermediate()
    .add_attr("begin_norm_axis", int, "first normalized axis")
    .default(1)
    .add_attr("epsilon", float, "added to the variance")
    .default(1e-5)
    .at_least(0.0)
    .build(
        infer_shape=_layer_norm_shape,
        gradient=grad_op(
            "layer_norm_grad",
            needs=["x", "scale", "mean", "inv_std"],
            body=normalizations_gradients.layer_norm,
        ),
    )
)
