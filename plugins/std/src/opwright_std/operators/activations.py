"""Activations: element-wise functions of one input, used after a layer."""

from __future__ import annotations

import math

import numpy as np

from opwright.op import BodyContext, grad_op, same_again, same_shape_as
from opwright_std.compositions import activations as activations_gradients
from opwright_std.compositions.expression import read
from opwright_std.compositions.fractions import function
from opwright_std.numerics.dtypes import NUMBERS, Array
from opwright_std.operators.unary import unary

_ERFC = np.frompyfunc(math.erfc, 1, 1)
_INF = math.inf
_SQRT_HALF = math.sqrt(0.5)
_TANH_LINEAR = 2 * math.sqrt(2 / math.pi)
_TANH_CUBIC = 0.044715

# Beyond these bounds the gates of gelu and silu round to 0 or 1 in every dtype.
_GELU_END = {"none": 40, "tanh": 22}
_FAR = (-1000, 1000)


def relu(x: Array, out: Array) -> None:
    np.maximum(x, 0, out=out)


def relu_grad(out: Array, out_grad: Array, x_grad: Array) -> None:
    # The gradient is selected, not multiplied by 0, since out_grad may be infinite, as for
    # sqrt(relu(x)).
    flat = out <= 0
    np.copyto(x_grad, out_grad)
    np.copyto(x_grad, 0, where=flat)


RELU = unary(
    "relu", "Rectifier, out = maximum(x, 0). The gradient is 0 at 0, and 1 at NaN.", NUMBERS
).build(
    infer_shape=same_shape_as("x"),
    gradient=grad_op("relu_grad", needs=["out"], gradient=same_again),
)


def sigmoid(x: Array, out: Array) -> None:
    # e**x / (1 + e**x) has full relative accuracy in the left tail; at the limit the quotient
    # rounds to 1 in the dtype, while e**limit is still finite.
    np.minimum(x, 11 if x.itemsize == 2 else 40, out=out)
    np.exp(out, out=out)
    np.divide(out, out + 1, out=out)


def sigmoid_grad(out: Array, out_grad: Array, x_grad: Array) -> None:
    np.subtract(1, out, out=x_grad)
    np.multiply(x_grad, out, out=x_grad)
    np.multiply(x_grad, out_grad, out=x_grad)


SIGMOID = function(
    "sigmoid",
    "Logistic function, out = 1 / (1 + exp(-x)).",
    grad_op("sigmoid_grad", needs=["out"], body=activations_gradients.sigmoid),
)


def tanh_grad(out: Array, out_grad: Array, x_grad: Array) -> None:
    np.square(out, out=x_grad)
    np.subtract(1, x_grad, out=x_grad)
    np.multiply(x_grad, out_grad, out=x_grad)


TANH = function(
    "tanh",
    "Hyperbolic tangent, out = tanh(x).",
    grad_op("tanh_grad", needs=["out"], body=activations_gradients.tanh),
)


def softplus(x: Array, out: Array) -> None:
    positive = np.maximum(x, 0)
    np.absolute(x, out=out)
    np.negative(out, out=out)
    np.exp(out, out=out)
    np.log1p(out, out=out)
    np.add(out, positive, out=out)


def softplus_grad(out: Array, out_grad: Array, x_grad: Array) -> None:
    # sigmoid(x) = 1 - exp(-softplus(x)): exact in both tails through expm1.
    np.negative(out, out=x_grad)
    np.expm1(x_grad, out=x_grad)
    np.multiply(x_grad, out_grad, out=x_grad)
    np.negative(x_grad, out=x_grad)


def _softplus_body(b: BodyContext) -> bool | None:
    beta, threshold = float(b.attr("beta")), b.attr("threshold")
    if (beta, threshold) == (1.0, _INF):
        return False
    x = read(b, "x")
    inner = x * beta
    out = inner.then("softplus") / beta
    if threshold < _INF:
        out = inner.compare("greater", threshold).choose(x, out)
    b.set_output("out", out.name)
    return None


SOFTPLUS = (
    unary(
        "softplus",
        "Smooth rectifier, out = ln(1 + exp(beta * x)) / beta, computed without overflow, and x "
        "where beta * x is above threshold. Dugas et al., 2001.",
    )
    .add_attr("beta", float, "steepness")
    .default(1.0)
    .greater_than(0.0)
    .as_added()
    .add_attr("threshold", float, "where beta * x is above it, out is x")
    .default(_INF)
    .as_added()
    .build(
        infer_shape=same_shape_as("x"),
        gradient=grad_op("softplus_grad", needs=["out"], body=activations_gradients.SOFTPLUS),
        body=_softplus_body,
    )
)


def silu(x: Array, out: Array) -> None:
    sigmoid(x, out)
    # For very negative x the gate is 0; 0 * -inf would be NaN.
    np.multiply(out, np.maximum(x, _FAR[0]), out=out)


def silu_grad(x: Array, out_grad: Array, x_grad: Array) -> None:
    gate = np.empty_like(x)
    sigmoid(x, gate)
    np.subtract(1, gate, out=x_grad)
    np.multiply(x_grad, np.minimum(np.maximum(x, _FAR[0]), _FAR[1]), out=x_grad)
    np.add(x_grad, 1, out=x_grad)
    np.multiply(x_grad, gate, out=x_grad)
    np.multiply(x_grad, out_grad, out=x_grad)


SILU = unary(
    "silu",
    "Sigmoid-weighted unit, out = x * sigmoid(x), with its limit 0 at -inf. Elfwing et al., 2017.",
).build(
    infer_shape=same_shape_as("x"),
    gradient=grad_op("silu_grad", needs=["x"], body=activations_gradients.swish),
)


def gelu(x: Array, out: Array, *, approximate: str) -> None:
    _gelu_gate(x, out, approximate)
    np.multiply(out, np.maximum(x, -_GELU_END[approximate]), out=out)


def _gelu_gate(x: Array, out: Array, approximate: str) -> None:
    """Write gelu(x) / x: the normal distribution function, or its sigmoid approximation."""
    if approximate == "tanh":
        # (1 + tanh(z)) / 2 = sigmoid(2 z). x is clipped, because its cube might overflow.
        end = _GELU_END[approximate]
        bounded = np.minimum(np.maximum(x, -end), end)
        np.square(bounded, out=out)
        np.multiply(out, _TANH_LINEAR * _TANH_CUBIC, out=out)
        np.add(out, _TANH_LINEAR, out=out)
        np.multiply(out, bounded, out=out)
        sigmoid(out, out)
    else:
        np.multiply(x, -_SQRT_HALF, out=out)
        _ERFC(out, out=out, casting="unsafe")
        np.multiply(out, 0.5, out=out)


def gelu_grad(x: Array, out_grad: Array, x_grad: Array, *, approximate: str) -> None:
    _gelu_gate(x, x_grad, approximate)
    # The derivative of the gate vanishes before the bound; beyond it the square might overflow.
    end = _GELU_END[approximate]
    bounded = np.minimum(np.maximum(x, -end), end)
    derivative = np.square(bounded)
    if approximate == "tanh":
        derivative = derivative * (3 * _TANH_LINEAR * _TANH_CUBIC) + _TANH_LINEAR
        derivative = derivative * x_grad * (1 - x_grad)
    else:
        derivative = np.exp(derivative * -0.5) / math.sqrt(2 * math.pi)
    x_grad += derivative * bounded
    np.multiply(x_grad, out_grad, out=x_grad)


GELU = (
    unary(
        "gelu",
        "Gaussian error linear unit, out = x * (1 + erf(x / sqrt(2))) / 2; with approximate="
        '"tanh" x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2. At -inf it has its '
        "limit, 0. Hendrycks and Gimpel, 2016.",
    )
    .add_attr("approximate", str, "the exact distribution function or its tanh approximation")
    .default("none")
    .one_of("none", "tanh")
    .build(
        infer_shape=same_shape_as("x"),
        gradient=grad_op("gelu_grad", needs=["x"], body=activations_gradients.gelu),
    )
)


def elu(x: Array, out: Array, *, alpha: float) -> None:
    below = x <= 0
    np.copyto(out, x)
    np.expm1(out, out=out, where=below)
    np.multiply(out, alpha, out=out, where=below)


def elu_grad(x: Array, out_grad: Array, x_grad: Array, *, alpha: float) -> None:
    below = x <= 0
    # The gradient is computed as alpha * exp(x), since out + alpha would lose precision.
    np.exp(x, out=x_grad, where=below)
    np.multiply(x_grad, alpha, out=x_grad, where=below)
    np.multiply(x_grad, out_grad, out=x_grad, where=below)
    np.copyto(x_grad, out_grad, where=~below)


ELU = (
    unary(
        "elu",
        "Exponential linear unit, out = x where x > 0, otherwise alpha * (exp(x) - 1). The "
        "gradient at 0 is alpha. Clevert et al., 2015.",
    )
    .add_attr("alpha", float, "out tends to -alpha on the left")
    .default(1.0)
    .at_least(0.0)
    .build(
        infer_shape=same_shape_as("x"),
        gradient=grad_op("elu_grad", needs=["x"], body=activations_gradients.elu),
    )
)


def leaky_relu(x: Array, out: Array, *, alpha: float) -> None:
    below = x <= 0
    np.copyto(out, x)
    np.multiply(out, alpha, out=out, where=below)


def leaky_relu_grad(out: Array, out_grad: Array, x_grad: Array, *, alpha: float) -> None:
    # If x is -inf and alpha 0, out is NaN.
    below = ~(out > 0)
    np.copyto(x_grad, out_grad)
    np.multiply(x_grad, alpha, out=x_grad, where=below)


LEAKY_RELU = (
    unary(
        "leaky_relu",
        "Leaky rectifier, out = x where x > 0, otherwise alpha * x. The gradient at 0 is "
        "alpha. Maas et al., 2013.",
    )
    .add_attr("alpha", float, "slope below 0")
    .default(0.01)
    .at_least(0.0)
    .build(
        infer_shape=same_shape_as("x"),
        gradient=grad_op("leaky_relu_grad", needs=["out"], gradient=same_again),
    )
)
