"""Piecewise linear activations: definitions, gradients, NumPy kernels."""

from __future__ import annotations

import numpy as np

from opwright.op import BodyContext, grad_op, same_again, same_shape_as
from opwright_std.compositions import activations as activations_gradients
from opwright_std.numerics.dtypes import FLOATS, NUMBERS, Array
from opwright_std.operators.reduction import known_meta
from opwright_std.operators.unary import unary


def _keep(x_grad: Array, out_grad: Array, flat: Array) -> None:
    """Write the gradient: 0 where `flat`, even if out_grad is infinite, and otherwise out_grad."""
    np.copyto(x_grad, out_grad)
    np.copyto(x_grad, 0, where=flat)


def relu6(x: Array, out: Array) -> None:
    np.maximum(x, 0, out=out)
    np.minimum(out, 6, out=out)


def relu6_grad(out: Array, out_grad: Array, x_grad: Array) -> None:
    _keep(x_grad, out_grad, (out <= 0) | (out >= 6))


def _relu6_body(b: BodyContext) -> bool:
    """Emit a clip for integers, which float kernels do not support."""
    if known_meta(b).dtype in FLOATS:
        return False
    b.emit("clip", {"x": b.input("x")}, {"out": b.output("out")}, {"min": 0.0, "max": 6.0})
    return True


RELU6 = unary(
    "relu6",
    "Rectifier up to 6, out = minimum(maximum(x, 0), 6). The gradient is 0 at 0 and 6, "
    "and 1 at NaN.",
    NUMBERS,
).build(
    infer_shape=same_shape_as("x"),
    gradient=grad_op("relu6_grad", needs=["out"], gradient=same_again),
    body=_relu6_body,
)


def hard_sigmoid(x: Array, out: Array, *, alpha: float, beta: float) -> None:
    np.multiply(x, alpha, out=out)
    np.add(out, beta, out=out)
    np.maximum(out, 0, out=out)
    np.minimum(out, 1, out=out)


def hard_sigmoid_grad(
    out: Array, out_grad: Array, x_grad: Array, *, alpha: float, beta: float
) -> None:
    flat = (out <= 0) | (out >= 1)
    np.multiply(out_grad, alpha, out=x_grad)
    np.copyto(x_grad, 0, where=flat)


HARD_SIGMOID = (
    unary(
        "hard_sigmoid",
        "Piecewise linear sigmoid, out = minimum(maximum(alpha * x + beta, 0), 1). The gradient "
        "is 0 where out is 0 or 1.",
    )
    .add_attr("alpha", float, "slope")
    .default(0.2)
    .add_attr("beta", float, "out at 0")
    .default(0.5)
    .build(
        infer_shape=same_shape_as("x"),
        gradient=grad_op("hard_sigmoid_grad", needs=["out"], gradient=same_again),
    )
)


def hard_swish(x: Array, out: Array) -> None:
    right = np.maximum(x, -3)  # below it the gate is 0; 0 * -inf would be NaN
    np.add(right, 3, out=out)
    np.minimum(out, 6, out=out)
    np.multiply(out, right, out=out)
    np.divide(out, 6, out=out)


def hard_swish_grad(x: Array, out_grad: Array, x_grad: Array) -> None:
    flat, whole = x <= -3, x >= 3
    derivative = np.asarray(x / 3 + 0.5)
    np.copyto(derivative, 1, where=whole)
    np.multiply(derivative, out_grad, out=x_grad)
    np.copyto(x_grad, 0, where=flat)


HARD_SWISH = unary(
    "hard_swish",
    "Hard swish, out = x * minimum(maximum(x + 3, 0), 6) / 6, with its limit 0 at -inf. "
    "The gradient is 0 for x <= -3 and 1 for x >= 3. Howard et al., 2019.",
).build(
    infer_shape=same_shape_as("x"),
    gradient=grad_op("hard_swish_grad", needs=["x"], body=activations_gradients.hard_swish),
)


def _near(x: Array, threshold: float) -> Array:
    near: Array = (x >= -threshold) & (x <= threshold)
    return near


def hard_shrink(x: Array, out: Array, *, threshold: float) -> None:
    near = _near(x, threshold)
    np.copyto(out, x)
    np.copyto(out, 0, where=near)


def soft_shrink(x: Array, out: Array, *, threshold: float) -> None:
    near = _near(x, threshold)
    np.subtract(x, np.where(x < 0, -threshold, threshold).astype(x.dtype), out=out)
    np.copyto(out, 0, where=near)


def hard_shrink_grad(x: Array, out_grad: Array, x_grad: Array, *, threshold: float) -> None:
    _keep(x_grad, out_grad, _near(x, threshold))


def soft_shrink_grad(x: Array, out_grad: Array, x_grad: Array, *, threshold: float) -> None:
    _keep(x_grad, out_grad, _near(x, threshold))


HARD_SHRINK = (
    unary(
        "hard_shrink",
        "0 where x is in [-threshold, threshold], else x. The gradient is 0 there, and 1 "
        "elsewhere, also at NaN.",
    )
    .add_attr("threshold", float, "half the width of the interval that becomes 0")
    .default(0.5)
    .at_least(0.0)
    .build(
        infer_shape=same_shape_as("x"),
        gradient=grad_op("hard_shrink_grad", needs=["x"], gradient=same_again),
    )
)
SOFT_SHRINK = (
    unary(
        "soft_shrink",
        "0 where x is in [-threshold, threshold], else x shifted towards 0 by the threshold. The "
        "gradient is 0 there, else 1, also at NaN.",
    )
    .add_attr("threshold", float, "the shift of x")
    .default(0.5)
    .at_least(0.0)
    .build(
        infer_shape=same_shape_as("x"),
        gradient=grad_op("soft_shrink_grad", needs=["x"], gradient=same_again),
    )
)


def thresholded_relu(x: Array, out: Array, *, alpha: float) -> None:
    flat = x <= alpha
    np.copyto(out, x)
    np.copyto(out, 0, where=flat)


def thresholded_relu_grad(x: Array, out_grad: Array, x_grad: Array, *, alpha: float) -> None:
    _keep(x_grad, out_grad, x <= alpha)


THRESHOLDED_RELU = (
    unary(
        "thresholded_relu",
        "0 up to alpha, x above it. The gradient is 0 at alpha, and 1 at NaN. Konda et al., 2014.",
    )
    .add_attr("alpha", float, "greatest x that becomes 0")
    .default(1.0)
    .build(
        infer_shape=same_shape_as("x"),
        gradient=grad_op("thresholded_relu_grad", needs=["x"], gradient=same_again),
    )
)
