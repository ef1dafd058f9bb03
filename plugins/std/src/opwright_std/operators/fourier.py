"""fft, ifft, rfft, irfft, hfft, ihfft: discrete Fourier transforms of one axis, as in numpy.fft.

Complex numbers are pairs of a real and an imaginary part in the last axis. Kernels transform the
whole last axis of numbers, with the norm "backward"; compositions add the other attributes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from opwright.errors import GradientError
from opwright.op import (
    BodyContext,
    GradientContext,
    InferContext,
    OpMaker,
    by_differentiating,
    dims_match,
    format_shape,
    grad_op,
    linear_in,
    normalize_axis,
)
from opwright_std.compositions.expression import Expression, dtype_of, read
from opwright_std.numerics.dtypes import WIDE, Array

Writer = BodyContext | GradientContext


def fft(x: Array, out: Array) -> None:
    np.fft.fft(_joined(x), out=_joined(out))


def ifft(x: Array, out: Array) -> None:
    np.fft.ifft(_joined(x), out=_joined(out))


def rfft(x: Array, out: Array) -> None:
    np.fft.rfft(x, out=_joined(out))


def irfft(x: Array, out: Array, *, n: int) -> None:
    np.copyto(out, np.fft.irfft(_joined(x), out.shape[-1]))


def _joined(x: Array) -> Array:
    """Return pairs, contiguous in kernels, as complex numbers."""
    return x.view(np.result_type(x.dtype, np.complex64))[..., 0]


def _axis_of(ctx: InferContext, rank: int) -> int:
    shape = ctx.input("x").shape
    axis = normalize_axis(ctx, ctx.attr("axis"), rank)
    if shape[axis] == 0:
        ctx.fail(f"x must have at least 1 element along axis {axis}, got {format_shape(shape)}")
    return axis


def _pairs_axis(ctx: InferContext) -> int:
    shape = ctx.input("x").shape
    if len(shape) < 2 or not dims_match(shape[-1], 2):
        ctx.fail(
            "x must be [..., n, 2] with n at least 1, real and imaginary part in the last axis, "
            f"got {format_shape(shape)}; stack adds an imaginary part"
        )
    return _axis_of(ctx, len(shape) - 1)


def _with_length(shape: tuple[int, ...], axis: int, *lengths: int) -> tuple[int, ...]:
    return (*shape[:axis], *lengths, *shape[axis + 1 :])


def _pairs_shape(ctx: InferContext) -> None:
    """The output has the shape of x, with n pairs along the axis if n is given."""
    axis, shape, n = _pairs_axis(ctx), ctx.input("x").shape, ctx.attr("n")
    ctx.set_output("out", shape if n is None else _with_length(shape, axis, n))


def _rfft_shape(ctx: InferContext) -> None:
    """The output has n // 2 + 1 pairs for n numbers."""
    shape, n = ctx.input("x").shape, ctx.attr("n")
    if not shape:
        ctx.fail("x must have at least 1 element in the last axis, got []")
    axis = _axis_of(ctx, len(shape))
    n = shape[axis] if n is None else n
    ctx.set_output("out", (*_with_length(shape, axis, n // 2 + 1 if n >= 0 else -1), 2))


def _irfft_shape(ctx: InferContext) -> None:
    """The output has n numbers for the n // 2 + 1 pairs of x."""
    axis, shape, n = _pairs_axis(ctx), ctx.input("x").shape, ctx.attr("n")
    if not dims_match(shape[axis], n // 2 + 1):
        ctx.fail(
            f"x must have n // 2 + 1 = {n // 2 + 1} pairs for n = {n}, got {format_shape(shape)}; "
            "slice or pad it"
        )
    ctx.set_output("out", _with_length(shape[:-1], axis, n))


def _shape_of(w: Writer) -> tuple[int, ...]:
    meta = w.meta(w.inputs("x")[0])
    if meta is None:
        raise GradientError(
            f"{w.type}: its formula depends on the shape of x, got none; declare it, with -1 for "
            "unknown dimensions"
        )
    return meta.shape


def _place(w: Writer) -> int:
    """Return the axis, counted from the front of x."""
    is_real = w.type.startswith("rfft")
    rank = len(_shape_of(w)) - (0 if is_real else 1)
    axis: int = w.attr("axis")
    return axis % rank


def _fitted(w: Writer, name: str, axis: int, length: int, n: int | None) -> str:
    """Emit a variable truncated, or padded with 0, to n elements along an axis."""
    if n is None or n == length:
        return name
    if length < 0:
        raise GradientError(
            f"{w.type}: with n={n} its formula depends on the length of axis {axis} of x, got an "
            "unknown one; declare it"
        )
    meta = w.meta(name)
    paddings = [0] * (2 * len(meta.shape if meta else ()))
    paddings[2 * axis + 1] = n - length
    return w.emit("pad", {"x": name}, attrs={"paddings": paddings})


def _moved(b: BodyContext, name: str, axis: int, to: int) -> str:
    """Emit a variable with an axis moved to another position."""
    meta = b.meta(name)
    order = list(range(len(meta.shape if meta else ())))
    order.insert(to, order.pop(axis))
    return name if axis == to else b.emit("transpose", {"x": name}, attrs={"axes": order})


_FACTORS = {"backward": 0.0, "ortho": 0.5, "forward": 1.0}
"""Exponents p: transforms are divided by n**p, inverse transforms are multiplied by it."""


def _scaled(w: Writer, name: str, n: int, power: float) -> str:
    """Multiply a variable by a power of n."""
    return w.emit("scale", {"x": name}, attrs={"scale": float(n) ** power}) if power else name


def _body(b: BodyContext) -> bool | None:
    """Compose transforms with other axes, lengths and norms from the transform of the last axis."""
    axis, n, shape = _place(b), b.attr("n"), _shape_of(b)
    is_inverse = b.type.startswith("i")
    last = len(shape) - (1 if b.type == "rfft" else 2)
    plain = b.type == "irfft" or n is None
    if b.attr("axis") == -1 and plain and b.attr("norm") == "backward":
        return False
    length = shape[axis]
    x = b.input("x") or ""
    if b.type == "irfft":
        attrs = {"n": n}
    else:
        attrs = {}
        x, n = _fitted(b, x, axis, length, n), length if n is None else n
    out = b.emit(b.type, {"x": _moved(b, x, axis, last)}, attrs=attrs)
    power = _FACTORS[b.attr("norm")]
    out = _moved(b, out, last, axis)
    b.set_output("out", _scaled(b, out, n, power if is_inverse else -power))
    return None


def conjugated(w: Writer, x: Expression) -> Expression:
    """Emit the conjugates of pairs."""
    attrs = {"values": [1.0, -1.0], "shape": [2], "dtype": dtype_of(w)}
    signs = w.emit("constant", {}, attrs=attrs)
    return x * Expression(w, signs)


def _fft_grad_body(b: BodyContext) -> None:
    """The transform is symmetric, so x_grad is conj(transform(conj(out_grad)))."""
    grad = conjugated(b, read(b, "out_grad"))
    op_type = b.type.removesuffix("_grad")
    made = conjugated(b, grad.then(op_type, axis=b.attr("axis"), norm=b.attr("norm"))).name
    n = b.attr("n")
    if n is not None:
        axis = _place(b)
        made = _fitted(b, made, axis, n, _length(b, axis))
    b.set_output("x_grad", made)


def _length(w: Writer, axis: int) -> int:
    """Return the length of an axis of x; raise GradientError if it is unknown."""
    length = _shape_of(w)[axis]
    if length < 0:
        raise GradientError(f"{w.type}: the length of x must be known, got {length}; declare it")
    return length


def _weights(g: Writer, n: int, inner: float, n_behind: int) -> str:
    """Emit the multiplicity of each pair: inner pairs represent two of the n frequencies."""
    count = n // 2 + 1
    values = [inner] * count
    values[0] = 1.0
    if n % 2 == 0:
        values[-1] = 1.0
    attrs = {"values": values, "shape": [count, *[1] * n_behind], "dtype": dtype_of(g)}
    return g.emit("constant", {}, attrs=attrs)


def _rfft_grad_body(b: BodyContext) -> None:
    """Compositions are expanded when the plan is built, since they depend on lengths."""
    axis = _place(b)
    length, rank = _length(b, axis), len(_shape_of(b))
    n = length if b.attr("n") is None else b.attr("n")
    inputs = {"x": b.input("out_grad"), "y": _weights(b, n, 0.5, rank - axis)}
    made = b.emit("irfft", {"x": b.emit("multiply", inputs)}, attrs={"n": n, "axis": axis})
    made = _scaled(b, made, n, 1 - _FACTORS[b.attr("norm")])
    b.set_output("x_grad", _fitted(b, made, axis, n, length))


def _irfft_gradient(g: GradientContext) -> None:
    n, axis, rank = g.attr("n"), _place(g), len(_shape_of(g))
    made = g.emit("rfft", {"x": g.output_grad("out")}, attrs={"axis": axis})
    weights = _weights(g, n, 2.0, rank - 1 - axis)
    weighed = g.emit("multiply", {"x": made, "y": weights})
    g.set_input_grad("x", _scaled(g, weighed, n, _FACTORS[g.attr("norm")] - 1))


_OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _mirrored_attrs(b: BodyContext) -> dict[str, Any]:
    """Return the attributes of the transform in the other direction."""
    attrs = {"n": b.attr("n"), "axis": b.attr("axis"), "norm": _OPPOSITE[b.attr("norm")]}
    return {name: value for name, value in attrs.items() if value is not None}


def _hfft_body(b: BodyContext) -> None:
    b.set_output("out", conjugated(b, read(b, "x")).then("irfft", **_mirrored_attrs(b)).name)


def _ihfft(b: BodyContext) -> str:
    return conjugated(b, read(b, "x").then("rfft", **_mirrored_attrs(b))).name


def _transform(op_type: str, comment: str, x: str, out: str) -> OpMaker:
    return (
        OpMaker(op_type)
        .add_comment(comment)
        .add_input("x", x)
        .dtypes(*WIDE)
        .add_output("out", f"{out}, dtype of x")
        .same_dtype_as("x")
    )


def _add_places(maker: OpMaker, parts: str) -> OpMaker:
    maker.add_attr("axis", int, f"the transformed axis{parts}").default(-1).as_added()
    maker.add_attr(
        "norm",
        str,
        "normalization by 1 / n: backward in the inverse, forward in the other direction, ortho 1 "
        "/ sqrt(n) in both",
    )
    return maker.default("backward").one_of(*_FACTORS).as_added()


def _add_out_length(maker: OpMaker) -> OpMaker:
    maker.add_attr("n", int, "length of out along axis")
    return maker.required().between(1, 2**31 - 1)


def _add_length(maker: OpMaker) -> OpMaker:
    maker.add_attr(
        "n", int, "number of elements transformed along axis: x is truncated or padded with 0"
    )
    return maker.between(1, 2**31 - 1).as_added()


_PAIRS = "[..., n, 2], real and imaginary parts"
_PARTS = "; the axis of the parts is not counted"

FFT = _add_length(
    _add_places(
        _transform(
            "fft",
            "Discrete Fourier transform of the second to last axis, as numpy.fft.fft: the last "
            "axis contains real and imaginary part.",
            _PAIRS,
            _PAIRS,
        ),
        _PARTS,
    )
).build(
    infer_shape=_pairs_shape,
    gradient=grad_op("fft_grad", gradient=linear_in("x"), body=_fft_grad_body),
    body=_body,
)

IFFT = _add_length(
    _add_places(
        _transform(
            "ifft",
            "Inverse of fft, with the factor 1 / n, as numpy.fft.ifft.",
            _PAIRS,
            _PAIRS,
        ),
        _PARTS,
    )
).build(
    infer_shape=_pairs_shape,
    gradient=grad_op("ifft_grad", gradient=linear_in("x"), body=_fft_grad_body),
    body=_body,
)

RFFT = _add_length(
    _add_places(
        _transform(
            "rfft",
            "Discrete Fourier transform of the real numbers in the last axis, as numpy.fft.rfft: "
            "the first n // 2 + 1 pairs; the others are their conjugates.",
            "[..., n]",
            "[..., n // 2 + 1, 2], real and imaginary parts",
        ),
        "",
    )
).build(
    infer_shape=_rfft_shape,
    gradient=grad_op("rfft_grad", gradient=linear_in("x"), body=_rfft_grad_body),
    body=_body,
)

IRFFT = _add_places(
    _add_out_length(
        _transform(
            "irfft",
            "Inverse of rfft, as numpy.fft.irfft: the imaginary parts of the first pair and, for "
            "even n, of the last pair are not read.",
            "[..., n // 2 + 1, 2], real and imaginary parts",
            "[..., n]",
        )
    ),
    _PARTS,
).build(infer_shape=_irfft_shape, gradient=_irfft_gradient, body=_body)

HFFT = _add_places(
    _add_out_length(
        _transform(
            "hfft",
            "Discrete Fourier transform of a Hermitian signal, of which x is the first half, as "
            "numpy.fft.hfft: real numbers.",
            "[..., n // 2 + 1, 2], real and imaginary parts",
            "[..., n]",
        )
    ),
    _PARTS,
).build(infer_shape=_irfft_shape, body=_hfft_body)

IHFFT = _add_length(
    _add_places(
        _transform(
            "ihfft",
            "Inverse of hfft, as numpy.fft.ihfft: the first n // 2 + 1 pairs.",
            "[..., n]",
            "[..., n // 2 + 1, 2], real and imaginary parts",
        ),
        "",
    )
).build(
    infer_shape=_rfft_shape,
    body=lambda b: b.set_output("out", _ihfft(b)),
    gradient=grad_op("ihfft_grad", needs=["x"], body=by_differentiating(_ihfft)),
)
