"""The digamma and polygamma functions and the inverse of erf, for float64 arrays."""

from __future__ import annotations

import math

import numpy as np

from opwright_std.numerics.dtypes import Array

SHIFT = 10
"""Smaller arguments are increased by this many steps of the recurrence."""

BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
"""B2, B4, ...: coefficients of the asymptotic series."""


def digamma(x: Array) -> Array:
    """Return the derivative of ln(gamma(x)): -inf at 0, inf at -0, NaN at negative integers."""
    with np.errstate(all="ignore"):
        is_low = x < 0.5
        whole = np.rint(x)
        turn = np.where(is_low, x - whole, 0.25)  # of the cotangent, whose period is 1
        y = np.where(is_low, 1 - x, x)
        moved = np.zeros_like(y)
        for _ in range(SHIFT):
            is_small = y < SHIFT
            moved = moved + np.where(is_small, 1 / y, 0)
            y = np.where(is_small, y + 1, y)
        square = 1 / (y * y)
        power = np.ones_like(y)
        series = -0.5 / y
        for k, number in enumerate(BERNOULLI, 1):
            power = power * square
            series = series - number / (2 * k) * power
        value = np.log(y) + series - moved
        value = np.where(is_low, value - math.pi / np.tan(math.pi * turn), value)
        value = np.where(x == 0, -np.copysign(np.inf, x), value)
        return np.asarray(np.where((x < 0) & (x == whole), np.nan, value))


def _whole_power(x: Array, exponent: int) -> Array:
    # Multiplies repeatedly, since the rounding of NumPy's power may depend on adjacent elements.
    power = np.ones_like(x)
    for _ in range(exponent):
        power = power * x
    return power


def polygamma(x: Array, n: int) -> Array:
    """Return the n-th derivative of digamma, n >= 1; it is infinite at integers <= 0.

    At -inf the derivative is NaN.

    The derivative is (-1)**(n + 1) * n! * zeta(n + 1, x), summed until the Euler-Maclaurin formula
    is accurate to all digits. Arguments below 1 / 2 use the reflection formula.
    """
    with np.errstate(all="ignore"):
        sign = 1.0 if n % 2 else -1.0
        total = np.zeros_like(x)
        is_low = x < 0.5
        y = np.where(is_low, 1 - x, x)
        for _ in range(SHIFT + n):
            total = total + _whole_power(1 / y, n + 1)
            y = y + 1
        power = _whole_power(1 / y, n)
        total = total + power / n + power / y / 2
        rising, power = n + 1.0, power / (y * y)
        for k, number in enumerate(BERNOULLI, 1):
            total = total + number / math.factorial(2 * k) * rising * power
            rising *= (n + 2 * k) * (n + 2 * k + 1)
            power = power / (y * y)
        value = sign * math.factorial(n) * total
        reflected = _reflect(x, n) + (1 if n % 2 == 0 else -1) * value
        value = np.where(is_low, reflected, value)
        return np.asarray(
            np.where(np.isfinite(x) & (x <= 0) & (x == np.rint(x)), sign * np.inf, value)
        )


def _reflect(x: Array, n: int) -> Array:
    """Return the n-th derivative of -pi * cot(pi * x), a polynomial of the cotangent."""
    cotangent = 1 / np.tan(math.pi * (x - np.rint(x)))
    coefficients = cotangent_derivative(n)
    value = np.zeros_like(x)
    for coefficient in reversed(coefficients):
        value = value * cotangent + coefficient
    return np.asarray(-(math.pi ** (n + 1)) * value)


def cotangent_derivative(n: int) -> list[float]:
    """Return coefficients, constant first, of the polynomial of cot that is its n-th derivative.

    The derivative of cot is -(1 + cot**2).
    """
    polynomial = [0.0, 1.0]
    for _ in range(n):
        derivatives = [k * c for k, c in enumerate(polynomial)][1:]
        polynomial = [0.0] * (len(derivatives) + 2)
        for k, derivative in enumerate(derivatives):
            polynomial[k] -= derivative
            polynomial[k + 2] -= derivative
    return polynomial


_MIDDLE = (
    (
        *(2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4),
        *(4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3),
        *(1.3314166789178437745e2, 3.3871328727963666080e0),
    ),
    (
        *(5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4),
        *(2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2),
        *(4.2313330701600911252e1, 1.0),
    ),
)
_TAIL = (
    (
        *(7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1),
        *(1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0),
        *(4.63033784615654529590e0, 1.42343711074968357734e0),
    ),
    (
        *(1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2),
        *(1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0),
        *(2.05319162663775882187e0, 1.0),
    ),
)
_FAR_TAIL = (
    (
        *(2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3),
        *(2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e0),
        *(5.46378491116411436990e0, 6.65790464350110377720e0),
    ),
    (
        *(2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5),
        *(7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1),
        *(5.99832206555887937690e-1, 1.0),
    ),
)


def _ratio(x: Array, polynomials: tuple[tuple[float, ...], tuple[float, ...]]) -> Array:
    above, below = (np.polyval(polynomial, x) for polynomial in polynomials)
    return np.asarray(above / below)


def erfinv(x: Array) -> Array:
    """Return the inverse of erf: infinite at -1 and 1, NaN beyond.

    Wichura, 1988: Algorithm AS 241, the inverse normal distribution at (1 + x) / 2.
    """
    with np.errstate(all="ignore"):
        half = x / 2
        middle = half * _ratio(0.180625 - half * half, _MIDDLE)
        root = np.sqrt(-np.log((1 - np.abs(x)) / 2))
        tail = np.where(root <= 5, _ratio(root - 1.6, _TAIL), _ratio(root - 5, _FAR_TAIL))
        quantile = np.where(np.abs(half) <= 0.425, middle, np.copysign(tail, x))
        quantile = np.where(np.abs(x) == 1, np.copysign(np.inf, x), quantile)
        return np.asarray(quantile * math.sqrt(0.5))
