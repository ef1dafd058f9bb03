"""What the OpProto of an operator on square matrices, or of a transform, cannot say of inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from opwright_kit.testing import Draw

Drawn = tuple[Mapping[str, Any], Mapping[str, Any]] | None


def _square(draw: Draw, shape: tuple[int, ...]) -> Any:
    """Return matrices far from singular ones, positive definite but for their asymmetry."""
    n = shape[-1]
    return draw.floats(shape) / max(4 * n, 1) + np.eye(n) * 2


def square(draw: Draw) -> Drawn:
    """Square matrices, some in a stack."""
    n = min(draw.length, 9)
    shape = ((n, n), (2, n, n))[int(draw.rng.integers(2))]
    draw.drops_nan = "LAPACK may refuse a matrix with NaN"
    return {"x": _square(draw, shape)}, {}


def _system(draw: Draw) -> Mapping[str, Any]:
    n = min(draw.length, 9)
    return {"a": _square(draw, (n, n)), "b": draw.floats((2, n, draw.other_length()))}


def system(draw: Draw) -> Drawn:
    """A square matrix and the right sides of equations with it."""
    draw.drops_nan = "LAPACK may refuse a matrix with NaN"
    return _system(draw), {}


def triangular_system(draw: Draw) -> Drawn:
    """A square matrix, of which one triangle counts, and right sides."""
    draw.drops_nan = "the other triangle is not read"
    return _system(draw), {}


def pairs(draw: Draw) -> Drawn:
    """Real and imaginary parts."""
    return {"x": draw.floats((draw.other_length(), max(draw.length, 1), 2))}, {}


def numbers(draw: Draw) -> Drawn:
    """Real numbers."""
    return {"x": draw.floats((draw.other_length(), max(draw.length, 1)))}, {}


def half(draw: Draw) -> Drawn:
    """The first pairs of the transform of real numbers."""
    n = max(draw.length, 1)
    draw.drops_nan = "imaginary parts of the ends are not read"
    return {"x": draw.floats((draw.other_length(), n // 2 + 1, 2))}, {"n": n}


SAMPLES = {
    **dict.fromkeys(("inverse", "cholesky"), square),
    "solve": system,
    "triangular_solve": triangular_system,
    **dict.fromkeys(("fft", "ifft"), pairs),
    "irfft": half,
    "rfft": numbers,
}
