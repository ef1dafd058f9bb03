"""Integer quotients and remainders, element-wise, rounded down as in NumPy."""

from __future__ import annotations

import numpy as np

from opwright.op import BodyContext, GradientContext, OpDefinition, elementwise_shape, no_gradient
from opwright_std.compositions.chain_rules import set_broadcast_grad
from opwright_std.compositions.expression import Expression, read
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.operators.binary import binary


def mod(x: Array, y: Array, out: Array) -> None:
    with np.errstate(divide="ignore", over="ignore"):  # results for integers are defined, see below
        np.remainder(x, y, out=out)


def floor_divide(x: Array, y: Array, out: Array) -> None:
    with np.errstate(divide="ignore", over="ignore"):
        np.floor_divide(x, y, out=out)


def _define(op_type: str, comment: str) -> OpDefinition:
    return binary(op_type, comment).build(
        infer_shape=elementwise_shape("x", "y"),
        gradient=no_gradient("it is piecewise linear with jumps that its derivative does not show"),
    )


MOD = _define(
    "mod",
    "Remainder of floor division, as numpy.remainder, with the sign of y. For y = 0 it is NaN, or "
    "0 for integers.",
)
FLOOR_DIVIDE = _define(
    "floor_divide",
    "Quotient rounded down, as numpy.floor_divide. For y = 0 it is infinite or NaN, or 0 for "
    "integers; the smallest integer divided by -1 wraps around to itself.",
)


def _fmod_body(b: BodyContext) -> None:
    x, y = read(b, "x"), read(b, "y")
    meta = b.meta(x.name)
    if meta is None or meta.dtype in FLOATS:
        out = x.then("abs").with_("mod", y.then("abs")).with_("copysign", x)
    else:  # the smallest integer has no absolute value
        rest = x.with_("mod", y)
        sides = (number.compare("less", 0) for number in (x, y))
        differs = next(sides).with_("logical_xor", next(sides))
        moved = differs.with_("logical_and", rest.compare("not_equal", 0))
        out = moved.choose(rest - y, rest)
    b.set_output("out", out.name)


def _fmod_gradient(g: GradientContext) -> None:
    """Emit the gradients away from the jumps: 1 for x, minus the rounded quotient for y."""
    grad, x, y = (
        Expression(g, name) for name in (g.output_grad("out"), g.input("x"), g.input("y"))
    )
    if g.wants("x"):
        set_broadcast_grad(g, "x", grad.name, ["y"])
    if g.wants("y"):
        quotient = ((x - Expression(g, g.output("out"))) / y).then("round")
        g.block.var(quotient.name).stop_gradient = True  # a second gradient through it is 0
        part = quotient.compare("equal", 0.0).choose(quotient, -(grad * quotient))
        set_broadcast_grad(g, "y", part.name, ["x"])


FMOD = binary(
    "fmod",
    "Remainder of truncating division, as numpy.fmod, with the sign of x. For y = 0 it is NaN, or "
    "0 for integers. The gradients are those between the jumps.",
).build(infer_shape=elementwise_shape("x", "y"), gradient=_fmod_gradient, body=_fmod_body)
