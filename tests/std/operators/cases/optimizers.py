"""Test cases of the optimizers."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
from case import LENGTHS, Array, Case, Random, Source, Values

RATE = Values([0.1], "float32")


def sgd(param: Array, grad: Array, learning_rate: Array, weight_decay: float = 0.0) -> Array:
    return param - learning_rate[0] * (grad + weight_decay * param)


def momentum(
    param: Array,
    grad: Array,
    learning_rate: Array,
    velocity: Array,
    mu: float,
    nesterov: bool = False,
) -> tuple[Array, Array]:
    velocity = mu * velocity + grad
    step = grad + mu * velocity if nesterov else velocity
    return param - learning_rate[0] * step, velocity


def adamw(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    beta1_power: Array,
    beta2_power: Array,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.01,
) -> tuple[Array, ...]:
    """Algorithm 2 of Loshchilov and Hutter, line by line."""
    moment1 = beta1 * moment1 + (1 - beta1) * grad
    moment2 = beta2 * moment2 + (1 - beta2) * grad**2
    m, v = moment1 / (1 - beta1_power[0]), moment2 / (1 - beta2_power[0])
    param = param - learning_rate[0] * (m / (np.sqrt(v) + epsilon) + weight_decay * param)
    return param, moment1, moment2, beta1_power * beta1, beta2_power * beta2


def lion(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment: Array,
    beta1: float = 0.9,
    beta2: float = 0.99,
    weight_decay: float = 0.0,
) -> tuple[Array, Array]:
    direction = np.sign(beta1 * moment + (1 - beta1) * grad)
    moment = beta2 * moment + (1 - beta2) * grad
    return param - learning_rate[0] * (direction + weight_decay * param), moment


def adam(**inputs: Any) -> tuple[Array, ...]:
    return adamw(**inputs, weight_decay=0.0)


def adamax(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment: Array,
    infinity_norm: Array,
    beta1_power: Array,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
) -> tuple[Array, ...]:
    moment = beta1 * moment + (1 - beta1) * grad
    infinity_norm = np.maximum(beta2 * infinity_norm, np.abs(grad) + epsilon)
    param = param - learning_rate[0] / (1 - beta1_power[0]) * moment / infinity_norm
    return param, moment, infinity_norm, beta1_power * beta1


def rest_of_power(beta: float, step: float) -> Any:
    """Return 1 - beta**step, computed in decimal arithmetic."""
    with decimal.localcontext() as context:
        context.prec = 50
        return float(1 - decimal.Decimal(beta) ** int(step))


def nadam(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    step: Array,
    mu_product: Array,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    momentum_decay: float = 0.004,
) -> tuple[Array, ...]:
    mu, next_mu = (beta1 * (1 - 0.5 * 0.96 ** (t * momentum_decay)) for t in (step[0], step[0] + 1))
    product = mu_product * mu
    moment1 = beta1 * moment1 + (1 - beta1) * grad
    moment2 = beta2 * moment2 + (1 - beta2) * grad**2
    m = next_mu * moment1 / (1 - product[0] * next_mu) + (1 - mu) * grad / (1 - product[0])
    v = moment2 / rest_of_power(beta2, step[0])
    param = param - learning_rate[0] * m / (np.sqrt(v) + epsilon)
    return param, moment1, moment2, step + 1, product


def radam(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    step: Array,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
) -> tuple[Array, ...]:
    """Algorithm 2 of Liu et al., with epsilon added to the root as in PyTorch."""
    t = step[0]
    moment1 = beta1 * moment1 + (1 - beta1) * grad
    moment2 = beta2 * moment2 + (1 - beta2) * grad**2
    m = moment1 / (1 - beta1**t)
    longest = 2 / (1 - beta2) - 1
    rest = rest_of_power(beta2, t)
    length = longest - 2 * t * beta2**t / rest
    if length > 5:
        rectified = (length - 4) * (length - 2) * longest
        rectified /= (longest - 4) * (longest - 2) * length
        m = m * np.sqrt(rectified) * np.sqrt(rest) / (np.sqrt(moment2) + epsilon)
    return param - learning_rate[0] * m, moment1, moment2, step + 1


def lamb(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    beta1_power: Array,
    beta2_power: Array,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-6,
    weight_decay: float = 0.01,
) -> tuple[Array, ...]:
    moment1 = beta1 * moment1 + (1 - beta1) * grad
    moment2 = beta2 * moment2 + (1 - beta2) * grad**2
    m, v = moment1 / (1 - beta1_power[0]), moment2 / (1 - beta2_power[0])
    r = m / (np.sqrt(v) + epsilon) + weight_decay * param
    sizes = np.sqrt(np.sum(param**2)), np.sqrt(np.sum(r**2))
    trust = sizes[0] / sizes[1] if all(sizes) else 1.0
    param = param - learning_rate[0] * trust * r
    return param, moment1, moment2, beta1_power * beta1, beta2_power * beta2


def adagrad(
    param: Array, grad: Array, learning_rate: Array, squares: Array, epsilon: float = 1e-10
) -> tuple[Array, Array]:
    squares = squares + grad**2
    return param - learning_rate[0] * grad / (np.sqrt(squares) + epsilon), squares


def adadelta(
    param: Array,
    grad: Array,
    learning_rate: Array,
    mean_square: Array,
    mean_update: Array,
    rho: float = 0.9,
    epsilon: float = 1e-6,
) -> tuple[Array, ...]:
    mean_square = rho * mean_square + (1 - rho) * grad**2
    update = np.sqrt(mean_update + epsilon) / np.sqrt(mean_square + epsilon) * grad
    mean_update = rho * mean_update + (1 - rho) * update**2
    return param - learning_rate[0] * update, mean_square, mean_update


def rmsprop(
    param: Array,
    grad: Array,
    learning_rate: Array,
    mean_square: Array,
    mean_grad: Array | None = None,
    velocity: Array | None = None,
    rho: float = 0.99,
    epsilon: float = 1e-8,
    centered: bool = False,
    momentum: float = 0.0,
) -> tuple[Array | None, ...]:
    mean_square = variance = rho * mean_square + (1 - rho) * grad**2
    if mean_grad is not None:
        mean_grad = rho * mean_grad + (1 - rho) * grad
        variance = mean_square - mean_grad**2
    step = grad / (np.sqrt(variance) + epsilon)
    if velocity is not None:
        step = velocity = momentum * velocity + step
    return param - learning_rate[0] * step, mean_square, mean_grad, velocity


def proximal_gd(
    param: Array, grad: Array, learning_rate: Array, l1: float = 0.0, l2: float = 0.0
) -> Array:
    moved = param - learning_rate[0] * grad
    shrunk = np.sign(moved) * np.maximum(np.abs(moved) - learning_rate[0] * l1, 0)
    return shrunk / (1 + learning_rate[0] * l2)


def proximal_adagrad(
    param: Array,
    grad: Array,
    learning_rate: Array,
    squares: Array,
    l1: float = 0.0,
    l2: float = 0.0,
    epsilon: float = 1e-10,
) -> tuple[Array, Array]:
    squares = squares + grad**2
    rate = learning_rate[0] / (np.sqrt(squares) + epsilon)
    moved = param - rate * grad
    shrunk = np.sign(moved) * np.maximum(np.abs(moved) - rate * l1, 0)
    return shrunk / (1 + rate * l2), squares


def ftrl(
    param: Array,
    grad: Array,
    learning_rate: Array,
    squares: Array,
    linear: Array,
    l1: float = 0.0,
    l2: float = 0.0,
) -> tuple[Array, ...]:
    """Algorithm 1 of McMahan et al., for the sums before and after this gradient."""
    sigma = (np.sqrt(squares + grad**2) - np.sqrt(squares)) / learning_rate[0]
    squares = squares + grad**2
    linear = linear + grad - sigma * param
    next_param = (np.sign(linear) * l1 - linear) / (np.sqrt(squares) / learning_rate[0] + 2 * l2)
    return np.where(np.abs(linear) > l1, next_param, 0), squares, linear


POWERS: dict[str, Source] = {
    "beta1_power": Values([0.9**3], "float32"),
    "beta2_power": Values([0.999**3], "float64"),
}
MOMENTS = {"moment1": (-2.0, 2.0), "moment2": (0.0, 1.0)}
STATES: dict[str, dict[str, tuple[float, float] | Source]] = {
    "momentum": {"velocity": (-2.0, 2.0)},
    "lion": {"moment": (-2.0, 2.0)},
    "adam": {**MOMENTS, **POWERS},
    "adamw": {**MOMENTS, **POWERS},
    "lamb": {**MOMENTS, **POWERS},
    "adamax": {
        "moment": (-2.0, 2.0),
        "infinity_norm": (0.0, 1.0),
        "beta1_power": POWERS["beta1_power"],
    },
    "nadam": {
        **MOMENTS,
        "step": Values([3.0], "float32"),
        "mu_product": Values([0.25], "float64"),
    },
    "radam": {**MOMENTS, "step": Values([9.0], "float64")},
    "adagrad": {"squares": (0.0, 1.0)},
    "adadelta": {"mean_square": (0.0, 1.0), "mean_update": (0.0, 1.0)},
    "rmsprop": {"mean_square": (1.0, 2.0), "mean_grad": (-0.5, 0.5), "velocity": (-1.0, 1.0)},
    "proximal_adagrad": {"squares": (0.0, 1.0)},
    "ftrl": {"squares": (0.0, 1.0), "linear": (-2.0, 2.0)},
}
"""The range of each state, or its value."""
OPTIONAL = {"mean_grad": "centered", "velocity": "momentum"}
"""States of rmsprop, and the attributes that require them."""


def case(
    op: str,
    expected: Callable[..., Any],
    shape: tuple[int, ...],
    label: str,
    rate: Source = RATE,
    **attrs: Any,
) -> Case:
    inputs: dict[str, Source] = {
        "param": Random(shape),
        "grad": Random(shape),
        "learning_rate": rate,
    }
    for slot, state in STATES.get(op, {}).items():
        if op == "rmsprop" and not attrs.get(OPTIONAL.get(slot, ""), slot not in OPTIONAL):
            continue
        inputs[slot] = Random(shape, *state) if isinstance(state, tuple) else state
    return Case(op, inputs, expected, attrs, label=label, magnitude=4.0, ulps=ULPS.get(op, 8))


VARIANTS: tuple[tuple[str, Callable[..., Any], str, dict[str, Any]], ...] = (
    ("sgd", sgd, "plain", {}),
    ("sgd", sgd, "decay", {"weight_decay": 0.5}),
    ("momentum", momentum, "plain", {"mu": 0.9}),
    ("momentum", momentum, "nesterov", {"mu": 0.9, "nesterov": True}),
    ("adam", adam, "plain", {}),
    ("adam", adam, "betas", {"beta1": 0.5, "beta2": 0.5, "epsilon": 0.1}),
    ("adamw", adamw, "plain", {}),
    ("adamw", adamw, "decay", {"weight_decay": 0.5}),
    ("lion", lion, "plain", {}),
    ("lion", lion, "decay", {"beta1": 0.5, "beta2": 0.25, "weight_decay": 0.5}),
    ("adamax", adamax, "plain", {}),
    ("adamax", adamax, "betas", {"beta1": 0.5, "beta2": 0.5, "epsilon": 0.1}),
    ("nadam", nadam, "plain", {}),
    ("nadam", nadam, "decay", {"beta1": 0.5, "beta2": 0.75, "momentum_decay": 0.5}),
    ("radam", radam, "plain", {}),
    ("radam", radam, "first-steps", {"beta2": 0.75, "epsilon": 0.1}),
    ("radam", radam, "near-1", {"beta2": 1 - 1e-8}),
    ("nadam", nadam, "near-1", {"beta2": 1 - 1e-8}),
    ("lamb", lamb, "plain", {}),
    ("lamb", lamb, "decay", {"weight_decay": 0.5, "epsilon": 0.1}),
    ("adagrad", adagrad, "plain", {}),
    ("adagrad", adagrad, "epsilon", {"epsilon": 0.5}),
    ("adadelta", adadelta, "plain", {}),
    ("adadelta", adadelta, "rho", {"rho": 0.5, "epsilon": 0.1}),
    ("rmsprop", rmsprop, "plain", {}),
    ("rmsprop", rmsprop, "centered", {"centered": True, "rho": 0.9}),
    ("rmsprop", rmsprop, "momentum", {"momentum": 0.5, "epsilon": 0.1}),
    ("rmsprop", rmsprop, "both", {"momentum": 0.5, "centered": True}),
    ("proximal_gd", proximal_gd, "plain", {}),
    ("proximal_gd", proximal_gd, "penalties", {"l1": 5.0, "l2": 2.0}),
    ("proximal_adagrad", proximal_adagrad, "plain", {}),
    ("proximal_adagrad", proximal_adagrad, "penalties", {"l1": 5.0, "l2": 2.0, "epsilon": 0.1}),
    ("ftrl", ftrl, "plain", {}),
    ("ftrl", ftrl, "penalties", {"l1": 1.0, "l2": 2.0}),
)
ULPS = {"ftrl": 64, "adadelta": 16, "nadam": 16, "radam": 16, "lamb": 16}
"""Tolerances in ulp of optimizers that divide by numbers that can be small."""

CASES = (
    case("sgd", sgd, (3,), "wide-rate", Values([0.1], "float64")),
    *(
        case(op, expected, shape, "-".join(("x".join(map(str, shape)) or "scalar", name)), **attrs)
        for op, expected, name, attrs in VARIANTS
        for shape in ((), (3, 4), *((n,) for n in LENGTHS))
    ),
)
