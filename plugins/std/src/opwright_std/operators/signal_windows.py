"""Windows of signal processing: hann, hamming, blackman, bartlett, kaiser and others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from opwright.op import BodyContext, InferContext, OpDefinition, OpMaker, no_gradient
from opwright_std.numerics.dtypes import FLOATS, Array

Formula = Callable[[Array, int, BodyContext], Array]
"""Maps positions 0, 1, ... and the number of steps to values."""

_LONGEST = 2**20
_HANN, _HAMMING, _BLACKMAN = (0.5, 0.5), (0.54, 0.46), (0.42, 0.5, 0.08)
_NUTTALL = (0.3635819, 0.4891775, 0.1365995, 0.0106411)


def _cosines(coefficients: Sequence[float]) -> Formula:
    """Return the formula of a sum of cosines, by default with the attribute's coefficients."""

    def formula(place: Array, steps: int, b: BodyContext) -> Array:
        values = np.zeros(place.shape)
        for k, factor in enumerate(coefficients or b.attr("coefficients")):
            values += (-1) ** k * factor * np.cos(2 * np.pi * k / steps * place)
        return values

    return formula


def _bartlett(place: Array, steps: int, b: BodyContext) -> Array:
    return 1 - np.abs(2 * place / steps - 1)


def _cosine(place: Array, steps: int, b: BodyContext) -> Array:
    return np.asarray(np.sin((place + 0.5) * (np.pi / (steps + 1))))


def _gaussian(place: Array, steps: int, b: BodyContext) -> Array:
    return np.asarray(np.exp(-(((place - steps / 2) / b.attr("std")) ** 2) / 2))


def _exponential(place: Array, steps: int, b: BodyContext) -> Array:
    return np.asarray(np.exp(-np.abs(place - steps / 2) / b.attr("tau")))


def _kaiser(place: Array, steps: int, b: BodyContext) -> Array:
    beta = float(b.attr("beta"))
    inside = np.maximum(1 - (2 * place / steps - 1) ** 2, 0)
    return np.asarray(np.i0(beta * np.sqrt(inside)) / np.i0(beta))


def _window_shape(ctx: InferContext) -> None:
    """The output has length elements."""
    ctx.set_output("out", (ctx.attr("length"),))


def _maker(name: str, text: str) -> OpMaker:
    return (
        OpMaker(f"{name}_window")
        .add_comment(
            f"{name.replace('_', ' ').capitalize()} window, out[i] = {text}, where n is length, or "
            "length - 1 with periodic=False. A window of length 1 is 1. Computed in float64 and "
            "rounded "
            "once."
        )
        .add_output("out", "[length], of the given dtype")
        .same_dtype_as("dtype")
        .add_attr("length", int, "how many numbers")
        .as_shape_operand()
        .required()
        .between(0, _LONGEST)
        .add_attr("periodic", bool, "whether it is periodic, as stft needs, instead of symmetric")
        .default(True)
        .add_attr("dtype", str, "dtype of out")
        .default("float32")
        .as_dtype(*FLOATS)
        .dispatch_on("dtype")
    )


def _build(maker: OpMaker, formula: Formula) -> OpDefinition:
    def body(b: BodyContext) -> None:
        length = b.attr("length")
        steps = length if b.attr("periodic") else length - 1
        values = np.ones(length) if length < 2 else formula(np.arange(length), steps, b)
        attrs = {"values": values.tolist(), "shape": [length], "dtype": b.attr("dtype")}
        b.emit("constant", {}, {"out": b.output("out")}, attrs)

    reason = no_gradient("it has no input")
    return maker.build(infer_shape=_window_shape, gradient=reason, body=body)


HANN_WINDOW = _build(_maker("hann", "0.5 - 0.5 * cos(2 * pi * i / n)"), _cosines(_HANN))

HAMMING_WINDOW = _build(_maker("hamming", "0.54 - 0.46 * cos(2 * pi * i / n)"), _cosines(_HAMMING))

BLACKMAN_WINDOW = _build(
    _maker("blackman", "0.42 - 0.5 * cos(2 * pi * i / n) + 0.08 * cos(4 * pi * i / n)"),
    _cosines(_BLACKMAN),
)

NUTTALL_WINDOW = _build(
    _maker("nuttall", f"the sum of cosines of general_cosine_window with factors {_NUTTALL}"),
    _cosines(_NUTTALL),
)

GENERAL_COSINE_WINDOW = _build(
    _maker("general_cosine", "sum((-1) ** k * coefficients[k] * cos(2 * pi * k * i / n))")
    .add_attr("coefficients", list[float], "the factors of the cosines, at least one")
    .required(),
    _cosines(()),
)

BARTLETT_WINDOW = _build(_maker("bartlett", "1 - abs(2 * i / n - 1)"), _bartlett)

COSINE_WINDOW = _build(_maker("cosine", "sin(pi * (i + 0.5) / (n + 1))"), _cosine)

GAUSSIAN_WINDOW = _build(
    _maker("gaussian", "exp(-((i - n / 2) / std) ** 2 / 2)")
    .add_attr("std", float, "the standard deviation, in elements")
    .default(1.0)
    .greater_than(0.0),
    _gaussian,
)

EXPONENTIAL_WINDOW = _build(
    _maker("exponential", "exp(-abs(i - n / 2) / tau)")
    .add_attr("tau", float, "number of elements in which it decays to 1 / e")
    .default(1.0)
    .greater_than(0.0),
    _exponential,
)

KAISER_WINDOW = _build(
    _maker("kaiser", "I0(beta * sqrt(1 - (2 * i / n - 1) ** 2)) / I0(beta)")
    .add_attr("beta", float, "narrowness; 0: all ones")
    .default(12.0)
    .between(0.0, 700.0),
    _kaiser,
)
