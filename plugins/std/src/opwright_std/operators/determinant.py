"""det and slogdet: determinants of matrices, by LAPACK through NumPy."""

from __future__ import annotations

import numpy as np

from opwright.op import (
    BodyContext,
    GradientContext,
    InferContext,
    OpMaker,
    by_differentiating,
    grad_op,
)
from opwright_std.compositions.expression import Expression, read
from opwright_std.numerics.dtypes import WIDE, Array
from opwright_std.operators.linear_algebra import require_square
from opwright_std.operators.reduction import known_meta


def det(x: Array, out: Array) -> None:
    np.copyto(out, np.linalg.det(x))


def det_grad(x: Array, out: Array, out_grad: Array, x_grad: Array) -> None:
    x_grad[...] = out_grad[..., None, None] * _cofactors(x, out)


def slogdet(x: Array, sign: Array, logabsdet: Array) -> None:
    signs, logs = np.linalg.slogdet(x)
    np.copyto(sign, signs)
    np.copyto(logabsdet, logs)


def _cofactors(x: Array, determinant: Array) -> Array:
    """Return the cofactors of matrices, including singular ones."""
    if np.all(determinant != 0) and np.all(np.isfinite(determinant)):
        turned: Array = np.linalg.inv(x).swapaxes(-1, -2)
        return np.asarray(determinant[..., None, None] * turned)
    if not np.isfinite(x).all():
        return np.full(x.shape, np.nan, x.dtype)
    # The product of all other singular values, without a division.
    left, values, right = np.linalg.svd(x)
    n = x.shape[-1]
    others = np.where(np.eye(n, dtype=bool), 1, values[..., None, :]).prod(-1)
    sign = np.linalg.det(left) * np.linalg.det(right)
    return np.asarray(sign[..., None, None] * ((left * others[..., None, :]) @ right))


def _determinant_shape(ctx: InferContext) -> None:
    """The outputs have the shape of x without the last two axes."""
    stacks = require_square(ctx, "x")[:-2]
    for slot in ctx.output_slots:
        ctx.set_output(slot, stacks)


def _slogdet_gradient(g: GradientContext) -> None:
    """The sign is constant; the logarithm has the gradient transpose(inverse(x))."""
    x, rank = g.input("x"), len(known_meta(g).shape)
    g.output_grad("sign")
    grad = g.output_grad("logabsdet")
    if grad is None:
        g.set_input_grad("x", None)
        return
    turned = {"x": g.emit("inverse", {"x": x})}
    axes = [*range(rank - 2), rank - 1, rank - 2]
    derivative = Expression(g, g.emit("transpose", turned, attrs={"axes": axes}))
    spread = Expression(g, grad).then("unsqueeze", axis=[rank - 2, rank - 1])
    g.set_input_grad("x", (derivative * spread).name)


def _det_of_logarithm(b: BodyContext) -> str:
    parts = b.emit_multi("slogdet", {"x": read(b, "x").name})
    sign, logarithm = (Expression(b, parts[slot][0]) for slot in ("sign", "logabsdet"))
    return (sign * logarithm.then("exp")).name


def _of_square(op_type: str, comment: str) -> OpMaker:
    maker = OpMaker(op_type).add_comment(comment)
    return maker.add_input("x", "square matrices in the last two axes").dtypes(*WIDE)


DET = (
    _of_square(
        "det",
        "Determinants of square matrices, as numpy.linalg.det; the empty matrix has determinant "
        "1. The gradient of singular matrices is their cofactors; they have no second gradient.",
    )
    .add_output("out", "shape of x without the last two axes, dtype of x")
    .same_dtype_as("x")
    .build(
        infer_shape=_determinant_shape,
        gradient=grad_op(
            "det_grad", needs=["x", "out"], body=by_differentiating(_det_of_logarithm)
        ),
    )
)

SLOGDET = (
    _of_square(
        "slogdet",
        "Sign and logarithm of determinants, det(x) = sign * exp(logabsdet), as numpy.linalg."
        "slogdet, even if det would overflow or underflow. For a singular matrix sign is 0 and "
        "logabsdet -inf, without a gradient.",
    )
    .add_output("sign", "shape of x without the last two axes, dtype of x: -1, 0 or 1")
    .same_dtype_as("x")
    .add_output("logabsdet", "shape and dtype of sign")
    .same_dtype_as("x")
    .build(infer_shape=_determinant_shape, gradient=_slogdet_gradient)
)
