"""Inputs of operators on square matrices and groups of rows, and of transforms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from opwright_std.samples.drawn import Drawn

if TYPE_CHECKING:
    from opwright_kit.testing import Draw


def _square(draw: Draw, shape: tuple[int, ...]) -> Any:
    """Return well-conditioned matrices, positive definite except for their asymmetry."""
    n = shape[-1]
    x = draw.floats(shape)
    return x / max(4 * n, 1) + np.eye(n, dtype=x.dtype) * 2


def square(draw: Draw) -> Drawn:
    """Draw square matrices, some in a batch."""
    n = min(draw.length, 9)
    shape = ((n, n), (2, n, n))[int(draw.rng.integers(2))]
    draw.drops_nan = "LAPACK may refuse a matrix with NaN"
    return {"x": _square(draw, shape)}, {}


def _system(draw: Draw) -> Mapping[str, Any]:
    n = min(draw.length, 9)
    return {"a": _square(draw, (n, n)), "b": draw.floats((2, n, draw.other_length()))}


def system(draw: Draw) -> Drawn:
    """Draw a square matrix and right-hand sides."""
    draw.drops_nan = "LAPACK may refuse a matrix with NaN"
    return _system(draw), {}


def triangular_system(draw: Draw) -> Drawn:
    """Draw a triangular matrix and right-hand sides."""
    draw.drops_nan = "the other triangle is not read"
    return _system(draw), {}


def groups(draw: Draw) -> Drawn:
    """Draw rows sorted by group, the ends of the groups, and a matrix per group or other rows."""
    n, k, m, count = draw.length, draw.other_length(), draw.other_length(), 3
    inputs = {"x": draw.floats((n, k))}
    if draw.definition.op_type == "grouped_outer":
        inputs["y"] = draw.floats((n, m))
    else:
        shape = (count, m, k) if draw.attrs["transpose_weight"] else (count, k, m)
        inputs["weight"] = draw.floats(shape)
    kind = str(draw.choice(["int32", "int64"]))
    inputs["offsets"] = np.sort(draw.integers((count,), 0, n + 1, kind))
    draw.refused["offsets"] = (-1, n + 1)
    draw.drops_nan = "rows of no group are not read"
    return inputs, draw.attrs


def pairs(draw: Draw) -> Drawn:
    """Draw real and imaginary parts."""
    return {"x": draw.floats((draw.other_length(), max(draw.length, 1), 2))}, {}


def numbers(draw: Draw) -> Drawn:
    """Draw real numbers."""
    return {"x": draw.floats((draw.other_length(), max(draw.length, 1)))}, {}


def half(draw: Draw) -> Drawn:
    """Draw the nonredundant half of the spectrum of real numbers."""
    n = max(draw.length, 1)
    draw.drops_nan = "imaginary parts of the ends are not read"
    return {"x": draw.floats((draw.other_length(), n // 2 + 1, 2))}, {"n": n}


def several_pairs(draw: Draw) -> Drawn:
    """Draw real and imaginary parts, and axes before the last axis."""
    shape = (draw.other_length() or 1, max(draw.length, 1), 2)
    attrs = {**draw.attrs, "axis": [[0], [1, 0], [-2]][int(draw.rng.integers(3))]}
    if draw.definition.op_type.endswith("2"):
        attrs["axis"] = [1, 0]
    return {"x": draw.floats(shape)}, attrs


def several_numbers(draw: Draw) -> Drawn:
    """Draw real numbers along two axes."""
    shape = (draw.other_length() or 1, max(draw.length, 1))
    return {"x": draw.floats(shape)}, {**draw.attrs, "axis": [0, 1]}


def several_halves(draw: Draw) -> Drawn:
    """Draw the nonredundant half of the spectrum of real numbers along two axes."""
    n = max(draw.length, 1)
    draw.drops_nan = "imaginary parts of the ends are not read"
    x = draw.floats((draw.other_length() or 1, n // 2 + 1, 2))
    return {"x": x}, {**draw.attrs, "axis": [0, 1], "n": n}


def signal(draw: Draw) -> Drawn:
    """Draw a signal of several frames, and a window."""
    n_fft = int(draw.rng.integers(2, 9))
    inputs = {"x": draw.floats((draw.other_length(), n_fft + draw.length))}
    if draw.rng.random() < 0.5:
        inputs["window"] = draw.floats((n_fft,), 0.5, 1.0)
    draw.drops_nan = "elements after the last frame are not read"
    return inputs, {**draw.attrs, "n_fft": n_fft, "hop_length": max(n_fft // 2, 1)}


def frames(draw: Draw) -> Drawn:
    """Draw frames that overlap by half, and a window."""
    n_fft = 2 * int(draw.rng.integers(1, 5))
    rows = n_fft // 2 + 1 if draw.attrs["onesided"] else n_fft
    inputs = {"x": draw.floats((draw.other_length(), rows, 2 + draw.length, 2))}
    if draw.rng.random() < 0.5:
        inputs["window"] = draw.floats((n_fft,), 0.5, 1.0)
    draw.drops_nan = "some imaginary parts, and elements before the begin, are not read"
    attrs = {**draw.attrs, "n_fft": n_fft, "hop_length": max(n_fft // 2, 1), "length": None}
    return inputs, attrs


SAMPLES = {
    **dict.fromkeys(("inverse", "cholesky", "det", "slogdet"), square),
    **dict.fromkeys(("fftn", "ifftn", "fft2", "ifft2"), several_pairs),
    **dict.fromkeys(("grouped_matmul", "grouped_outer"), groups),
    "rfftn": several_numbers,
    "irfftn": several_halves,
    "stft": signal,
    "istft": frames,
    "solve": system,
    "triangular_solve": triangular_system,
    **dict.fromkeys(("fft", "ifft"), pairs),
    **dict.fromkeys(("irfft", "hfft"), half),
    **dict.fromkeys(("rfft", "ihfft"), numbers),
}
