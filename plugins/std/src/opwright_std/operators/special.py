"""Special functions: the logarithm of gamma and its derivatives, and the error functions.

Kernels compute in float64 and round once.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from opwright.op import BodyContext, GradientContext, OpDefinition, same_shape_as
from opwright_std.compositions.chain_rules import chain_rule
from opwright_std.compositions.expression import Expression, read, result
from opwright_std.numerics import special
from opwright_std.numerics.dtypes import Array
from opwright_std.operators.unary import unary


def _log_gamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except ValueError:  # a pole
        return math.inf


# NumPy lacks these functions; accuracy to the last bit costs one Python call per element.
_LGAMMA = np.frompyfunc(_log_gamma, 1, 1)
_ERFC = np.frompyfunc(math.erfc, 1, 1)


def lgamma(x: Array, out: Array) -> None:
    _LGAMMA(x, out=out, casting="unsafe")


def erfc(x: Array, out: Array) -> None:
    _ERFC(x, out=out, casting="unsafe")


def digamma(x: Array, out: Array) -> None:
    out[...] = special.digamma(x.astype(np.float64))


def polygamma(x: Array, out: Array, *, n: int) -> None:
    wide = x.astype(np.float64)
    out[...] = special.polygamma(wide, n) if n else special.digamma(wide)


def erfinv(x: Array, out: Array) -> None:
    out[...] = special.erfinv(x.astype(np.float64))


def _erfc_gradient(g: GradientContext) -> None:
    inputs = {"x": g.input("x"), "out_grad": g.output_grad("out")}
    grad = g.emit("erf_grad", inputs, {"x_grad": 1})
    g.set_input_grad("x", g.emit("negative", {"x": grad}))


def _define(
    op_type: str, comment: str, gradient: Callable[[GradientContext], None]
) -> OpDefinition:
    return unary(op_type, comment).build(infer_shape=same_shape_as("x"), gradient=gradient)


LGAMMA = _define(
    "lgamma",
    "Logarithm of the absolute gamma function, out = ln(|gamma(x)|): inf at 0 and negative "
    "integers. The gradient is digamma(x).",
    chain_rule(lambda grad, g: grad * read(g, "x").then("digamma")),
)
DIGAMMA = _define(
    "digamma",
    "Derivative of ln(gamma(x)): -inf at 0, inf at -0, NaN at negative integers.",
    chain_rule(lambda grad, g: grad * read(g, "x").then("polygamma", n=1)),
)
POLYGAMMA = (
    unary(
        "polygamma",
        "Derivative of digamma of an order n; order 0 is digamma itself. At 0 and negative "
        "integers it is infinite, with the sign of (-1)**(n + 1).",
    )
    .add_attr("n", int, "the order")
    .required()
    .between(0, 100)
    .build(
        infer_shape=same_shape_as("x"),
        gradient=chain_rule(
            lambda grad, g: grad * read(g, "x").then("polygamma", n=g.attr("n") + 1)
        ),
    )
)
ERFC = _define(
    "erfc",
    "Complementary error function, out = 1 - erf(x), accurate for small results.",
    _erfc_gradient,
)
ERFINV = _define(
    "erfinv",
    "Inverse of the error function: infinite at -1 and 1, NaN beyond. Wichura, 1988 (AS 241).",
    # The reciprocal of the density at out.
    chain_rule(
        lambda grad, g: grad * result(g).then("square").then("exp") * (math.sqrt(math.pi) / 2)
    ),
)


def _half_turns(x: Expression) -> tuple[Expression, Expression]:
    """Return the sign 1 or -1 and the reduced angle of pi x, without rounding."""
    whole = x.then("round")
    odd = whole - (whole * 0.5).then("floor") * 2.0
    return 1.0 - odd * 2.0, (x - whole) * math.pi


def _sinc_body(b: BodyContext) -> None:
    x = read(b, "x")
    sign, angle = _half_turns(x)
    quotient = sign * angle.then("sin") / (x * math.pi)
    b.set_output("out", x.compare("equal", 0.0).choose(x.filled(1.0), quotient).name)


_SINC_TERMS = 10
"""Coefficients of the series that avoids cancellation."""


def _sinc_gradient(g: GradientContext) -> None:
    """Emit (cos(pi x) - sinc(x)) / x, or its series where the difference cancels."""
    x, out = Expression(g, g.input("x")), Expression(g, g.output("out"))
    small = x.then("clip", min=-0.5, max=0.5)
    square = (small * math.pi).then("square")
    series = square.filled(0.0)
    for k in range(_SINC_TERMS, 0, -1):
        series = series * square + (-1) ** k * 2 * k / math.factorial(2 * k + 1)
    series = series * small * math.pi**2
    is_small = x.then("abs").compare("less", 0.5)
    safe = is_small.choose(x.filled(1.0), x)
    sign, angle = _half_turns(x)
    far = (sign * angle.then("cos") - out) / safe
    derivative = is_small.choose(series, far)
    g.set_input_grad("x", (Expression(g, g.output_grad("out")) * derivative).name)


SINC = unary(
    "sinc",
    "Sine of pi x over pi x, out = sin(pi * x) / (pi * x): 1 at 0, 0 at other integers.",
).build(infer_shape=same_shape_as("x"), gradient=_sinc_gradient, body=_sinc_body)
