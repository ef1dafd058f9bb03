"""fftn, ifftn, rfftn, irfftn and variants: discrete Fourier transforms of several axes.

Complex numbers are pairs of a real and an imaginary part in the last axis, as in fourier.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from opwright.op import (
    BodyContext,
    InferContext,
    OpMaker,
    by_differentiating,
    dims_match,
    format_shape,
    grad_op,
    normalize_axes,
)
from opwright_std.compositions.chain_rules import chain_rule
from opwright_std.compositions.expression import read
from opwright_std.numerics.dtypes import WIDE, Array
from opwright_std.operators.fourier import conjugated
from opwright_std.operators.reduction import known_meta

Ints = tuple[int, ...]
Norm = Literal["backward", "ortho", "forward"]

_PAIRS = "[..., 2], real and imaginary parts"


def fftn(x: Array, out: Array, *, axis: Ints, norm: Norm) -> None:
    _transform(np.fft.fftn, x, out, axis, norm)


def ifftn(x: Array, out: Array, *, axis: Ints, norm: Norm) -> None:
    _transform(np.fft.ifftn, x, out, axis, norm)


def _transform(
    function: Callable[..., Array], x: Array, out: Array, axis: Ints, norm: Norm
) -> None:
    pairs = np.ascontiguousarray(x).view(np.result_type(x.dtype, np.complex64))[..., 0]
    axes = [i % x.ndim for i in axis] or list(range(pairs.ndim))
    result = function(pairs, axes=axes, norm=norm)
    out[..., 0], out[..., 1] = result.real, result.imag


def _pairs(ctx: InferContext) -> tuple[Ints, list[int]]:
    """Return the shape of x, and the transformed axes."""
    shape = ctx.input("x").shape
    if len(shape) < 2 or not dims_match(shape[-1], 2):
        ctx.fail(
            "x must be [..., 2], real and imaginary part in the last axis, got "
            f"{format_shape(shape)}; stack adds an imaginary part"
        )
    axes = list(normalize_axes(ctx, ctx.attr("axis"), len(shape))) if ctx.attr("axis") else []
    if len(shape) - 1 in axes:
        ctx.fail(
            "axis must not contain the last axis, the real and imaginary parts, got "
            f"{list(ctx.attr('axis'))}"
        )
    axes = axes or list(range(len(shape) - 1))
    if any(shape[i] == 0 for i in axes):
        ctx.fail(f"the axes of x must have elements, got {format_shape(shape)}")
    return shape, axes


def _pairs_shape(ctx: InferContext) -> None:
    """The output has the shape of x."""
    ctx.set_output("out", _pairs(ctx)[0])


# The transform is symmetric, so x_grad is conj(transform(conj(out_grad))).
_FFTN_RULE = chain_rule(lambda grad, g: conjugated(g, conjugated(g, grad).then(g.type, **g.attrs)))


def _maker(
    op_type: str, comment: str, x: str, out: str, axes: str, default: Sequence[int] = ()
) -> OpMaker:
    return (
        OpMaker(op_type)
        .add_comment(comment)
        .add_input("x", x)
        .dtypes(*WIDE)
        .add_output("out", f"{out}; dtype of x")
        .same_dtype_as("x")
        .add_attr("axis", list[int], axes)
        .default(list(default))
        .add_attr(
            "norm",
            str,
            "normalization: 1 / n in the inverse (backward) or in the other direction (forward), "
            "or 1 / sqrt(n) in both",
        )
        .default("backward")
        .one_of("backward", "ortho", "forward")
    )


_ALL = "the transformed axes, without the last; none given: all others"

FFTN = _maker(
    "fftn",
    "Discrete Fourier transform of several axes, as numpy.fft.fftn: the last axis contains real "
    "and imaginary part.",
    _PAIRS,
    _PAIRS,
    _ALL,
).build(infer_shape=_pairs_shape, gradient=_FFTN_RULE)

IFFTN = _maker("ifftn", "Inverse of fftn, as numpy.fft.ifftn.", _PAIRS, _PAIRS, _ALL).build(
    infer_shape=_pairs_shape, gradient=_FFTN_RULE
)


def _real_shape(ctx: InferContext) -> None:
    """The output has n // 2 + 1 pairs along the last of the axes."""
    shape = list(ctx.input("x").shape)
    ctx.require(len(shape) > 0, "x must have at least 1 axis, got a scalar")
    axes = list(normalize_axes(ctx, ctx.attr("axis"), len(shape)))
    if any(shape[i] == 0 for i in axes):
        ctx.fail(f"the axes of x must have elements, got {format_shape(shape)}")
    last = _last_axes(ctx.attr("axis"), len(shape))[-1]
    shape[last] = shape[last] // 2 + 1 if shape[last] > 0 else -1
    ctx.set_output("out", (*shape, 2))


def _last_axes(axis: Sequence[int], rank: int) -> list[int]:
    return [i % rank for i in axis] or list(range(rank))


def _real_transform(b: BodyContext) -> str:
    *others, last = _last_axes(b.attr("axis"), len(known_meta(b).shape))
    norm = b.attr("norm")
    out = read(b, "x").then("rfft", axis=last, norm=norm)
    if others:
        out = out.then("fftn", axis=others, norm=norm)
    return out.name


RFFTN = _maker(
    "rfftn",
    "Discrete Fourier transform of real numbers along several axes, as numpy.fft.rfftn: along the "
    "last one only the first n // 2 + 1 pairs.",
    "real numbers of any shape but []",
    "[..., 2], n // 2 + 1 pairs along the last of the axes",
    "the transformed axes; none given: all",
).build(
    infer_shape=_real_shape,
    body=lambda b: b.set_output("out", _real_transform(b)),
    gradient=grad_op("rfftn_grad", needs=["x"], body=by_differentiating(_real_transform)),
)


def _irfftn_shape(ctx: InferContext) -> None:
    """The output has n numbers along the last of the axes; the axis of pairs is removed."""
    shape, _ = _pairs(ctx)
    n, last = ctx.attr("n"), _last_axes(ctx.attr("axis") or range(len(shape) - 1), len(shape))[-1]
    if not dims_match(shape[last], n // 2 + 1):
        ctx.fail(
            f"x must have n // 2 + 1 = {n // 2 + 1} pairs along axis {last} for n = {n}, got "
            f"{format_shape(shape)}; slice or pad it"
        )
    ctx.set_output("out", (*shape[:last], n, *shape[last + 1 : -1]))


def _irfftn_body(b: BodyContext) -> None:
    rank, n, norm = len(known_meta(b).shape), b.attr("n"), b.attr("norm")
    *others, last = _last_axes(b.attr("axis") or range(rank - 1), rank)
    x = read(b, "x")
    if others:
        x = x.then("ifftn", axis=others, norm=norm)
    b.set_output("out", x.then("irfft", n=n, axis=last, norm=norm).name)


IRFFTN = (
    _maker(
        "irfftn",
        "Inverse of rfftn, as numpy.fft.irfftn, of n numbers along the last of the axes.",
        "[..., 2], n // 2 + 1 pairs along the last of the axes",
        "[...], n numbers along that axis",
        _ALL,
    )
    .add_attr("n", int, "length of out along the last of the axes")
    .required()
    .between(1, 2**31 - 1)
    .build(infer_shape=_irfftn_shape, body=_irfftn_body)
)


def _of_images(op_type: str, comment: str) -> OpMaker:
    axes = "the two transformed axes, without the last"
    return _maker(op_type, comment, _PAIRS, _PAIRS, axes, [-3, -2])


def _images_body(b: BodyContext) -> None:
    attrs = {"axis": b.attr("axis"), "norm": b.attr("norm")}
    b.emit(f"{b.type[:-1]}n", {"x": b.input("x")}, {"out": b.output("out")}, attrs)


FFT2 = _of_images("fft2", "fftn of two axes, as numpy.fft.fft2.").build(
    infer_shape=_pairs_shape, body=_images_body
)

IFFT2 = _of_images("ifft2", "ifftn of two axes, as numpy.fft.ifft2.").build(
    infer_shape=_pairs_shape, body=_images_body
)
