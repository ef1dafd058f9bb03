"""Derivatives of element-wise functions, and compositions that provide them."""

from __future__ import annotations

import math

from opwright.op import BodyContext, by_derivative, by_differentiating
from opwright_std.compositions.expression import Expression, read

SELU_SCALE = 1.0507009873554804934
SELU_ALPHA = 1.6732632423543772848


@by_derivative
def acos(b: BodyContext) -> str:
    return (-(1.0 - read(b, "x").then("square")).then("rsqrt")).name


@by_derivative
def asin(b: BodyContext) -> str:
    return (1.0 - read(b, "x").then("square")).then("rsqrt").name


@by_derivative
def atan(b: BodyContext) -> str:
    return (read(b, "x").then("square") + 1.0).then("reciprocal").name


@by_derivative
def tan(b: BodyContext) -> str:
    return (read(b, "out").then("square") + 1.0).name


def _below(x: Expression, derivative: Expression, above: float) -> str:
    """Return `derivative` where x is at most 0, and the constant `above` elsewhere."""
    return x.compare("less_equal", 0.0).choose(derivative, x.filled(above)).name


@by_derivative
def celu(b: BodyContext) -> str:
    x = read(b, "x")
    return _below(x, (x.then("clip", max=0.0) / b.attr("alpha")).then("exp"), 1.0)


@by_derivative
def elu(b: BodyContext) -> str:
    x = read(b, "x")
    return _below(x, x.then("clip", max=0.0).then("exp") * b.attr("alpha"), 1.0)


@by_derivative
def selu(b: BodyContext) -> str:
    x = read(b, "x")
    derivative = x.then("clip", max=0.0).then("exp") * (SELU_ALPHA * SELU_SCALE)
    return _below(x, derivative, SELU_SCALE)


@by_derivative
def erf(b: BodyContext) -> str:
    # For |x| > 40 the density is 0 in every dtype, and the square of x might overflow.
    x = read(b, "x").then("clip", min=-40.0, max=40.0)
    return ((-x.then("square")).then("exp") * (2 / math.sqrt(math.pi))).name


@by_differentiating
def gelu(b: BodyContext) -> str:
    x = read(b, "x")
    if b.attr("approximate") == "tanh":
        inner = (x + x * x.then("square") * 0.044715) * math.sqrt(2 / math.pi)
        return (x * (inner.then("tanh") + 1.0) * 0.5).name
    return (x * ((x * math.sqrt(0.5)).then("erf") + 1.0) * 0.5).name


@by_derivative
def hard_swish(b: BodyContext) -> str:
    x = read(b, "x")
    inner = x.compare("greater_equal", 3.0).choose(x.filled(1.0), x / 3.0 + 0.5)
    return x.compare("less_equal", -3.0).choose(x.filled(0.0), inner).name


@by_derivative
def log_sigmoid(b: BodyContext) -> str:
    return (-read(b, "out").then("expm1")).name


@by_differentiating
def mish(b: BodyContext) -> str:
    x = read(b, "x")
    return (x * x.then("softplus").then("tanh")).name


@by_derivative
def reciprocal(b: BodyContext) -> str:
    return (-read(b, "out").then("square")).name


@by_derivative
def rsqrt(b: BodyContext) -> str:
    out = read(b, "out")
    return (out * out.then("square") * -0.5).name


@by_derivative
def sqrt(b: BodyContext) -> str:
    return (0.5 / read(b, "out")).name


@by_derivative
def square(b: BodyContext) -> str:
    return (read(b, "x") * 2.0).name


@by_derivative
def sigmoid(b: BodyContext) -> str:
    out = read(b, "out")
    return (out * (1.0 - out)).name


@by_derivative
def tanh(b: BodyContext) -> str:
    return (1.0 - read(b, "out").then("square")).name


def _softplus(b: BodyContext) -> str:
    beta, threshold = float(b.attr("beta")), b.attr("threshold")
    if (beta, threshold) == (1.0, math.inf):
        return (-(-read(b, "out")).then("expm1")).name
    inner = read(b, "x") * beta  # out alone does not determine the side of the threshold
    derivative = inner.then("sigmoid")
    return inner.compare("greater", threshold).choose(derivative.filled(1.0), derivative).name


@by_derivative
def softsign(b: BodyContext) -> str:
    return (read(b, "x").then("abs") + 1.0).then("reciprocal").then("square").name


@by_differentiating
def soft_relu(b: BodyContext) -> str:
    limit = b.attr("threshold")
    x = read(b, "x").then("clip", min=-limit, max=limit)
    return x.then("softplus").name


@by_differentiating
def stanh(b: BodyContext) -> str:
    inner = read(b, "x") * float(b.attr("scale_a"))
    return (inner.then("tanh") * float(b.attr("scale_b"))).name


@by_differentiating
def swish(b: BodyContext) -> str:
    x = read(b, "x")
    beta = 1.0 if b.type == "silu_grad" else b.attr("beta")
    return (x * (x * beta).then("sigmoid")).name


@by_derivative
def tanh_shrink(b: BodyContext) -> str:
    return read(b, "x").then("tanh").then("square").name


SOFTPLUS = by_derivative(_softplus, reads=["x"])
