"""Definitions and NumPy kernels of the smooth activations that are not in ``activations.py``."""

from __future__ import annotations

import numpy as np

from opwright.op import grad_op, same_shape_as
from opwright_std.compositions import activations as activations_gradients
from opwright_std.compositions.fractions import function
from opwright_std.numerics.dtypes import Array
from opwright_std.operators.activations import sigmoid, silu_grad, softplus
from opwright_std.operators.unary import unary

SELU_SCALE = 1.0507009873554804934
SELU_ALPHA = 1.6732632423543772848


def _sigmoid_of(x: Array) -> Array:
    gate = np.empty_like(x)
    sigmoid(x, gate)
    return gate


def log_sigmoid(x: Array, out: Array) -> None:
    softplus(np.negative(x), out)
    np.negative(out, out=out)


def log_sigmoid_grad(out: Array, out_grad: Array, x_grad: Array) -> None:
    # sigmoid(-x) = 1 - exp(out): exact in both tails through expm1.
    np.expm1(out, out=x_grad)
    np.multiply(x_grad, out_grad, out=x_grad)
    np.negative(x_grad, out=x_grad)


LOG_SIGMOID = unary("log_sigmoid", "Logarithm of the sigmoid, out = -ln(1 + exp(-x)).").build(
    infer_shape=same_shape_as("x"),
    gradient=grad_op("log_sigmoid_grad", needs=["out"], body=activations_gradients.log_sigmoid),
)


def softsign(x: Array, out: Array) -> None:
    ends = np.isinf(x)
    inner = np.where(ends, 0, x)
    signs = np.sign(x)
    np.divide(inner, np.absolute(inner) + 1, out=out)
    np.copyto(out, signs, where=ends)


def softsign_grad(x: Array, out_grad: Array, x_grad: Array) -> None:
    inverse = 1 / (np.absolute(x) + 1)
    np.multiply(out_grad, inverse, out=x_grad)
    np.multiply(x_grad, inverse, out=x_grad)


SOFTSIGN = function(
    "softsign",
    "Softsign, out = x / (1 + |x|), with its limits at infinities.",
    grad_op("softsign_grad", needs=["x"], body=activations_gradients.softsign),
)


def _mish_terms(x: Array) -> tuple[Array, Array, Array]:
    """Return bounded x, n = exp(x) and w = n * (n + 2) for tanh(ln(1 + n)) = w / (w + 2).

    16-bit floats are computed in float32, since float16 represents w only up to x = 5.
    """
    wide = np.float32 if x.itemsize == 2 else x.dtype
    bounded = np.minimum(np.maximum(x, -1000), 20).astype(wide)
    n = np.exp(bounded)
    return bounded, n, n * (n + 2)


def mish(x: Array, out: Array) -> None:
    right = x > 20
    bounded, _, w = _mish_terms(x)
    whole = x.copy()
    np.multiply(bounded, w / (w + 2), out=out, casting="same_kind")
    np.copyto(out, whole, where=right)


def mish_grad(x: Array, out_grad: Array, x_grad: Array) -> None:
    bounded, n, w = _mish_terms(x)
    inverse = 1 / (w + 2)
    derivative = np.asarray(w * inverse + 4 * bounded * n * (n + 1) * inverse * inverse)
    np.copyto(derivative, 1, where=x > 20)
    np.multiply(derivative, out_grad, out=x_grad, casting="same_kind")


MISH = unary(
    "mish",
    "Self-gated unit, out = x * tanh(ln(1 + exp(x))), with its limit 0 at -inf. Misra, 2019.",
).build(
    infer_shape=same_shape_as("x"),
    gradient=grad_op("mish_grad", needs=["x"], body=activations_gradients.mish),
)


def tanh_shrink(x: Array, out: Array) -> None:
    np.subtract(x, np.tanh(x), out=out)


def tanh_shrink_grad(x: Array, out_grad: Array, x_grad: Array) -> None:
    root = np.tanh(x)
    np.multiply(root, out_grad, out=x_grad)  # the square alone might underflow
    np.multiply(x_grad, root, out=x_grad)


TANH_SHRINK = function(
    "tanh_shrink",
    "Residual of tanh, out = x - tanh(x).",
    grad_op("tanh_shrink_grad", needs=["x"], body=activations_gradients.tanh_shrink),
)


def selu(x: Array, out: Array) -> None:
    below = x <= 0
    np.copyto(out, x)
    np.expm1(out, out=out, where=below)
    np.multiply(out, SELU_ALPHA * SELU_SCALE, out=out, where=below)
    np.multiply(out, SELU_SCALE, out=out, where=~below)


def selu_grad(x: Array, out_grad: Array, x_grad: Array) -> None:
    derivative = np.full_like(x, SELU_SCALE)
    below = x <= 0
    np.exp(x, out=derivative, where=below)
    np.multiply(derivative, SELU_ALPHA * SELU_SCALE, out=derivative, where=below)
    np.multiply(derivative, out_grad, out=x_grad)


SELU = unary(
    "selu",
    "Scaled exponential linear unit, out = 1.0507 * x where x > 0, otherwise 1.7581 * "
    "(exp(x) - 1), with the factors to all digits of the dtype. Klambauer et al., 2017.",
).build(
    infer_shape=same_shape_as("x"),
    gradient=grad_op("selu_grad", needs=["x"], body=activations_gradients.selu),
)


def celu(x: Array, out: Array, *, alpha: float) -> None:
    below = x <= 0
    np.copyto(out, x)
    np.divide(out, alpha, out=out, where=below)
    np.expm1(out, out=out, where=below)
    np.multiply(out, alpha, out=out, where=below)


def celu_grad(x: Array, out_grad: Array, x_grad: Array, *, alpha: float) -> None:
    derivative = np.ones_like(x)
    below = x <= 0
    np.divide(x, alpha, out=derivative, where=below)
    np.exp(derivative, out=derivative, where=below)
    # For very negative x the derivative is 0, even if out_grad is infinite.
    np.copyto(x_grad, 0)
    np.multiply(derivative, out_grad, out=x_grad, where=derivative != 0)


CELU = (
    unary(
        "celu",
        "Continuously differentiable exponential linear unit, out = x where x > 0, otherwise "
        "alpha * (exp(x / alpha) - 1). Barron, 2017.",
    )
    .add_attr("alpha", float, "out tends to -alpha on the left")
    .default(1.0)
    .greater_than(0.0)
    .build(
        infer_shape=same_shape_as("x"),
        gradient=grad_op("celu_grad", needs=["x"], body=activations_gradients.celu),
    )
)


def swish(x: Array, out: Array, *, beta: float) -> None:
    gate = _sigmoid_of(x * x.dtype.type(beta))
    closed = gate == 0  # 0 * -inf would be NaN
    np.multiply(gate, np.where(closed, 0, x), out=out)


def swish_grad(x: Array, out_grad: Array, x_grad: Array, *, beta: float) -> None:
    silu_grad(x * x.dtype.type(beta), out_grad, x_grad)


SWISH = (
    unary(
        "swish",
        "Self-gated unit, out = x * sigmoid(beta * x), 0 where the gate is 0. "
        "Ramachandran et al., 2017.",
    )
    .add_attr("beta", float, "steepness of the gate; 1 makes it silu")
    .default(1.0)
    .build(
        infer_shape=same_shape_as("x"),
        gradient=grad_op("swish_grad", needs=["x"], body=activations_gradients.swish),
    )
)


def stanh(x: Array, out: Array, *, scale_a: float, scale_b: float) -> None:
    np.multiply(x, scale_a, out=out)
    np.tanh(out, out=out)
    np.multiply(out, scale_b, out=out)


def stanh_grad(x: Array, out_grad: Array, x_grad: Array, *, scale_a: float, scale_b: float) -> None:
    # 1 - tanh(z)**2 = 4 p / (1 + p)**2 with p = exp(-2|z|) is accurate in the tails.
    power = np.exp(np.absolute(x * x.dtype.type(scale_a)) * -2)
    derivative = 4 * power / np.square(1 + power) * x.dtype.type(scale_a * scale_b)
    np.multiply(derivative, out_grad, out=x_grad)


STANH = (
    unary("stanh", "Scaled hyperbolic tangent, out = scale_b * tanh(scale_a * x). LeCun, 1989.")
    .add_attr("scale_a", float, "factor of x")
    .default(0.67)
    .add_attr("scale_b", float, "limit of out")
    .default(1.7159)
    .build(
        infer_shape=same_shape_as("x"),
        gradient=grad_op("stanh_grad", needs=["x"], body=activations_gradients.stanh),
    )
)


def soft_relu(x: Array, out: Array, *, threshold: float) -> None:
    softplus(np.minimum(np.maximum(x, -threshold), threshold), out)


def soft_relu_grad(x: Array, out_grad: Array, x_grad: Array, *, threshold: float) -> None:
    flat = (x < -threshold) | (x > threshold)
    np.multiply(_sigmoid_of(x), out_grad, out=x_grad)
    np.copyto(x_grad, 0, where=flat)


SOFT_RELU = (
    unary(
        "soft_relu",
        "Smooth rectifier of a clamped x, out = ln(1 + exp(z)) with "
        "z = minimum(maximum(x, -threshold), threshold). The gradient beyond the threshold is 0.",
    )
    .add_attr("threshold", float, "x is clamped to [-threshold, threshold]")
    .default(40.0)
    .at_least(0.0)
    .build(
        infer_shape=same_shape_as("x"),
        gradient=grad_op("soft_relu_grad", needs=["x"], body=activations_gradients.soft_relu),
    )
)
