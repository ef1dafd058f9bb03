"""Test cases of lgamma and its derivatives, and of functions related to erf."""

from __future__ import annotations

import math
from collections.abc import Callable

from case import WIDE, Array
from cases.gradient_formulas import far
from cases.unary import INF, NAN, each, few

POLES = [0.0, -0.0, -1.0, -2.0, INF, NAN]
TERMS = 1000
"""The number of terms that are summed; the rest is an integral with two corrections."""


def lgamma(x: float) -> float:
    return math.lgamma(x) if x > 0 or x % 1 else INF


def polygamma(x: float, n: int) -> float:
    """Return the sum over k of (-1)**(n + 1) n! / (x + k)**(n + 1); for n = 0, digamma(x)."""
    if x <= 0 and x % 1 == 0:
        return NAN if n == 0 and x < 0 else -INF if n % 2 == 0 else INF
    if x == INF or x != x:
        return x if n == 0 or x != x else 0.0
    y, s = x + TERMS, n + 1
    total = math.fsum((x + k) ** -s for k in range(TERMS))
    if n == 0:
        return math.log(y) - 0.5 / y - y**-2 / 12 + y**-4 / 120 - total
    rest = y ** (1 - s) / (s - 1) + y**-s / 2 + s * y ** (-s - 1) / 12
    rest -= s * (s + 1) * (s + 2) * y ** (-s - 3) / 720
    return (-1) ** (n + 1) * math.factorial(n) * (total + rest)


def digamma(x: float) -> float:
    return math.copysign(INF, -math.copysign(1, x)) if x == 0 else polygamma(x, 0)


def erfinv(x: float) -> float:
    """Invert erf by Newton's method, with erfc where that is more precise."""
    size = abs(x)
    if not size < 1:
        return math.copysign(INF, x) if size == 1 else NAN
    y = 0.0
    for _ in range(100):
        missing = size - math.erf(y) if y < 0.5 else math.erfc(y) - (1 - size)
        step = missing * math.sqrt(math.pi) / 2 * math.exp(y * y)
        y += min(step, 0.25)
    return math.copysign(y, x)


def half_turns(function: Callable[[float], float], x: float) -> float:
    """Return a trigonometric function of pi x; pi x is reduced to half a turn before rounding."""
    return (-1) ** (round(x) % 2) * function(math.pi * (x - round(x)))


def sinc(x: float) -> float:
    if not math.isfinite(x) or x == 0:
        return 1.0 if x == 0 else NAN
    return half_turns(math.sin, x) / (math.pi * x)


def sinc_derivative(x: float) -> float:
    if abs(x) > 0.3:
        return (half_turns(math.cos, x) - sinc(x)) / x
    terms = ((-1) ** k * 2 * k * math.pi ** (2 * k) * x ** (2 * k - 1) for k in range(1, 15))
    return math.fsum(t / math.factorial(2 * k + 1) for k, t in enumerate(terms, 1))


def orders(x: Array, n: int) -> Array:
    return each(lambda v: polygamma(v, n) if n else digamma(v))(x)


def density(x: float) -> float:
    return 2 / math.sqrt(math.pi) * math.exp(-x * x)


LEFT = {"low": -3.5, "high": 4.0, "avoid": (0.0, -1.0, -2.0, -3.0), "gap": 0.2}
NUMBERS = [0.05, 0.7, 1.0, 1.4616321, 2.0, 3.3, 9.0, 30.0, -0.6, -4.4]

CASES = (
    *few("lgamma", each(lgamma), [*POLES, *NUMBERS], ulps=8, magnitude=1.0, **LEFT),
    *few("digamma", each(digamma), [*POLES, *NUMBERS], ulps=8, magnitude=4.0, **LEFT),
    *(
        case
        for n in (0, 1, 2, 5)
        for case in few(
            "polygamma",
            orders,
            [INF, NAN, *NUMBERS],
            attrs={"n": n},
            label=str(n),
            ulps=16,
            magnitude=4.0,
            low=0.3,
            high=3.0,
            no_half_grad="near 0.3 its derivative overflows in float16" if n == 5 else "",
        )
    ),
    *few("erfc", each(math.erfc), [0.0, INF, -INF, NAN, 5.0, 9.0, -3.0], ulps=8),
    *few(
        "erfinv",
        each(erfinv),
        [0.0, -0.0, 1.0, -1.0, 1.5, NAN, 1e-5, 0.9, 0.999, -0.99999],
        ulps=6,
        low=-0.97,
        high=0.97,
    ),
    *few("sinc", each(sinc), [0.0, -0.0, 0.5, NAN, 1e-5, 7.5], magnitude=1.0),
    far("sinc", sinc_derivative, [0.0, 1e-4, -0.1, 0.3, 0.6, -1.25], dtypes=WIDE, ulps=16),
    far("erfc", lambda x: -density(x), [-3.0, 0.0, 1e-5, 2.0, 5.0], dtypes=WIDE, ulps=32),
    far("lgamma", digamma, [0.1, 0.9, 4.0, 1e5], dtypes=WIDE, ulps=8),
    far("digamma", lambda x: polygamma(x, 1), [-0.5, 0.1, 0.9, 4.0], dtypes=WIDE, ulps=8),
)
