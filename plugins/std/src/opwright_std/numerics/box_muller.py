"""Standard normal numbers from random words, with identical rounding on every device.

G. E. P. Box, M. E. Muller, "A note on the generation of random normal deviates", 1958. The
logarithm, sine and cosine are polynomials, since libraries differ in the last bit.
The other operations, ``+ - * / sqrt`` and conversions, are correctly rounded by IEEE 754, provided
that products and sums are not contracted (``-ffp-contract=off``, ``-fmad=false``). T is float32 for
float32 and the 16-bit types (rounded once at the store), float64 for float64; W is 32 or 64; every
constant is a double, rounded to T.

Numbers ``2j`` and ``2j + 1`` are computed from the words ``a = word[2j]``, ``b = word[2j + 1]`` of
W bits:

1. ``u = (T(a) + 0.5) * 2^-32`` (float32), ``u = (T(a >> 11) + 0.5) * 2^-53`` (float64).
2. ``u = m * 2^e`` with m in [1/2, 1); where ``m < T(sqrt(1/2))``: ``m = 2m, e = e - 1``.
3. ``s = (m - 1) / (m + 1)``, ``z = s * s``, ``ln u = e * T(ln 2) + 2 * s * P(z)``, where P has the
   coefficients ``1, 1/3, 1/5, ...``; all polynomials by Horner, from the highest power down.
4. ``r = sqrt(-2 * ln u)``.
5. q is the upper two bits of b. f is its next 30 bits minus 2^29 (float32) or its next 53 bits
   minus 2^52 (float64). ``t = (T(f) * 2^-29) * T(pi / 4)`` or ``(T(f) * 2^-52) * T(pi / 4)``.
6. ``z = t * t``, ``sine = t * S(z)``, ``cosine = C(z)`` with the coefficients of the Taylor series.
7. Rotate the pair by q quarter turns: (cosine, sine), (-sine, cosine), (-cosine, -sine), (sine,
   -cosine).
8. The two numbers are ``r`` times the first and ``r`` times the second element of this pair.

Truncated numbers are redrawn until they are in [-2, 2]: attempt ``a``, counted from 0, draws from
block ``b + a * 2^48`` instead of block ``b``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opwright_std.numerics.philox import random_long_words, random_words

# The number of terms suffices: the next term is below half an ulp on the reduced range.
_LOG_TERMS = {4: 5, 8: 11}
_TRIG_TERMS = {4: 6, 8: 10}


def _horner(z: NDArray[Any], coefficients: list[float]) -> NDArray[Any]:
    one = z.dtype.type
    value = np.full_like(z, one(coefficients[-1]))
    for coefficient in reversed(coefficients[:-1]):
        value *= z
        value += one(coefficient)
    return value


def _log(u: NDArray[Any]) -> NDArray[Any]:
    one = u.dtype.type
    mantissa, exponent = np.frexp(u)
    small = mantissa < one(math.sqrt(0.5))
    mantissa[small] *= 2
    exponent[small] -= 1
    s = (mantissa - one(1)) / (mantissa + one(1))
    series = _horner(s * s, [1 / (2 * k + 1) for k in range(_LOG_TERMS[u.itemsize])])
    result: NDArray[Any] = exponent.astype(u.dtype) * one(math.log(2)) + one(2) * s * series
    return result


def _sine_cosine(t: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    terms = range(_TRIG_TERMS[t.itemsize])
    z = t * t
    sine = _horner(z, [(-1) ** k / math.factorial(2 * k + 1) for k in terms])
    cosine = _horner(z, [(-1) ** k / math.factorial(2 * k) for k in terms])
    return t * sine, cosine


def _draw(a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return u of step 1, t of step 5, and the number q of quarter turns."""
    if a.itemsize == 8:
        u = ((a >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        fraction = (b >> np.uint64(9) & np.uint64(2**53 - 1)).astype(np.int64) - 2**52
        return u, fraction * 2.0**-52 * (math.pi / 4), b >> np.uint64(62)
    one = np.float32
    short = (b & np.uint32(2**30 - 1)).astype(np.int32) - np.int32(2**29)
    t = short.astype(np.float32) * one(2.0**-29) * one(math.pi / 4)
    return (a.astype(np.float32) + one(0.5)) * one(2.0**-32), t, b >> np.uint32(30)


def random_normal(
    count: int,
    dtype: np.dtype[Any],
    seed: int,
    stream: int | None,
    step: NDArray[Any] | None,
    first_block: int = 0,
) -> NDArray[Any]:
    """Return `count` standard normal numbers: float64 for float64, otherwise float32.

    The largest possible absolute value is 6.77 in float32 and 8.66 in float64.
    """
    even = count + count % 2
    words: NDArray[Any]
    if dtype == np.float64:
        words = random_long_words(even, seed, stream, step, first_block)
    else:
        words = random_words(even, seed, stream, step, first_block)
    u, t, quarter = _draw(words[::2], words[1::2])
    radius = np.sqrt(u.dtype.type(-2) * _log(u))
    sine, cosine = _sine_cosine(t)
    odd = quarter & quarter.dtype.type(1) == 1
    first, second = np.where(odd, sine, cosine), np.where(odd, cosine, sine)
    np.negative(first, out=first, where=(quarter == 1) | (quarter == 2))
    np.negative(second, out=second, where=quarter >= 2)
    numbers = np.empty(even, u.dtype)
    np.multiply(radius, first, out=numbers[::2])
    np.multiply(radius, second, out=numbers[1::2])
    return numbers[:count]


def random_truncated_normal(
    count: int, dtype: np.dtype[Any], seed: int, stream: int | None, step: NDArray[Any] | None
) -> NDArray[Any]:
    """Return `count` standard normal numbers in [-2, 2]: float64 for float64, otherwise float32."""
    numbers = random_normal(count, dtype, seed, stream, step)
    attempt = 0
    while (outside := np.abs(numbers) > 2).any():
        attempt += 1
        again = random_normal(count, dtype, seed, stream, step, attempt << 48)
        numbers[outside] = again[outside]
    return numbers
