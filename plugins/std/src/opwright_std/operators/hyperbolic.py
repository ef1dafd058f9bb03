"""Inverse hyperbolic functions, composed of logarithms."""

from __future__ import annotations

import math

from opwright.op import BodyContext, same_shape_as
from opwright_std.compositions.activations import one_minus_square
from opwright_std.compositions.chain_rules import chain_rule
from opwright_std.compositions.expression import Expression, in_float32, read
from opwright_std.operators.unary import unary

_FAR = 1e9
"""From this x on, x**2 + 1 is x**2 in float64; below it, nothing overflows in float32. Beyond it,
both inverses are ln(2) + ln(x), since 2 * x might overflow."""


def _beyond(size: Expression, near: Expression) -> Expression:
    far = size.then("log") + math.log(2)
    return size.compare("greater", _FAR).choose(far, near.then("log1p"))


def _asinh(b: BodyContext) -> Expression:
    x = read(b, "x")
    size = x.then("abs")
    near = size.then("clip", max=_FAR)
    # sqrt(x**2 + 1) - 1 = x * ratio, without cancellation.
    ratio = near / ((near.then("square") + 1.0).then("sqrt") + 1.0)
    return _beyond(size, near + near * ratio).with_("copysign", x)


ASINH = unary("asinh", "Inverse of the hyperbolic sine, out = asinh(x).").build(
    infer_shape=same_shape_as("x"),
    gradient=chain_rule(
        lambda grad, g: grad / read(g, "x").with_("hypot", read(g, "x").filled(1.0))
    ),
    body=in_float32(_asinh),
)


def _acosh(b: BodyContext) -> Expression:
    x = read(b, "x")
    above = (x - 1.0).then("clip", max=_FAR)
    # sqrt(x**2 - 1), without cancellation.
    root = above.then("sqrt") * (above + 2.0).then("sqrt")
    return _beyond(x, above + root)


ACOSH = unary(
    "acosh",
    "Inverse of the hyperbolic cosine, out = acosh(x), NaN below 1. The gradient at 1 is infinite.",
).build(
    infer_shape=same_shape_as("x"),
    gradient=chain_rule(
        lambda grad, g: (
            grad * (read(g, "x") - 1.0).then("rsqrt") * (read(g, "x") + 1.0).then("rsqrt")
        )
    ),
    body=in_float32(_acosh),
)


def _atanh(b: BodyContext) -> Expression:
    x = read(b, "x")
    size = x.then("abs")
    return ((size * 2.0 / (1.0 - size)).then("log1p") * 0.5).with_("copysign", x)


ATANH = unary(
    "atanh",
    "Inverse of the hyperbolic tangent, out = atanh(x), infinite at -1 and 1, NaN beyond.",
).build(
    infer_shape=same_shape_as("x"),
    gradient=chain_rule(lambda grad, g: grad / one_minus_square(read(g, "x"))),
    body=in_float32(_atanh),
)
