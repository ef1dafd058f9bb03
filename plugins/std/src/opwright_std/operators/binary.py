"""Element-wise functions of two inputs that broadcast as in NumPy."""

from __future__ import annotations

import numpy as np

from opwright.op import (
    BodyContext,
    GradientContext,
    OpDefinition,
    OpMaker,
    elementwise_shape,
    grad_op,
)
from opwright_std.compositions import power as power_gradients
from opwright_std.compositions.chain_rules import broadcast_rule, set_broadcast_grad
from opwright_std.compositions.expression import read, result
from opwright_std.compositions.fractions import function
from opwright_std.numerics.dtypes import NUMBERS, ORDERED, Array
from opwright_std.operators.reduction import known_meta
from opwright_std.operators.sum_like import sum_to


def binary(op_type: str, comment: str, dtypes: tuple[str, ...] = NUMBERS) -> OpMaker:
    """Start the definition of an element-wise ``x, y -> out`` of one dtype."""
    return (
        OpMaker(op_type)
        .add_comment(comment)
        .add_input("x", "any shape that broadcasts with y")
        .dtypes(*dtypes)
        .add_input("y", "any shape that broadcasts with x")
        .same_dtype_as("x")
        .add_output("out", "the broadcast shape, dtype of x")
        .same_dtype_as("x")
    )


ADD = binary("add", "Sum, out = x + y; for bool, x or y.", ORDERED).build(
    infer_shape=elementwise_shape("x", "y"),
    gradient=broadcast_rule(x=lambda grad, g: grad, y=lambda grad, g: grad),
)


SUBTRACT = binary("subtract", "Difference, out = x - y.").build(
    infer_shape=elementwise_shape("x", "y"),
    gradient=broadcast_rule(x=lambda grad, g: grad, y=lambda grad, g: -grad),
)


MULTIPLY = binary("multiply", "Product, out = x * y; for bool, x and y.", ORDERED).build(
    infer_shape=elementwise_shape("x", "y"),
    gradient=broadcast_rule(
        x=lambda grad, g: grad * read(g, "y"), y=lambda grad, g: grad * read(g, "x")
    ),
)


DIVIDE = function(
    "divide",
    "Quotient, out = x / y: infinite or NaN where y is 0.",
    broadcast_rule(
        x=lambda grad, g: grad / read(g, "y"),
        # x / y**2 may overflow or underflow even if its product with grad does not, so grad is
        # multiplied by out = x / y first.
        y=lambda grad, g: -(grad * result(g) / read(g, "y")),
    ),
    "x",
    "y",
)


def squared_difference(x: Array, y: Array, out: Array) -> None:
    np.subtract(x, y, out=out)
    np.square(out, out=out)


def _squared_difference_gradient(g: GradientContext) -> None:
    difference = g.emit("subtract", {"x": g.input("x"), "y": g.input("y")})
    double = g.emit("scale", {"x": difference}, attrs={"scale": 2.0, "bias": 0.0})
    grad = g.emit("multiply", {"x": g.output_grad("out"), "y": double})
    if g.wants("x"):
        set_broadcast_grad(g, "x", grad, ["y"])
    if g.wants("y"):
        set_broadcast_grad(g, "y", g.emit("negative", {"x": grad}), ["x"])


SQUARED_DIFFERENCE = binary("squared_difference", "Squared distance, out = (x - y)**2.").build(
    infer_shape=elementwise_shape("x", "y"), gradient=_squared_difference_gradient
)


def power_grad(
    x: Array,
    y: Array,
    out: Array,
    out_grad: Array,
    x_grad: Array | None,
    y_grad: Array | None,
) -> None:
    if x_grad is not None:
        # y * x**(y - 1), and 0 for the constant x**0 even where x is 0.
        constant = y == 0
        grad = np.asarray(_times_power(y * out_grad, x, np.where(constant, 1, y - 1)))
        # If x**y is NaN the derivative is too, though y - 1 may round to an integer.
        np.copyto(grad, np.nan, where=np.isnan(out))
        np.copyto(grad, 0, where=constant)
        sum_to(grad, x_grad)
    if y_grad is not None:
        # x**y * ln(x), and 0 where x is 0, its limit for every y above 0.
        flat = (x == 0) & (y >= 0)
        grad = np.asarray(out_grad * out * np.log(np.where(flat, 1, x)))
        np.copyto(grad, 0, where=flat)
        sum_to(grad, y_grad)


def _times_power(factor: Array, x: Array, exponent: Array) -> Array:
    """Return factor * x**exponent, even if the power alone overflows or underflows."""
    power = np.asarray(np.power(x, exponent))
    info = np.finfo(power.dtype)
    size = np.abs(power)
    extreme = ((size < info.tiny) | (size > info.max)) & (x != 0) & np.isfinite(x)
    if not extreme.any():
        return np.asarray(factor * power)
    root = np.power(np.abs(x), exponent / 2)
    with_sign = np.where(np.signbit(power), -factor, factor)
    return np.asarray(np.where(extreme, with_sign * root * root, factor * power))


POWER = binary(
    "power",
    "Power, out = x**y: NaN where x is negative and y is not an integer. The gradient of "
    "x is y * x**(y - 1), and the gradient of y is out * ln(x), or 0 where x is 0. With "
    "integers, y must not be negative.",
).build(
    infer_shape=elementwise_shape("x", "y"),
    gradient=grad_op("power_grad", needs=["x", "y", "out"], body=power_gradients.POWER),
)


def _pick_gradient(g: GradientContext) -> None:
    # The selected input receives the whole gradient. If both are equal or NaN, x is selected.
    grad, x = g.output_grad("out"), g.input("x")
    comparison = "greater_equal" if g.type == "maximum" else "less_equal"
    ahead = g.emit(comparison, {"x": x, "y": g.input("y")})
    undefined = g.emit("not_equal", {"x": x, "y": x})
    picked = g.emit("logical_or", {"x": ahead, "y": undefined})
    zero = g.emit("fill_like", {"x": grad}, attrs={"value": 0.0})
    for slot, other, first, second in (("x", "y", grad, zero), ("y", "x", zero, grad)):
        if g.wants(slot):
            part = g.emit("where", {"condition": picked, "x": first, "y": second})
            set_broadcast_grad(g, slot, part, [other])


MAXIMUM = binary(
    "maximum",
    "The larger of x and y, NaN if either is NaN. The selected input, even a NaN, "
    "receives the whole gradient; if both are equal or NaN, x is selected.",
    ORDERED,
).build(infer_shape=elementwise_shape("x", "y"), gradient=_pick_gradient)

MINIMUM = binary(
    "minimum",
    "The smaller of x and y, NaN if either is NaN. The selected input, even a NaN, "
    "receives the whole gradient; if both are equal or NaN, x is selected.",
    ORDERED,
).build(infer_shape=elementwise_shape("x", "y"), gradient=_pick_gradient)


def _number_before_nan(op_type: str, comparison: str, comment: str) -> OpDefinition:
    def body(b: BodyContext) -> None:
        x, y = read(b, "x"), read(b, "y")
        takes_x = x.with_(comparison, y).with_("logical_or", y.then("isnan"))
        b.set_output("out", takes_x.choose(x, y).name)

    return binary(
        op_type,
        f"{comment} of x and y, ignoring a NaN in one of them. The selected input receives the "
        f"gradient; x if both are equal.",
        ORDERED,
    ).build(infer_shape=elementwise_shape("x", "y"), body=body)


FMAX = _number_before_nan("fmax", "greater_equal", "The larger")
FMIN = _number_before_nan("fmin", "less_equal", "The smaller")


def _heaviside_body(b: BodyContext) -> None:
    x = read(b, "x")
    if known_meta(b).dtype == "bool":
        b.set_output("out", x.with_("logical_or", read(b, "y")).name)
        return
    step = x.then("sign").then("clip", min=0.0, max=1.0)
    b.set_output("out", x.compare("equal", 0).choose(read(b, "y"), step).name)


HEAVISIDE = binary(
    "heaviside",
    "Step, out = 0 where x is below 0, y where it is 0, 1 above, NaN for NaN, as numpy.heaviside. "
    "The gradient of x is 0, that of y is 1 where x is 0.",
    ORDERED,
).build(infer_shape=elementwise_shape("x", "y"), body=_heaviside_body)
