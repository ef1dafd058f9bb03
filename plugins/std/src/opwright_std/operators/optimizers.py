"""The optimizers sgd, momentum and lion, and code that all optimizers share.

New states overwrite the old states in place. Learning rate and powers are tensors of one element,
so they can change between runs without a new plan.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opwright.op import InferContext, OpMaker, format_shape, no_gradient, shapes_match
from opwright_std.numerics.dtypes import FLOATS, Array

NO_GRADIENT = no_gradient("an update ends a training step, without a gradient")
SCALARS = {
    "beta1_power": "[1], beta1 to the power of this step's number, initially beta1; float64 for "
    "an accurate 1 - beta near 1",
    "beta2_power": "[1], beta2 to the power of this step's number, initially beta2; float64 for "
    "an accurate 1 - beta near 1",
    "step": "[1], number of this step, initially 1; float32 counts up to 2**24",
    "mu_product": "[1], product of the factors mu of all previous steps, initially 1",
}
"""Scalar states, one per parameter."""


def optimizer(op_type: str, comment: str, *state: str, optional: tuple[str, ...] = ()) -> OpMaker:
    """Start the definition of an optimizer with param, grad, learning_rate and the slots `state`.

    `optional` states come last; their inputs and outputs may be absent.
    """
    maker = OpMaker(op_type).add_comment(comment)
    maker.add_input("param", "parameter of any shape, float").dtypes(*FLOATS)
    maker.add_input("grad", "its gradient, shape and dtype of param").same_dtype_as("param")
    return add_states(maker, *state, optional=optional)


def add_states(maker: OpMaker, *state: str, optional: tuple[str, ...] = ()) -> OpMaker:
    """Add the learning rate, the states, and the updated tensors as outputs."""
    maker.add_input("learning_rate", "[1], size of the step").dtypes("float32", "float64")
    for slot in state:
        if slot in SCALARS:
            maker.add_input(slot, SCALARS[slot]).dtypes("float32", "float64")
        else:
            maker.add_input(slot, "shape and dtype of param, initially 0").same_dtype_as("param")
    for slot in optional:
        maker.add_input(slot, "shape and dtype of param, initially 0").same_dtype_as("param")
        maker.as_optional()
    for slot in ("param", *state, *optional):
        maker.add_output(f"{slot}_out", f"the next {slot}").same_dtype_as(slot).aliases(slot)
        if slot in optional:
            maker.as_optional()
    return maker


def update_shape(*state: str, grad: bool = True) -> Callable[[InferContext], None]:
    """Return the shape rule of an optimizer with these states, some of them optional.

    If `grad` is false, the operator does not have the slot `grad`.
    """

    def infer_shape(ctx: InferContext) -> None:
        """Outputs have the shapes of their inputs; grad and states are shaped like param."""
        shape = ctx.input("param").shape
        scalars = ("learning_rate", *SCALARS)
        present = [slot for slot in state if ctx.inputs(slot)]
        for slot in (*(("grad",) if grad else ()), "learning_rate", *present):
            got, wanted = ctx.input(slot).shape, (1,) if slot in scalars else shape
            if not shapes_match(got, wanted):
                shapes = f"{format_shape(wanted)}, got {format_shape(got)}"
                ctx.fail(f"{slot} must have the shape {shapes}")
        for slot in ("param", *present):
            ctx.set_output(f"{slot}_out", (1,) if slot in scalars else shape)

    return infer_shape


def apply_step(param: Array, step: Array, keep: float, param_out: Array) -> None:
    """Write keep * param - step; `param_out` may be `param`."""
    if keep == 1:
        np.subtract(param, step, out=param_out)
    else:
        np.multiply(param, keep, out=param_out)
        param_out -= step


def move_average(average: Array, share: float, change: Array, average_out: Array) -> None:
    """Write decay * average + change; `average_out` may be `average`."""
    np.multiply(average, share, out=average_out)
    average_out += change


def add_shares(maker: OpMaker, **shares: tuple[float, str]) -> OpMaker:
    """Add attributes in [0, 1), each with its default and its comment."""
    for name, (default, comment) in shares.items():
        maker.add_attr(name, float, comment).default(default).at_least(0.0).less_than(1.0)
    return maker


def add_bounds(maker: OpMaker, **bounds: tuple[float, str]) -> OpMaker:
    """Add attributes of at least 0, each with its default and its comment."""
    for name, (default, comment) in bounds.items():
        maker.add_attr(name, float, comment).default(default).at_least(0.0)
    return maker


def sgd(
    param: Array, grad: Array, learning_rate: Array, param_out: Array, *, weight_decay: float
) -> None:
    rate = float(learning_rate[0])
    apply_step(param, grad * rate, 1 - rate * weight_decay, param_out)


SGD = (
    optimizer(
        "sgd",
        "Gradient descent, param_out = param - learning_rate * (grad + weight_decay * param).",
    )
    .add_attr("weight_decay", float, "multiple of the parameter added to its gradient")
    .default(0.0)
    .at_least(0.0)
    .build(infer_shape=update_shape(), gradient=NO_GRADIENT)
)


def momentum(
    param: Array,
    grad: Array,
    learning_rate: Array,
    velocity: Array,
    param_out: Array,
    velocity_out: Array,
    *,
    mu: float,
    nesterov: bool,
) -> None:
    np.multiply(velocity, mu, out=velocity_out)
    velocity_out += grad
    rate = float(learning_rate[0])
    if nesterov:
        step = velocity_out * mu
        step += grad
        step *= rate
    else:
        step = velocity_out * rate
    apply_step(param, step, 1, param_out)


def add_momentum(maker: OpMaker) -> OpMaker:
    """Add the attributes mu and nesterov."""
    maker.add_attr("mu", float, "decay rate of the velocity").required().at_least(0.0)
    return maker.add_attr("nesterov", bool, "whether to use Nesterov's look-ahead").default(False)


MOMENTUM = add_momentum(
    optimizer(
        "momentum",
        "Gradient descent with momentum, velocity_out = mu * velocity + grad, param_out = param - "
        "learning_rate * velocity_out; with nesterov param - learning_rate * (grad + mu * "
        "velocity_out). Polyak, 1964; Sutskever et al., 2013.",
        "velocity",
    )
).build(infer_shape=update_shape("velocity"), gradient=NO_GRADIENT)


def lion(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment: Array,
    param_out: Array,
    moment_out: Array,
    *,
    beta1: float,
    beta2: float,
    weight_decay: float,
) -> None:
    rate = float(learning_rate[0])
    step = np.asarray(moment * beta1)
    step += grad * (1 - beta1)
    np.sign(step, out=step)
    step *= rate
    move_average(moment, beta2, grad * (1 - beta2), moment_out)
    apply_step(param, step, 1 - rate * weight_decay, param_out)


LION = (
    add_shares(
        optimizer(
            "lion",
            "Steps of equal size, param_out = param - learning_rate * (sign(beta1 * moment + "
            "(1 - beta1) * grad) + weight_decay * param), moment_out = beta2 * moment + "
            "(1 - beta2) * grad. Chen et al., 2023.",
            "moment",
        ),
        beta1=(0.9, "weight of the moment in the direction of this step"),
        beta2=(0.99, "decay rate of the moment"),
    )
    .add_attr("weight_decay", float, "fraction of the parameter subtracted by a step of size 1")
    .default(0.0)
    .at_least(0.0)
    .build(infer_shape=update_shape("moment"), gradient=NO_GRADIENT)
)
