"""Computes NAdam and RAdam with 50 digits for betas near 1, where PyTorch steps are inexact."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from typing import Any

import numpy as np
import numpy.typing as npt
from torch_operators.convert import require

Array = npt.NDArray[Any]
EXACT = Context(prec=50, traps=[])
_decimals = np.frompyfunc(Decimal, 1, 1)


def _exact(array: Array) -> Array:
    return np.asarray(_decimals(array.astype(object)), dtype=object)


def _moments(
    grad: Array, moments: tuple[Array, Array], step: Array, betas: tuple[float, float]
) -> tuple[Array, Array, tuple[Decimal, Decimal], Decimal]:
    """Return the next moments, the betas and the step."""
    require(grad.size > 0 and step.item() >= 1, "a step without a number")
    beta1, beta2 = map(Decimal, betas)
    first = beta1 * _exact(moments[0]) + (1 - beta1) * _exact(grad)
    second = beta2 * _exact(moments[1]) + (1 - beta2) * _exact(grad) ** 2
    return first, second, (beta1, beta2), Decimal(step.item())


def _rounded(param: Array, change: Array, *moments: Array) -> tuple[Array, ...]:
    arrays = (_exact(param) - change, *moments)
    return tuple(np.asarray(array, dtype=object).astype(np.float64) for array in arrays)


def nadam(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    step: Array,
    mu_product: Array,
    beta1: float,
    beta2: float,
    epsilon: float,
    momentum_decay: float,
) -> tuple[Array, ...]:
    with localcontext(EXACT):
        first, second, betas, number = _moments(grad, (moment1, moment2), step, (beta1, beta2))
        mu, next_mu = (
            betas[0] * (1 - Decimal("0.5") * Decimal("0.96") ** (n * Decimal(momentum_decay)))
            for n in (number, number + 1)
        )
        product = Decimal(mu_product.item()) * mu
        moved = next_mu * first / (1 - product * next_mu)
        moved = moved + (1 - mu) * _exact(grad) / (1 - product)
        size = np.sqrt(second / (1 - betas[1] ** number)) + Decimal(epsilon)
        rate = Decimal(learning_rate.item())
        return _rounded(param, rate * moved / size, first, second)


def radam(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    step: Array,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> tuple[Array, ...]:
    with localcontext(EXACT):
        first, second, betas, number = _moments(grad, (moment1, moment2), step, (beta1, beta2))
        rest = 1 - betas[1] ** number
        longest = 2 / (1 - betas[1]) - 1
        length = longest - 2 * number * (1 - rest) / rest
        change = Decimal(learning_rate.item()) * first / (1 - betas[0] ** number)
        if length > 5:
            rectified = (length - 4) * (length - 2) * longest
            full = (longest - 4) * (longest - 2) * length
            size = np.sqrt(second) + Decimal(epsilon)
            change = change * (rectified / full * rest).sqrt() / size
        return _rounded(param, change, first, second)
