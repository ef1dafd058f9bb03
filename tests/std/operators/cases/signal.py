"""Test cases of window functions, Fourier transforms and determinants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from case import Array, Case, Random, Values

NO_INPUT = "it has no input"


def cosines(*coefficients: float) -> Any:
    return lambda i, n, **_: sum(
        (-1) ** k * a * math.cos(2 * math.pi * k * i / n) for k, a in enumerate(coefficients)
    )


def bessel(x: float) -> float:
    return math.fsum((x / 2) ** (2 * k) / math.factorial(k) ** 2 for k in range(80))


FORMULAS: dict[str, tuple[dict[str, Any], Any]] = {
    "hann": ({}, cosines(0.5, 0.5)),
    "hamming": ({}, cosines(0.54, 0.46)),
    "blackman": ({}, cosines(0.42, 0.5, 0.08)),
    "nuttall": ({}, cosines(0.3635819, 0.4891775, 0.1365995, 0.0106411)),
    "general_cosine": ({"coefficients": [0.25, -1.0, 0.5]}, cosines(0.25, -1.0, 0.5)),
    "bartlett": ({}, lambda i, n, **_: 1 - abs(2 * i / n - 1)),
    "cosine": ({}, lambda i, n, **_: math.sin(math.pi * (i + 0.5) / (n + 1))),
    "gaussian": ({"std": 2.0}, lambda i, n, std: math.exp(-(((i - n / 2) / std) ** 2) / 2)),
    "exponential": ({"tau": 3.0}, lambda i, n, tau: math.exp(-abs(i - n / 2) / tau)),
    "kaiser": (
        {"beta": 6.0},
        lambda i, n, beta: bessel(beta * math.sqrt(1 - (2 * i / n - 1) ** 2)) / bessel(beta),
    ),
}


def window(name: str, length: int, periodic: bool = True, dtype: str = "float32") -> Case:
    attrs, formula = FORMULAS[name]
    n = length if periodic else length - 1
    values = [formula(i, n, **attrs) if length > 1 else 1.0 for i in range(length)]
    return Case(
        f"{name}_window",
        {},
        lambda **_: np.array(values, np.float64).astype(dtype),
        {"length": length, "periodic": periodic, "dtype": dtype, **attrs},
        dtypes=("float32",),
        label=f"{length}{'' if periodic else '-symmetric'}-{dtype}",
        no_grad=NO_INPUT,
        ulps=2,
    )


def fftshift(x: Array, axis: list[int] | None = None) -> Array:
    return np.fft.fftshift(x, axis or None)


def ifftshift(x: Array, axis: list[int] | None = None) -> Array:
    return np.fft.ifftshift(x, axis or None)


def shifted(op: str, label: str, shape: tuple[int, ...], **attrs: Any) -> Case:
    reference = fftshift if op == "fftshift" else ifftshift
    return Case(op, {"x": Random(shape)}, reference, attrs, label=label, ulps=0)


def leibniz(x: Array) -> float:
    """Return a determinant, expanded along the first row."""
    if len(x) == 0:
        return 1.0
    rest = [np.delete(x[1:], j, 1) for j in range(len(x))]
    return math.fsum((-1) ** j * x[0, j] * leibniz(rest[j]) for j in range(len(x)))


def det(x: Array) -> Array:
    places = np.ndindex(x.shape[:-2])
    return np.array([leibniz(x[place]) for place in places]).reshape(x.shape[:-2])


def slogdet(x: Array) -> tuple[Array, Array]:
    values = det(x)
    return np.sign(values), np.log(np.abs(values))


def matrices(op: str, label: str, x: Any, **options: Any) -> Case:
    reference = det if op == "det" else slogdet
    return Case(op, {"x": x}, reference, label=label, ulps=64, magnitude=4.0, **options)


def joined(x: Array) -> Array:
    return x[..., 0] + 1j * x[..., 1]


def parts(x: Array) -> Array:
    return np.stack([x.real, x.imag], -1)


def transformed(op: str) -> Any:
    """Return a transform computed as a sum along each axis, without numpy.fft."""

    def along(x: Array, axis: int, sign: int, norm: str) -> Array:
        n = x.shape[axis]
        table = np.exp(sign * 2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n)
        divides = norm == "ortho" or norm == ("backward" if sign > 0 else "forward")
        table /= (n**0.5 if norm == "ortho" else n) if divides else 1
        return np.moveaxis(np.tensordot(table, x, (1, axis)), 0, axis)

    def function(x: Array, axis: Any = (), norm: str = "backward", n: int = 0) -> Array:
        is_real, sign = op == "rfftn", 1 if op.startswith("i") else -1
        rank = x.ndim if is_real else x.ndim - 1
        axes = [i % x.ndim for i in axis] or list(range(rank))
        if "2" in op:
            axes = axes if axis else [rank - 2, rank - 1]
        values = x.astype(complex) if is_real else joined(x)
        if op == "irfftn":  # the missing half: conjugates, the other axes reversed
            values = completed(values, axes, n)
        for i in axes:
            values = along(values, i, sign, norm)
        if is_real:
            return parts(values.take(np.arange(values.shape[axes[-1]] // 2 + 1), axes[-1]))
        return values.real if op == "irfftn" else parts(values)

    return function


OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def hfft(x: Array, n: int, axis: int = -1, norm: str = "backward") -> Array:
    axes = [axis % (x.ndim - 1)]
    return transformed("irfftn")(x * np.array([1.0, -1.0]), axes, OPPOSITE[norm], n)


def ihfft(x: Array, axis: int = -1, norm: str = "backward", n: int | None = None) -> Array:
    length = x.shape[axis]
    paddings = [(0, 0)] * x.ndim
    paddings[axis] = (0, max(0, (n or length) - length))
    fitted = np.pad(x, paddings).take(np.arange(n or length), axis)
    return transformed("rfftn")(fitted, [axis], OPPOSITE[norm]) * np.array([1.0, -1.0])


def completed(values: Array, axes: list[int], n: int) -> Array:
    last = axes[-1]
    turned = values
    for i in axes[:-1]:
        turned = np.roll(np.flip(turned, i), 1, i)
    rest = np.conj(turned.take(np.arange(1, n - n // 2)[::-1], last))
    whole = np.concatenate([values, rest], last)
    first = [slice(None)] * values.ndim
    for place in {0, n // 2} if n % 2 == 0 else {0}:
        first[last] = slice(place, place + 1)  # elements that mirror to themselves
        part = tuple(first)
        whole[part] = (values[part] + np.conj(turned[part])) / 2
    return whole


def transform(op: str, label: str, shape: tuple[int, ...], **attrs: Any) -> Case:
    return Case(
        op,
        {"x": Random(shape)},
        transformed(op),
        attrs,
        label=label,
        ulps=16,
        terms=30,
        magnitude=4.0,
    )


def framed(x: Array, window: Array | None, n_fft: int, hop: int, center: bool, mode: str) -> Any:
    reach = n_fft // 2 if center else 0
    padded = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(reach, reach)], mode=mode)
    shape = np.ones(n_fft)
    if window is not None:
        begin = (n_fft - len(window)) // 2
        shape = np.zeros(n_fft)
        shape[begin : begin + len(window)] = window
    begins = range(0, padded.shape[-1] - n_fft + 1, hop)
    return np.stack([padded[..., b : b + n_fft] * shape for b in begins], -2)


def stft(
    x: Array,
    window: Array | None = None,
    *,
    n_fft: int,
    hop_length: int = 0,
    center: bool = True,
    normalized: bool = False,
    onesided: bool = True,
    pad_mode: str = "reflect",
) -> Array:
    frames = framed(x, window, n_fft, hop_length or n_fft // 4, center, pad_mode)
    table = np.exp(-2j * np.pi * np.outer(np.arange(n_fft), np.arange(n_fft)) / n_fft)
    rows = n_fft // 2 + 1 if onesided else n_fft
    values = np.moveaxis(frames @ table[:, :rows], -1, -2)
    return parts(values / n_fft**0.5 if normalized else values)


def istft(x: Array, window: Array | None = None, *, n_fft: int, hop_length: int, **_: Any) -> Array:
    """Invert a centered transform by its definition, from the non-negative frequencies."""
    half = joined(x)[..., : n_fft // 2 + 1, :]
    values = np.concatenate([half, np.conj(half[..., 1 : (n_fft + 1) // 2, :][..., ::-1, :])], -2)
    values[..., 0, :] = values[..., 0, :].real
    if n_fft % 2 == 0:
        values[..., n_fft // 2, :] = values[..., n_fft // 2, :].real
    table = np.exp(2j * np.pi * np.outer(np.arange(n_fft), np.arange(n_fft)) / n_fft) / n_fft
    frames = np.moveaxis((table @ values).real, -1, -2)
    count = frames.shape[-2]
    shape = np.ones(n_fft) if window is None else window
    total = np.zeros((*frames.shape[:-2], n_fft + hop_length * (count - 1)))
    squares = np.zeros(total.shape[-1])
    for i in range(count):
        part = slice(i * hop_length, i * hop_length + n_fft)
        total[..., part] += frames[..., i, :] * shape
        squares[part] += shape**2
    inner = slice(n_fft // 2, total.shape[-1] - n_fft // 2)
    return total[..., inner] / squares[inner]


def frames(op: str, label: str, shape: tuple[int, ...], width: int = 0, **attrs: Any) -> Case:
    inputs: dict[str, Any] = {"x": Random(shape)}
    if width:
        inputs["window"] = Random((width,), 0.5, 1.0)
    reference = stft if op == "stft" else istft
    return Case(
        op,
        inputs,
        reference,
        attrs,
        label=label,
        ulps=16,
        terms=32,
        magnitude=4.0,
    )


CASES = (
    *(window(name, 8) for name in FORMULAS),
    *(window("hann", n) for n in (0, 1, 33)),
    window("kaiser", 7, periodic=False),
    *(window("hamming", 5, dtype=dtype) for dtype in ("float16", "float64")),
    *(
        case
        for op in ("fftshift", "ifftshift")
        for case in (
            shifted(op, "all", (3, 4)),
            shifted(op, "odd", (2, 5, 2), axis=[1]),
            shifted(op, "empty", (0, 2)),
        )
    ),
    *(
        case
        for op in ("det", "slogdet")
        for case in (
            matrices(op, "stack", Random((2, 3, 3))),
            matrices(op, "one", Random((1, 1), 0.5, 1.0)),
            matrices(op, "no-rows", Random((2, 0, 0))),
        )
    ),
    *(
        transform(op, "empty", (0, 3, *[2] * (op != "rfftn")), axis=[1])
        for op in ("fftn", "ifftn", "rfftn")
    ),
    *(transform(op, "empty", (0, 2, 2, 2)) for op in ("fft2", "ifft2")),
    transform("irfftn", "empty", (0, 3, 2), axis=[1], n=4),
    *(
        Case(op, {"x": Random(shape)}, function, attrs, label=label, terms=8, magnitude=8.0)
        for op, function, shapes, length in (
            ("hfft", hfft, {"even": (2, 3, 2), "one": (1, 3, 2), "empty": (0, 3, 2)}, {"n": 4}),
            ("hfft", hfft, {"odd": (1, 3, 2)}, {"n": 5}),
            ("hfft", hfft, {"first": (3, 2, 2)}, {"n": 4, "axis": 0, "norm": "forward"}),
            ("ihfft", ihfft, {"even": (2, 4), "odd": (1, 5), "empty": (0, 3)}, {}),
            ("ihfft", ihfft, {"first": (5, 2)}, {"n": 4, "axis": 0, "norm": "ortho"}),
            ("ihfft", ihfft, {"longer": (1, 2)}, {"n": 5}),
        )
        for label, shape in shapes.items()
        for attrs in (length,)
    ),
    frames("stft", "empty", (0, 8), n_fft=4),
    frames("istft", "empty", (0, 3, 2, 2), n_fft=4, hop_length=2),
    transform("fftn", "all", (2, 3, 2)),
    transform("fftn", "ortho", (3, 1, 4, 2), axis=[0, -2], norm="ortho"),
    transform("ifftn", "all", (2, 3, 2)),
    transform("ifftn", "one", (3, 1, 2), axis=[0], norm="forward"),
    transform("fft2", "images", (2, 3, 2, 2)),
    transform("ifft2", "images", (2, 3, 2, 2), norm="ortho"),
    *(transform(op, "line", (1, 4, 2)) for op in ("fft2", "ifft2")),
    transform("rfftn", "all", (2, 5)),
    transform("rfftn", "first", (4, 2, 3), axis=[1, 0], norm="ortho"),
    transform("irfftn", "even", (1, 3, 2), n=4),
    transform("irfftn", "odd", (3, 2, 2), axis=[1, 0], n=5, norm="forward"),
    frames("stft", "signal", (12,), n_fft=4),
    frames("stft", "window", (2, 13), 3, n_fft=5, hop_length=2, normalized=True, onesided=False),
    frames("stft", "begins", (1, 9), 4, n_fft=4, hop_length=3, center=False),
    frames("istft", "signals", (2, 3, 5, 2), 4, n_fft=4, hop_length=2),
    frames("istft", "odd", (3, 4, 2), n_fft=5, hop_length=2),
    frames("istft", "two-sided", (4, 4, 2), n_fft=4, hop_length=2, onesided=False),
    matrices(
        "det",
        "singular",
        Values([[1.0, 2.0], [2.0, 4.0]]),
        no_grad="there is none of second order",
        gradients=lambda x, out_grad: out_grad * np.array([[4.0, -2.0], [-2.0, 1.0]]),
    ),
)
