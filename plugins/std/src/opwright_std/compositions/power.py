"""The gradient of power composed of simpler operators; negative bases need integer exponents."""

from __future__ import annotations

from opwright.op import BodyContext, Composition
from opwright_std.compositions.expression import Expression, read


def _write(b: BodyContext) -> None:
    if b.has_output("x_grad"):
        _set(b, "x", _of_base(b))
    if b.has_output("y_grad"):
        _set(b, "y", _of_exponent(b))


def _of_base(b: BodyContext) -> Expression:
    """Emit y * x**(y - 1) * out_grad.

    For y = 0 it is 0 with the derivative out_grad / x in y, unless this is infinite or NaN. For
    negative y, x**(y - 1) is out / x, since the power alone might overflow or underflow.
    """
    x, y, out, grad = (read(b, slot) for slot in ("x", "y", "out", "out_grad"))
    is_finite = (grad / x).then("isfinite")
    is_flat = y.compare("equal", 0.0).with_("logical_and", is_finite.then("logical_not"))
    x = is_flat.choose(out.filled(1.0), x)
    grad = is_flat.choose(grad.filled(0.0), grad)
    is_negative = y.compare("less", 0.0)
    power = x.with_("power", is_negative.choose(y.filled(1.0), y - 1.0))
    quotient = grad * y * out / is_negative.choose(x, x.filled(1.0))
    derivative = is_negative.choose(quotient, grad * y * power)
    # If x**y is NaN the derivative is too, though y - 1 may round to an integer.
    return out.then("isnan").choose(is_flat.choose(grad, out), derivative)


def _of_exponent(b: BodyContext) -> Expression:
    """Emit x**y * ln(x) * out_grad, and 0 where x is 0, the limit for every y above 0."""
    x, y, out, grad = (read(b, slot) for slot in ("x", "y", "out", "out_grad"))
    is_flat = x.compare("equal", 0.0).with_("logical_and", y.compare("greater_equal", 0.0))
    grad = is_flat.choose(grad.filled(0.0), grad)
    return grad * out * is_flat.choose(x.filled(1.0), x).then("log")


def _set(b: BodyContext, slot: str, grad: Expression) -> None:
    inputs = {"x": grad.name, "like": b.input(slot)}
    b.emit("sum_like", inputs, {"out": b.outputs(f"{slot}_grad")})


POWER = Composition(_write)
