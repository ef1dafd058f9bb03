"""Composed logarithms and powers, and logarithms of sums of exponentials."""

from __future__ import annotations

import math

from opwright.op import BodyContext, GradientContext, elementwise_shape, same_shape_as
from opwright_std.compositions.chain_rules import chain_rule, set_broadcast_grad
from opwright_std.compositions.expression import Expression, dtype_of, in_float32, read, result
from opwright_std.numerics.dtypes import FLOATS
from opwright_std.operators.binary import binary
from opwright_std.operators.reduction import known_meta
from opwright_std.operators.statistics import LARGEST
from opwright_std.operators.unary import unary


def _log10(b: BodyContext) -> Expression:
    return read(b, "x").then("log") * (1 / math.log(10))


LOG10 = unary(
    "log10", "Decimal logarithm, out = log10(x), within 2 ulp: -inf at 0, NaN for negative x."
).build(infer_shape=same_shape_as("x"), body=in_float32(_log10))


def _exp2(b: BodyContext) -> None:
    # The power is not computed with exp, which would turn an overflowing power of 2 into the
    # largest float.
    attrs = {"values": [2.0], "shape": [], "dtype": known_meta(b).dtype}
    base = b.emit("constant", {}, attrs=attrs)
    b.emit("power", {"x": base, "y": b.input("x")}, {"out": b.output("out")})


EXP2 = unary("exp2", "Power of two, out = 2**x.").build(
    infer_shape=same_shape_as("x"),
    gradient=chain_rule(lambda grad, g: grad * (result(g) * math.log(2))),
    body=_exp2,
)


def _logit(b: BodyContext) -> Expression:
    x = read(b, "x")
    eps = b.attr("eps")
    if eps is not None:
        x = x.then("clip", min=float(eps), max=1.0 - float(eps))
    return x.then("log") - (-x).then("log1p")


LOGIT = (
    unary(
        "logit",
        "Inverse of the sigmoid, out = ln(x / (1 - x)): infinite at 0 and 1, NaN beyond. With eps "
        "x is clamped to [eps, 1 - eps], outside of which the gradient is 0.",
    )
    .add_attr("eps", float, "lower bound of x; absent: none")
    .between(0.0, 0.5)
    .build(infer_shape=same_shape_as("x"), body=in_float32(_logit))
)


def _difference(g: BodyContext | GradientContext) -> Expression:
    """Emit x - y, with 0 for equal infinities."""
    bound = LARGEST[dtype_of(g)]
    x, y = (
        Expression(g, g.inputs(slot)[0]).then("clip", min=-bound, max=bound) for slot in ("x", "y")
    )
    return x - y


def _logaddexp(b: BodyContext) -> Expression:
    larger = read(b, "x").with_("maximum", read(b, "y"))
    return larger + (-_difference(b).then("abs")).then("softplus")


def _logaddexp_gradient(g: GradientContext) -> None:
    grad, difference = Expression(g, g.output_grad("out")), _difference(g)
    if g.type == "logaddexp2":
        difference = difference * math.log(2)
    for slot, other, way in (("x", "y", difference), ("y", "x", -difference)):
        if g.wants(slot):
            set_broadcast_grad(g, slot, (grad * way.then("sigmoid")).name, [other])


LOGADDEXP = binary(
    "logaddexp",
    "Logarithm of a sum of exponentials, out = ln(exp(x) + exp(y)), without overflow.",
    FLOATS,
).build(
    infer_shape=elementwise_shape("x", "y"),
    gradient=_logaddexp_gradient,
    body=in_float32(_logaddexp),
)


def _logaddexp2(b: BodyContext) -> Expression:
    larger = read(b, "x").with_("maximum", read(b, "y"))
    power = (-_difference(b).then("abs")).then("exp2")
    return larger + power.then("log1p") * (1 / math.log(2))


LOGADDEXP2 = binary(
    "logaddexp2", "Binary logarithm of a sum of powers of two, out = log2(2**x + 2**y).", FLOATS
).build(
    infer_shape=elementwise_shape("x", "y"),
    gradient=_logaddexp_gradient,
    body=in_float32(_logaddexp2),
)


def _times_logarithm(b: BodyContext) -> Expression:
    """Emit x times a logarithm of y, with 0 where x is 0 and y is out of range."""
    x, y = read(b, "x"), read(b, "y")
    function, one = ("log", 1.0) if b.type == "xlogy" else ("log1p", 0.0)
    is_infinite = y.compare("equal", math.inf)
    is_outside = y.compare("less_equal", one - 1.0).with_("logical_or", is_infinite)
    is_zero = x.compare("equal", 0.0).with_("logical_and", is_outside)
    return x * is_zero.choose(x.filled(one), y).then(function)


XLOGY = binary(
    "xlogy", "x times a logarithm, out = x * ln(y), 0 where x is 0 and y is a number.", FLOATS
).build(infer_shape=elementwise_shape("x", "y"), body=in_float32(_times_logarithm))

XLOG1PY = binary(
    "xlog1py",
    "x times a logarithm, out = x * ln(1 + y), 0 where x is 0 and y is a number.",
    FLOATS,
).build(infer_shape=elementwise_shape("x", "y"), body=in_float32(_times_logarithm))
