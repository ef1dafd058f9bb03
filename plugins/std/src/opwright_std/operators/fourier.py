"""fft, ifft, rfft and irfft: discrete Fourier transforms of one axis, as numpy.fft.

Complex numbers are pairs of a real and an imaginary part in the last axis.
"""

from __future__ import annotations

import numpy as np

from opwright.errors import GradientError
from opwright.op import (
    BodyContext,
    GradientContext,
    InferContext,
    OpMaker,
    dims_match,
    format_shape,
    grad_op,
    linear_in,
)
from opwright_std.numerics.dtypes import Array

WIDE = ("float32", "float64")


def fft(x: Array, out: Array) -> None:
    _split(np.fft.fft(_joined(x)), out)


def ifft(x: Array, out: Array) -> None:
    _split(np.fft.ifft(_joined(x)), out)


def rfft(x: Array, out: Array) -> None:
    _split(np.fft.rfft(x), out)


def irfft(x: Array, out: Array, *, n: int) -> None:
    np.copyto(out, np.fft.irfft(_joined(x), out.shape[-1]))


def _joined(x: Array) -> Array:
    pairs = np.ascontiguousarray(x).view(np.result_type(x.dtype, np.complex64))
    return pairs[..., 0]


def _split(x: Array, out: Array) -> None:
    out[..., 0] = x.real
    out[..., 1] = x.imag


def _require_pairs(ctx: InferContext) -> tuple[int, ...]:
    shape = ctx.input("x").shape
    if len(shape) < 2 or not dims_match(shape[-1], 2) or shape[-2] == 0:
        ctx.fail(
            "x must be [..., n, 2] with n at least 1, real and imaginary part in the last axis, "
            f"got {format_shape(shape)}; stack gives numbers a part"
        )
    return tuple(shape)


def _pairs_shape(ctx: InferContext) -> None:
    """The output has the shape of x."""
    ctx.set_output("out", _require_pairs(ctx))


def _rfft_shape(ctx: InferContext) -> None:
    """The output has n // 2 + 1 pairs for n numbers."""
    shape = ctx.input("x").shape
    if not shape or shape[-1] == 0:
        ctx.fail(f"x must have at least 1 element in the last axis, got {format_shape(shape)}")
    n = shape[-1]
    ctx.set_output("out", (*shape[:-1], n // 2 + 1 if n > 0 else -1, 2))


def _irfft_shape(ctx: InferContext) -> None:
    """The output has n numbers for the n // 2 + 1 pairs of x."""
    shape, n = _require_pairs(ctx), ctx.attr("n")
    if not dims_match(shape[-2], n // 2 + 1):
        ctx.fail(
            f"x must have n // 2 + 1 = {n // 2 + 1} pairs for n = {n}, got {format_shape(shape)}; "
            "slice or pad it"
        )
    ctx.set_output("out", (*shape[:-2], n))


def _conjugated(g: GradientContext, name: str | None) -> str:
    meta = g.meta(g.input("x") or "")
    dtype = "float32" if meta is None else meta.dtype
    signs = g.emit("constant", {}, attrs={"values": [1.0, -1.0], "shape": [2], "dtype": dtype})
    return g.emit("multiply", {"x": name, "y": signs})


def _fft_gradient(g: GradientContext) -> None:
    """The transform is symmetric: its gradient is that of the conjugate, conjugated."""
    made = g.emit(g.type, {"x": _conjugated(g, g.output_grad("out"))})
    g.set_input_grad("x", _conjugated(g, made))


def _weights(g: GradientContext | BodyContext, n: int, inner: float) -> str:
    """Write how often a pair counts: those between the ends stand for two of the n."""
    count = n // 2 + 1
    values = [inner] * count
    values[0] = 1.0
    if n % 2 == 0:
        values[-1] = 1.0
    meta = g.meta(g.input("x") or "")
    attrs = {
        "values": values,
        "shape": [count, 1],
        "dtype": "float32" if meta is None else meta.dtype,
    }
    return g.emit("constant", {}, attrs=attrs)


def _rfft_grad_body(b: BodyContext) -> None:
    """Written where a plan is made, which knows the length."""
    meta = b.meta(b.inputs("x")[0])
    n = -1 if meta is None else meta.shape[-1]
    if n < 0:
        raise GradientError(f"{b.type}: the length of x must be known, got {n}; declare it")
    inputs = {"x": b.input("out_grad"), "y": _weights(b, n, 0.5)}
    made = b.emit("irfft", {"x": b.emit("multiply", inputs)}, attrs={"n": n})
    b.emit("scale", {"x": made}, {"out": b.output("x_grad")}, {"scale": float(n)})


def _irfft_gradient(g: GradientContext) -> None:
    n = g.attr("n")
    made = g.emit("rfft", {"x": g.output_grad("out")})
    weighed = g.emit("multiply", {"x": made, "y": _weights(g, n, 2.0)})
    g.set_input_grad("x", g.emit("scale", {"x": weighed}, attrs={"scale": 1.0 / n}))


def _transform(op_type: str, comment: str, x: str, out: str) -> OpMaker:
    return (
        OpMaker(op_type)
        .add_comment(comment)
        .add_input("x", x)
        .dtypes(*WIDE)
        .add_output("out", f"{out}, dtype of x")
        .same_dtype_as("x")
    )


_PAIRS = "[..., n, 2], real and imaginary parts"

FFT = _transform(
    "fft",
    "Discrete Fourier transform of the last axis but one, as numpy.fft.fft: the last axis holds "
    "real and imaginary part.",
    _PAIRS,
    _PAIRS,
).build(infer_shape=_pairs_shape, gradient=_fft_gradient)

IFFT = _transform(
    "ifft",
    "Inverse of fft, with the factor 1 / n, as numpy.fft.ifft.",
    _PAIRS,
    _PAIRS,
).build(infer_shape=_pairs_shape, gradient=_fft_gradient)

RFFT = _transform(
    "rfft",
    "Discrete Fourier transform of the real numbers in the last axis, as numpy.fft.rfft: the first "
    "n // 2 + 1 pairs, of which the others are the conjugates.",
    "[..., n]",
    "[..., n // 2 + 1, 2], real and imaginary parts",
).build(
    infer_shape=_rfft_shape,
    gradient=grad_op("rfft_grad", gradient=linear_in("x"), body=_rfft_grad_body),
)

IRFFT = (
    _transform(
        "irfft",
        "Inverse of rfft, as numpy.fft.irfft: the imaginary parts of the first pair and, for even "
        "n, of the last one are not read.",
        "[..., n // 2 + 1, 2], real and imaginary parts",
        "[..., n]",
    )
    .add_attr("n", int, "how many numbers out has along the last axis")
    .required()
    .between(1, 2**31 - 1)
    .build(infer_shape=_irfft_shape, gradient=_irfft_gradient)
)
