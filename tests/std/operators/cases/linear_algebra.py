"""Test cases of inverse, cholesky, solve, triangular_solve and the Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from case import LENGTHS, Array, Case, Random, Values

WELL = [[4.0, 1.0, -0.5], [1.0, 3.0, 0.25], [-0.5, 0.25, 2.0]]
OTHER = [[2.0, -1.0, 0.5], [0.25, 3.0, 1.0], [1.0, 0.5, -4.0]]
STACK = Values([WELL, OTHER])
SOLVED = {"ulps": 32.0, "terms": 9, "magnitude": 4.0}


def cholesky(x: Array, upper: bool = False) -> Array:
    x = (x + x.swapaxes(-1, -2)) / 2
    factor = np.zeros_like(x)
    n = x.shape[-1]
    for i in range(n):
        for j in range(i + 1):
            rest = x[..., i, j] - (factor[..., i, :j] * factor[..., j, :j]).sum(-1)
            factor[..., i, j] = np.sqrt(rest) if i == j else rest / factor[..., j, j]
    return factor.swapaxes(-1, -2) if upper else factor


def inverse(x: Array) -> Array:
    return solve(x, np.eye(x.shape[-1]))


def solve(a: Array, b: Array) -> Array:
    return np.linalg.inv(a) @ b


def triangular_solve(
    a: Array,
    b: Array,
    upper: bool = True,
    transpose: bool = False,
    unit_diagonal: bool = False,
    left: bool = True,
) -> Array:
    matrix = np.triu(a) if upper else np.tril(a)
    if unit_diagonal:
        matrix = np.where(np.eye(a.shape[-1], dtype=bool), 1.0, matrix)
    turned = np.linalg.inv(matrix.swapaxes(-1, -2) if transpose else matrix)
    return turned @ b if left else b @ turned


def triangular(label: str, a: Values, b: tuple[int, ...], **attrs: bool) -> Case:
    inputs = {"a": a, "b": Random(b)}
    return Case("triangular_solve", inputs, triangular_solve, attrs, label=label, **SOLVED)


def pairs(x: Array) -> Array:
    return np.stack([x.real, x.imag], -1)


def waves(x: Array, n: int, sign: int) -> Array:
    """Return the discrete Fourier transform of n complex numbers, computed by its definition."""
    places = np.arange(n)
    return x @ np.exp(sign * 2j * np.pi * (np.outer(places, places) % n) / n)


def along(function: Callable[..., Array], op: str) -> Callable[..., Array]:
    """Extend a transform along the last axis to any axis, length and norm."""

    def transform(x: Array, axis: int = -1, n: int | None = None, norm: str = "backward") -> Array:
        parts = 0 if op == "rfft" else 1
        lines = np.moveaxis(x, axis % (x.ndim - parts), x.ndim - 1 - parts)
        place = lines.ndim - 1 - parts
        length = lines.shape[place] if n is None else n
        if op == "irfft":
            out = irfft(lines, length)
        else:
            lines = lines.take(range(min(length, lines.shape[place])), place)
            widths = [(0, 0)] * lines.ndim
            widths[place] = (0, length - lines.shape[place])
            out = function(np.pad(lines, widths))
        power = {"backward": 0.0, "ortho": 0.5, "forward": 1.0}[norm]
        out = out * float(length) ** (power if op.startswith("i") else -power)
        last = out.ndim - (1 if op == "irfft" else 2)
        return np.moveaxis(out, last, axis % (x.ndim - parts))

    return transform


def fft(x: Array) -> Array:
    return pairs(waves(x[..., 0] + 1j * x[..., 1], x.shape[-2], -1))


def ifft(x: Array) -> Array:
    n = x.shape[-2]
    return pairs(waves(x[..., 0] + 1j * x[..., 1], n, 1)) / n


def rfft(x: Array) -> Array:
    n = x.shape[-1]
    return pairs(waves(x.astype(complex), n, -1))[..., : n // 2 + 1, :]


def irfft(x: Array, n: int) -> Array:
    half = x[..., 0] + 1j * x[..., 1]
    half[..., 0] = half[..., 0].real
    rest = np.conj(half[..., 1 : (n + 1) // 2][..., ::-1])
    whole = np.concatenate([half, rest], -1)
    if n % 2 == 0:
        whole[..., n // 2] = whole[..., n // 2].real
    return waves(whole, n, 1).real / n


def transform(op: str, shape: tuple[int, ...], **attrs: Any) -> Case:
    function = along({"fft": fft, "ifft": ifft, "rfft": rfft, "irfft": irfft}[op], op)
    label = "-".join(map(str, (*shape, *attrs.values())))
    return Case(op, {"x": Random(shape)}, function, attrs, label=label, terms=60, magnitude=8.0)


CASES = (
    Case("inverse", {"x": Values(OTHER)}, inverse, label="plain", **SOLVED),
    Case("inverse", {"x": STACK}, inverse, label="stack", **SOLVED),
    Case("inverse", {"x": Random((0, 0))}, inverse, label="empty"),
    Case("cholesky", {"x": Random((2, 0, 0))}, cholesky, label="empty"),
    Case("cholesky", {"x": Values(WELL)}, cholesky, label="plain", **SOLVED),
    Case("cholesky", {"x": Values([WELL, WELL])}, cholesky, {"upper": True}, label="up", **SOLVED),
    *(transform(op, (2, n, 2)) for op in ("fft", "ifft") for n in LENGTHS if n),
    *(transform("rfft", (2, n)) for n in LENGTHS if n),
    *(transform("irfft", (2, n // 2 + 1, 2), n=n) for n in (1, 2, 7, 8, 9, 16, 33)),
    transform("fft", (0, 3, 2)),
    transform("ifft", (0, 3, 2)),
    transform("irfft", (0, 3, 2), n=4),
    transform("rfft", (0, 4)),
    Case("solve", {"a": STACK, "b": Random((3, 2))}, solve, label="stack", **SOLVED),
    Case("solve", {"a": Values(OTHER), "b": Random((2, 3, 2))}, solve, label="one", **SOLVED),
    Case("solve", {"a": Random((0, 0)), "b": Random((0, 2))}, solve, label="empty"),
    triangular("upper", STACK, (2, 3, 2)),
    triangular("lower", STACK, (3, 2), upper=False),
    triangular("upper-turned", Values(OTHER), (2, 3, 2), transpose=True),
    triangular("lower-turned", Values(OTHER), (3, 1), upper=False, transpose=True),
    triangular("unit", Values(OTHER), (3, 2), unit_diagonal=True),
    triangular("right", STACK, (4, 3), left=False),
    triangular("right-turned", Values(OTHER), (2, 4, 3), left=False, upper=False, transpose=True),
    *(
        transform(op, shape, axis=axis, n=n, norm=norm)
        for op, shape in (("fft", (3, 5, 2)), ("ifft", (3, 5, 2)), ("rfft", (3, 5)))
        for axis, n, norm in ((0, 7, "ortho"), (-1, 4, "forward"))
    ),
    transform("irfft", (4, 3, 2), axis=0, n=7, norm="ortho"),
    transform("irfft", (3, 4, 2), axis=-1, n=6, norm="forward"),
)
