"""Variants of Adam: adamax, nadam, radam and lamb."""

from __future__ import annotations

import math

import numpy as np

from opwright_std.numerics.dtypes import Array
from opwright_std.operators.adam import (
    CORRECTED,
    MOMENTS,
    NEXT_POWERS,
    POWERS,
    adam_like,
    move_moments,
)
from opwright_std.operators.optimizers import (
    NO_GRADIENT,
    add_bounds,
    apply_step,
    move_average,
    update_shape,
)

STEP = "step_out = step + 1. "


def _rest_of_power(beta: float, number: float) -> float:
    """Return 1 - beta**number without cancellation for beta near 1."""
    return -math.expm1(number * math.log(beta)) if beta > 0 else 1.0


def adamax(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment: Array,
    infinity_norm: Array,
    beta1_power: Array,
    param_out: Array,
    moment_out: Array,
    infinity_norm_out: Array,
    beta1_power_out: Array,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> None:
    rate = float(np.divide(float(learning_rate[0]), 1 - float(beta1_power[0])))
    move_average(moment, beta1, grad * (1 - beta1), moment_out)
    np.multiply(infinity_norm, beta2, out=infinity_norm_out)
    np.maximum(infinity_norm_out, np.abs(grad) + epsilon, out=infinity_norm_out)
    step = moment_out / infinity_norm_out
    step *= rate
    apply_step(param, step, 1, param_out)
    np.multiply(beta1_power, beta1, out=beta1_power_out)


ADAMAX = adam_like(
    "adamax",
    "Adam with the infinity norm, moment_out = beta1 * moment + (1 - beta1) * grad, "
    "infinity_norm_out = max(beta2 * infinity_norm, |grad| + epsilon), param_out = param - "
    "learning_rate / (1 - beta1_power) * moment_out / infinity_norm_out, beta1_power_out = "
    "beta1_power * beta1. Kingma and Ba, 2014.",
    "moment",
    "infinity_norm",
    "beta1_power",
).build(infer_shape=update_shape("moment", "infinity_norm", "beta1_power"), gradient=NO_GRADIENT)


def nadam(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    step: Array,
    mu_product: Array,
    param_out: Array,
    moment1_out: Array,
    moment2_out: Array,
    step_out: Array,
    mu_product_out: Array,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
    momentum_decay: float,
) -> None:
    rate, number, product = float(learning_rate[0]), float(step[0]), float(mu_product[0])
    mu = beta1 * (1 - 0.5 * 0.96 ** (number * momentum_decay))
    next_mu = beta1 * (1 - 0.5 * 0.96 ** ((number + 1) * momentum_decay))
    correction = math.sqrt(max(_rest_of_power(beta2, number), 0.0))
    product *= mu
    move_moments(grad, (moment1, moment2), (moment1_out, moment2_out), (beta1, beta2))
    change = grad * float(np.divide(rate * correction * (1 - mu), 1 - product))
    change += moment1_out * float(np.divide(rate * correction * next_mu, 1 - product * next_mu))
    work = np.sqrt(moment2_out)
    work += epsilon * correction
    change /= work
    apply_step(param, change, 1, param_out)
    np.multiply(mu_product, mu, out=mu_product_out)
    np.add(step, 1, out=step_out)


NADAM = add_bounds(
    adam_like(
        "nadam",
        f"Adam with Nesterov's momentum, {MOMENTS}mu = beta1 * (1 - 0.5 * 0.96**(step * "
        "momentum_decay)), next_mu = beta1 * (1 - 0.5 * 0.96**((step + 1) * momentum_decay)), "
        "mu_product_out = mu_product * mu, m = next_mu * moment1_out / (1 - mu_product_out * "
        "next_mu) + (1 - mu) * grad / (1 - mu_product_out), v = moment2_out / (1 - beta2**step), "
        f"param_out = param - learning_rate * m / (sqrt(v) + epsilon), {STEP}Dozat, 2016.",
        "moment1",
        "moment2",
        "step",
        "mu_product",
    ),
    momentum_decay=(0.004, "how fast mu rises from beta1 / 2 to beta1"),
).build(infer_shape=update_shape("moment1", "moment2", "step", "mu_product"), gradient=NO_GRADIENT)


def radam(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    step: Array,
    param_out: Array,
    moment1_out: Array,
    moment2_out: Array,
    step_out: Array,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> None:
    rate, number = float(learning_rate[0]), float(step[0])
    move_moments(grad, (moment1, moment2), (moment1_out, moment2_out), (beta1, beta2))
    rest = _rest_of_power(beta2, number)
    rate = float(np.divide(rate, _rest_of_power(beta1, number)))
    longest = 2 / (1 - beta2) - 1
    length = longest - float(np.divide(2 * number * (1 - rest), rest))
    change = moment1_out.copy()
    if not length <= 5:  # propagates NaN
        rectified = (length - 4) * (length - 2) * longest
        rate *= math.sqrt(rectified / ((longest - 4) * (longest - 2) * length) * rest)
        work = np.sqrt(moment2_out)
        work += epsilon
        change /= work
    change *= rate
    apply_step(param, change, 1, param_out)
    np.add(step, 1, out=step_out)


RADAM = adam_like(
    "radam",
    f"Rectified Adam, {MOMENTS}longest = 2 / (1 - beta2) - 1, length = longest - 2 * step * "
    "beta2**step / (1 - beta2**step), m = moment1_out / (1 - beta1**step). Where length > 5, "
    "param_out = param - learning_rate * m * sqrt((length - 4) * (length - 2) * longest / "
    "((longest - 4) * (longest - 2) * length)) * sqrt(1 - beta2**step) / (sqrt(moment2_out) + "
    f"epsilon), otherwise param_out = param - learning_rate * m, {STEP}Liu et al., 2019.",
    "moment1",
    "moment2",
    "step",
).build(infer_shape=update_shape("moment1", "moment2", "step"), gradient=NO_GRADIENT)


def lamb(
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
    weight_decay: float,
) -> None:
    rate, power1, power2 = float(learning_rate[0]), float(beta1_power[0]), float(beta2_power[0])
    move_moments(grad, (moment1, moment2), (moment1_out, moment2_out), (beta1, beta2))
    correction = math.sqrt(1 - power2) if power2 <= 1 else math.nan
    work = np.asarray(np.sqrt(moment2_out))
    work += epsilon * correction
    np.divide(moment1_out, work, out=work)
    work *= float(np.divide(correction, 1 - power1))
    work += param * weight_decay
    sizes = [math.sqrt(np.sum(np.square(each, dtype=np.float64))) for each in (param, work)]
    work *= rate * (sizes[0] / sizes[1] if sizes[0] != 0 and sizes[1] != 0 else 1.0)
    apply_step(param, work, 1, param_out)
    np.multiply(beta1_power, beta1, out=beta1_power_out)
    np.multiply(beta2_power, beta2, out=beta2_power_out)


LAMB = add_bounds(
    adam_like(
        "lamb",
        f"Adam with steps scaled to the norm of the parameter, {MOMENTS}{CORRECTED}r = m / "
        "(sqrt(v) + epsilon) + weight_decay * param, param_out = param - learning_rate * |param| / "
        f"|r| * r{NEXT_POWERS}The factor |param| / |r| is 1 if either norm is 0. "
        "You et al., 2019.",
        "moment1",
        "moment2",
        *POWERS,
        epsilon=1e-6,
    ),
    weight_decay=(0.01, "factor of the parameter in the direction of the step"),
).build(infer_shape=update_shape("moment1", "moment2", *POWERS), gradient=NO_GRADIENT)
