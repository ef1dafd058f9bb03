"""Rows of Fourier transforms and mel filters."""

from __future__ import annotations

from typing import Any

import numpy as np

from opwright_onnx.dtypes import dtype_name, numpy_dtype
from opwright_onnx.errors import DeclinedError, ModelError
from opwright_onnx.translate.node import Node
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import Value, check_table

ROWS = Rows()


@ROWS.row("DFT")
def dft(t: Translator, n: Node, x: Value, length: Value = None, axis: Value = None) -> Any:
    rank = t.rank(x)
    given = (
        n.attr("axis", 1) if n.opset < 20 else -2 if axis is None else int(t.number(axis, "axis"))
    )
    place = t.axis(given, rank)
    if place == rank - 1:
        raise ModelError("axis must not be the last axis, which contains real and imaginary parts")
    order = [i for i in range(rank - 1) if i != place] + [place, rank - 1]
    moved = t.transpose(x, order)
    count = None if length is None else int(t.number(length, "dft_length"))
    is_real = t.known_dim(x, -1, "input") == 1
    if n.attr("inverse") and n.attr("onesided"):
        found = _real_inverse(t, moved, count)
        return t.transpose(found, [order.index(i) for i in range(rank)])
    moved = moved if count is None else _resized(t, moved, count)
    if n.attr("inverse"):
        found = t.op("ifft", _as_complex(t, moved) if is_real else moved)
    elif is_real and n.attr("onesided"):
        found = t.op("rfft", t.op("squeeze", moved, axis=[-1]))
    else:
        found = t.op("fft", _as_complex(t, moved) if is_real else moved)
        if n.attr("onesided"):
            count = t.known_dim(moved, -2, "input") // 2 + 1
            found = t.slice(found, [rank - 2], [0], [count])
    return t.transpose(found, [order.index(i) for i in range(rank)])


def _real_inverse(t: Translator, x: Value, length: int | None) -> Value:
    """Return the real signal, with `length` elements, of one half of its spectrum."""
    if length is None:
        length = 2 * (t.known_dim(x, -2, "input") - 1)
    half = _resized(t, x, length // 2 + 1)
    return t.op("unsqueeze", t.op("irfft", half, n=length), axis=[-1])


def _as_complex(t: Translator, x: Value) -> Value:
    return t.op("concat", [x, t.op("fill_like", x, value=0.0)], axis=-1)


def _resized(t: Translator, x: Value, length: int) -> Value:
    """Zero-pad or truncate `x` to `length` along the second to last axis."""
    rank = t.rank(x)
    own = t.known_dim(x, -2, "input")
    if length <= own:
        return t.slice(x, [rank - 2], [0], [length])
    return t.op("pad", x, paddings=[0] * (2 * rank - 3) + [length - own, 0, 0])


@ROWS.row("STFT")
def stft(
    t: Translator, n: Node, signal: Value, step: Value, window: Value = None, length: Value = None
) -> Any:
    stride = int(t.number(step, "frame_step"))
    size = (
        t.known_dim(window, 0, "window")
        if length is None
        else int(t.number(length, "frame_length"))
    )
    rank = t.rank(signal)
    count = (t.known_dim(signal, 1, "signal") - size) // stride + 1
    check_table(max(count, 0), max(size, 0))
    index = np.arange(count)[:, None] * stride + np.arange(size)
    frames = t.op("gather", signal, index, axis=1)
    if window is not None:
        frames = t.op("multiply", frames, t.reshape(window, [size, *[1] * (rank - 2)]))
    is_real = rank == 2 or t.known_dim(signal, 2, "signal") == 1
    if is_real:
        flat = t.op("squeeze", frames, axis=[-1]) if rank == 3 else frames
        if n.attr("onesided"):
            return t.op("rfft", flat)
        return t.op("fft", _as_complex(t, t.op("unsqueeze", flat, axis=[-1])))
    return t.op("fft", frames)


@ROWS.row("MelWeightMatrix")
def mel_weights(t: Translator, n: Node, *inputs: Value) -> Any:
    names = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")
    bins, length, rate, low, high = (t.number(v, name) for v, name in zip(inputs, names))
    if not 0 < bins <= 4096 or not 0 < length <= 2**24:
        raise DeclinedError(
            "num_mel_bins must be in [1, 4096] and dft_length in [1, 2**24], got "
            f"num_mel_bins={bins} and dft_length={length}"
        )
    rows = int(length) // 2 + 1
    check_table(rows, int(bins))
    step = (_mel(high) - _mel(low)) / (int(bins) + 2)
    edges = np.arange(int(bins) + 2) * step + _mel(low)
    hertz = 700 * (np.power(10, edges / 2595) - 1)
    places = ((int(length) + 1) * hertz // int(rate)).astype(int)
    weights = np.zeros((rows, int(bins)))
    for i in range(int(bins)):
        lower, center, upper = places[i : i + 3]
        if center == lower:
            weights[center, i] = 1
        else:
            rise = np.arange(lower, center + 1)
            weights[rise, i] = (rise - lower) / (center - lower)
        if upper > center:
            fall = np.arange(center, upper)
            weights[fall, i] = (upper - fall) / (upper - center)
    return weights.astype(numpy_dtype(dtype_name(n.attr("output_datatype"))))


def _mel(hertz: float) -> float:
    return float(2595 * np.log10(1 + hertz / 700))
