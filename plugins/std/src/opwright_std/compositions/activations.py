"""Derivatives of element-wise functions, and compositions that provide them."""

from __future__ import annotations

import math
from collections.abc import Callable

from opwright.op import BodyContext, Composition, by_derivative
from opwright_std.compositions.expression import Expression, read

SELU_SCALE = 1.0507009873554804934
SELU_ALPHA = 1.6732632423543772848

_GELU_END = {"none": 40.0, "tanh": 22.0}
_FAR = 1000.0
"""Beyond these bounds the gates of gelu, silu and mish are constant in every dtype. The derivatives
are computed at clipped arguments, since 0 times an infinity would be NaN."""


def by_formula(formula: Callable[[BodyContext, Expression], Expression]) -> Composition:
    """Return the composition of a gradient from a formula with out_grad.

    In contrast to `by_derivative`, the derivative alone may overflow or underflow, and 0 may be
    selected where out_grad is infinite.
    """

    def write(b: BodyContext) -> None:
        b.set_output("x_grad", formula(b, read(b, "out_grad")).name)

    return Composition(write)


@by_derivative
def acos(b: BodyContext) -> str:
    return (-_inverse_root(read(b, "x"))).name


@by_derivative
def asin(b: BodyContext) -> str:
    return _inverse_root(read(b, "x")).name


def _inverse_root(x: Expression) -> Expression:
    return one_minus_square(x).then("rsqrt")


def one_minus_square(x: Expression) -> Expression:
    """Return 1 - x**2, accurate near 1, with a derivative that is accurate near 0."""
    product = (1.0 - x) * (x + 1.0)
    return x.then("abs").compare("greater", 0.5).choose(product, 1.0 - x.then("square"))


@by_formula
def atan(b: BodyContext, grad: Expression) -> Expression:
    x = read(b, "x")
    size = x.with_("hypot", x.filled(1.0))
    return grad / size / size


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


@by_derivative
def gelu(b: BodyContext) -> str:
    x, approximate = read(b, "x"), b.attr("approximate")
    end = _GELU_END[approximate]
    bounded = x.then("clip", min=-end, max=end)
    if approximate == "tanh":
        # (1 + tanh(z)) / 2 = sigmoid(2 z).
        square, scale = bounded.then("square"), 2 * math.sqrt(2 / math.pi)
        inner = bounded * (square * (0.044715 * scale) + scale)
        gate = inner.then("sigmoid")
        density = gate * (-inner).then("sigmoid") * (square * (3 * 0.044715 * scale) + scale)
    else:
        gate = (x * -math.sqrt(0.5)).then("erfc") * 0.5
        density = (bounded.then("square") * -0.5).then("exp") * (1 / math.sqrt(2 * math.pi))
    return (gate + bounded * density).name


@by_formula
def hard_swish(b: BodyContext, grad: Expression) -> Expression:
    x = read(b, "x")
    inner = x.then("clip", min=-3.0, max=3.0) / 3.0 + 0.5
    grads = x.compare("greater_equal", 3.0).choose(grad, grad * inner)
    return x.compare("less_equal", -3.0).choose(grad.filled(0.0), grads)


@by_derivative
def log_sigmoid(b: BodyContext) -> str:
    return (-read(b, "out").then("expm1")).name


@by_derivative
def mish(b: BodyContext) -> str:
    """With n = exp(x), s = n / (1 + n), q = 1 - s: tanh(ln(1 + n)) is (1 - q**2) / (1 + q**2)."""
    x = read(b, "x").then("clip", min=-_FAR, max=_FAR)
    share, rest = x.then("sigmoid"), (-x).then("sigmoid")
    inverse = (rest.then("square") + 1.0).then("reciprocal")
    return (share * inverse * (rest + 1.0 + x * (rest * rest * inverse) * 4.0)).name


@by_formula
def reciprocal(b: BodyContext, grad: Expression) -> Expression:
    out = read(b, "out")
    return -(grad * out * out)


@by_formula
def rsqrt(b: BodyContext, grad: Expression) -> Expression:
    out = read(b, "out")
    return grad * out * out * out * -0.5


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


@by_formula
def softsign(b: BodyContext, grad: Expression) -> Expression:
    inverse = (read(b, "x").then("abs") + 1.0).then("reciprocal")
    return grad * inverse * inverse


@by_formula
def soft_relu(b: BodyContext, grad: Expression) -> Expression:
    x = read(b, "x")
    is_flat = x.then("abs").compare("greater", b.attr("threshold"))
    return is_flat.choose(grad.filled(0.0), grad * x.then("sigmoid"))


@by_derivative
def stanh(b: BodyContext) -> str:
    # 1 - tanh(z)**2 = 4 sigmoid(2 z) sigmoid(-2 z) is accurate in the tails.
    twice = read(b, "x") * (2 * float(b.attr("scale_a")))
    factor = 4 * float(b.attr("scale_a")) * float(b.attr("scale_b"))
    return (twice.then("sigmoid") * (-twice).then("sigmoid") * factor).name


@by_derivative
def swish(b: BodyContext) -> str:
    beta = 1.0 if b.type == "silu_grad" else float(b.attr("beta"))
    inner = (read(b, "x") * beta).then("clip", min=-_FAR, max=_FAR)
    return (inner.then("sigmoid") * (inner * (-inner).then("sigmoid") + 1.0)).name


@by_formula
def tanh_shrink(b: BodyContext, grad: Expression) -> Expression:
    root = read(b, "x").then("tanh")
    return grad * root * root


SOFTPLUS = by_derivative(_softplus, reads=["x"])
