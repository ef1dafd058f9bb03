"""The gradient of power composed of simpler operators; negative bases need integer exponents."""

from __future__ import annotations

from opwright.op import BodyContext, Composition
from opwright_std.compositions.expression import Expression, read


def _write(b: BodyContext) -> None:
    x, y, grad = read(b, "x"), read(b, "y"), read(b, "out_grad")
    if b.has_output("x_grad"):
        constant = y.compare("equal", 0.0)  # x**0 is 1, even where x is 0
        derivative = y * x.with_("power", constant.choose(y.filled(1.0), y - 1.0))
        _set(b, "x", constant.choose(y.filled(0.0), derivative) * grad)
    if b.has_output("y_grad"):
        # x**y * ln(x); where x is 0 it is set to 0, the limit for every y above 0.
        zero = x.compare("equal", 0.0).with_("logical_and", y.compare("greater_equal", 0.0))
        logs = zero.choose(x.filled(1.0), x).then("log")
        _set(b, "y", x.with_("power", y) * grad * logs)


def _set(b: BodyContext, slot: str, grad: Expression) -> None:
    inputs = {"x": grad.name, "like": b.input(slot)}
    b.emit("sum_like", inputs, {"out": b.outputs(f"{slot}_grad")})


POWER = Composition(_write)
