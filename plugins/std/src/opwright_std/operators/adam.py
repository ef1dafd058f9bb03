"""Adam, and Adam with decoupled weight decay; for variants see adam_variants.py."""

from __future__ import annotations

import math

import numpy as np

from opwright.op import OpMaker
from opwright_std.numerics.dtypes import Array
from opwright_std.operators.optimizers import (
    NO_GRADIENT,
    add_bounds,
    add_shares,
    apply_step,
    move_average,
    optimizer,
    update_shape,
)


def adam(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    beta1_power: Array,
    beta2_power: Array,
    param_out: Array,
    moment1_out: Array,
    moment2_out: Array,
    beta1_power_out: Array,
    beta2_power_out: Array,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    **decay: float,
) -> None:
    rate, power1, power2 = float(learning_rate[0]), float(beta1_power[0]), float(beta2_power[0])
    moments, moved = (moment1, moment2), (moment1_out, moment2_out)
    work = move_moments(grad, moments, moved, (beta1, beta2))  # the one temporary array
    # Both bias corrections are hoisted out of the loop over the elements.
    correction = math.sqrt(1 - power2) if power2 <= 1 else math.nan
    np.sqrt(moment2_out, out=work)
    work += epsilon * correction
    np.divide(moment1_out, work, out=work)
    work *= float(np.divide(rate * correction, 1 - power1))  # infinite for beta power 1
    apply_step(param, work, 1 - rate * decay.get("weight_decay", 0.0), param_out)
    np.multiply(beta1_power, beta1, out=beta1_power_out)
    np.multiply(beta2_power, beta2, out=beta2_power_out)


def move_moments(
    grad: Array, moments: tuple[Array, Array], moved: tuple[Array, Array], betas: tuple[float, ...]
) -> Array:
    """Write both running moments of Adam; return a scratch array of the gradient's shape."""
    work = np.asarray(grad * (1 - betas[0]))
    move_average(moments[0], betas[0], work, moved[0])
    np.square(grad, out=work)
    work *= 1 - betas[1]
    move_average(moments[1], betas[1], work, moved[1])
    return work


adamw = adam  # has one more attribute


POWERS = ("beta1_power", "beta2_power")


def adam_like(op_type: str, comment: str, *state: str, epsilon: float = 1e-8) -> OpMaker:
    """Start the definition of an optimizer with the attributes beta1, beta2 and epsilon."""
    return add_betas(optimizer(op_type, comment, *state), epsilon)


def add_betas(maker: OpMaker, epsilon: float = 1e-8) -> OpMaker:
    """Add the attributes beta1, beta2 and epsilon."""
    add_shares(
        maker,
        beta1=(0.9, "decay rate of the first moment"),
        beta2=(0.999, "decay rate of the second moment"),
    )
    return add_bounds(maker, epsilon=(epsilon, "added to the root of the second moment"))


MOMENTS = (
    "moment1_out = beta1 * moment1 + (1 - beta1) * grad, moment2_out = beta2 * moment2 + "
    "(1 - beta2) * grad**2, "
)
CORRECTED = "m = moment1_out / (1 - beta1_power), v = moment2_out / (1 - beta2_power), "
NEXT_POWERS = ", beta1_power_out = beta1_power * beta1, beta2_power_out = beta2_power * beta2. "

ADAM = adam_like(
    "adam",
    f"Adam, {MOMENTS}{CORRECTED}param_out = param - learning_rate * m / (sqrt(v) + epsilon)"
    f"{NEXT_POWERS}Kingma and Ba, 2014.",
    "moment1",
    "moment2",
    *POWERS,
).build(infer_shape=update_shape("moment1", "moment2", *POWERS), gradient=NO_GRADIENT)

ADAMW = (
    adam_like(
        "adamw",
        f"Adam with decoupled weight decay, {MOMENTS}{CORRECTED}param_out = param - learning_rate "
        f"* (m / (sqrt(v) + epsilon) + weight_decay * param){NEXT_POWERS}Loshchilov and Hutter, "
        "2017.",
        "moment1",
        "moment2",
        *POWERS,
    )
    .add_attr("weight_decay", float, "fraction of the parameter subtracted by a step of size 1")
    .default(0.01)
    .at_least(0.0)
    .build(infer_shape=update_shape("moment1", "moment2", *POWERS), gradient=NO_GRADIENT)
)
